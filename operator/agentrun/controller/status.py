"""The whole status of a run, from its state. Pure; an output only, under 64 KiB always (design 4, C36)."""

import datetime as dt
from typing import Any, TypeGuard

import msgspec

from agentrun.api.agentclass import OpenTarget
from agentrun.api.naming import json_name
from agentrun.controller.conditions import Mark, Seen, render
from agentrun.controller.names import revision_name
from agentrun.core.ledger import LIMITED
from agentrun.core.state import State, Step
from agentrun.core.visible import visible_reason, visible_state
from agentrun.kube.reading import members

Object = dict[str, Any]
SUMMARY_BYTES = 4096
LIST_LIMIT = 32
NAME_LIMIT = 253
NODE_PORT = ":10250"


# Tried in turn until the status fits: longest text for people, longest list. The last fits whatever the rest holds.
CUTS = ((SUMMARY_BYTES, LIST_LIMIT), (400, LIST_LIMIT), (100, 4))
STATUS_BYTES = 60 << 10  # 64 KiB less what the API server's own form may add
TEXTS = ("message", "summary")
LISTS = ("artifacts", "pendingCalls", "unresolvedEffects")


class JournalHead(msgspec.Struct, frozen=True):
    """Where the journal stands; makes the API server refuse a stale writer."""

    epoch: int
    fence: int
    seq: int
    hash: str


def fitted(status: Object) -> Object:
    """The status with its texts and lists cut until it is under 64 KiB as the API server keeps it (C36)."""
    shorter = status
    for chars, items in CUTS:
        shorter = _cut(status, chars, items)
        if _stored_bytes(shorter) <= STATUS_BYTES:
            return shorter
    return shorter


def _stored_bytes(status: Object) -> int:
    """The API server escapes three characters that others write as they are."""
    raw = msgspec.json.encode(status)
    return len(raw) + sum(5 * raw.count(character) for character in (b"<", b">", b"&"))


def _cut(status: Object, chars: int, items: int) -> Object:
    return {name: _cut_member(name, value, chars, items) for name, value in status.items()}


def _cut_member(name: str, value: Any, chars: int, items: int) -> Any:
    if isinstance(value, str):
        return value[:chars] if name in TEXTS else value
    if _is_object(value):
        return _cut(value, chars, items)
    if _is_list_of_objects(value):
        return [_cut(one, chars, items) for one in (value[:items] if name in LISTS else value)]
    return value


def _is_object(value: Any) -> TypeGuard[Object]:
    return isinstance(value, dict)


def _is_list_of_objects(value: Any) -> TypeGuard[list[Object]]:
    return isinstance(value, list) and all(map(_is_object, value))  # pyright: ignore[reportUnknownArgumentType]


def iso(micros: int) -> str:
    """RFC 3339 of microseconds UTC."""
    return dt.datetime.fromtimestamp(micros / 1_000_000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pending_status(generation: int, marks: list[Mark], before: Object, now: int) -> Object:
    """Of a run without a history."""
    return {
        "state": "created",
        "reason": marks[0].reason.value,
        "message": marks[0].message[:1000],
        "observedGeneration": generation,
        "conditions": render(marks, generation, members(before, "conditions"), iso(now)),
    }


def stopped_status(generation: int, marks: list[Mark], mode: str, before: Object, now: int) -> Object:
    """Of a run that was stopped before it had a history."""
    reason = "Killed" if mode == "Kill" else "Cancelled"
    shown = pending_status(generation, marks, before, now)
    return shown | {"state": "failed", "reason": reason, "message": "stopped before it started"}


def run_status(
    state: State, head: JournalHead, marks: list[Mark], seen: Seen, generation: int, before: Object, now: int
) -> Object:
    """Of a run with a history."""
    status: Object = {
        "state": visible_state(state).value,
        "reason": visible_reason(state),
        "message": _message(state),
        "observedGeneration": generation,
        "definition": {
            "revision": revision_name(state.definition, state.template_digest),
            "digest": state.template_digest,
            "reducerVersion": state.reducer_version,
        },
        "inputDigest": state.input_digest,
        "pendingCalls": [_pending(state, step) for step in state.flying if step.kind == "tool"][:LIST_LIMIT],
        "budget": _budget(state),
        "budgetSummary": _budget_summary(state),
        "waitingOn": _waiting_on(state),
        "unresolvedEffects": [_unresolved(state, call_id) for call_id in state.unresolved][:LIST_LIMIT],
        "result": _result(state),
        "head": msgspec.to_builtins(head),
        "conditions": render(marks, generation, members(before, "conditions"), iso(now)),
    }
    return {
        key: value for key, value in (status | _times(state) | _sandbox(state, seen)).items() if value not in ("", None)
    }


def _message(state: State) -> str:
    return state.outcome.message[:1000] if state.outcome else ""


def _times(state: State) -> Object:
    times: Object = {}
    if state.admitted_at:
        times["startedAt"] = iso(state.admitted_at)
    if state.outcome is not None:
        times["finishedAt"] = iso(state.outcome.at)
    milestones = state.milestones
    named = {
        "cancelRequested": milestones.requested,
        "acknowledged": milestones.acknowledged,
        "quiescent": milestones.quiescent,
    }
    if milestones.requested:
        times["milestones"] = {name: iso(at) for name, at in named.items() if at}
    return times


def _sandbox(state: State, seen: Seen) -> Object:
    pod = state.pod("work") or state.pod("verify")
    if pod is None:
        return {}
    targets = _open_targets(seen.pod.open_targets) if seen.pod else []
    image = seen.pod.image_ids[0][:512] if seen.pod and seen.pod.image_ids else None
    shown = {"podName": pod.name, "podUID": pod.uid, "imageID": image, "openTargets": targets}
    return {"sandbox": {key: value for key, value in shown.items() if value}}


def _open_targets(found: tuple[str, ...]) -> list[str]:
    """The guard tells addresses, the API knows two names: the node by its kubelet's port, else the API server."""
    names = {OpenTarget.NODE_IP if one.endswith(NODE_PORT) else OpenTarget.API_SERVER for one in found}
    return sorted(name.value for name in names)


def _pending(state: State, step: Step) -> Object:
    call = state.call(step.id)
    return {"id": step.id, "tool": call.tool[:64] if call else "", "deadline": iso(step.deadline)}


def _unresolved(state: State, call_id: str) -> Object:
    call = state.call(call_id)
    return {"callID": call_id, "tool": call.tool[:64] if call else "", "since": iso(state.at)}


def _budget(state: State) -> Object:
    shown: Object = {}
    for name in LIMITED:
        granted = getattr(state.plan.budget, name)
        if granted is not None:
            reserved, used = getattr(state.ledger.reserved, name), getattr(state.ledger.used, name)
            shown[json_name(name)] = {"granted": granted, "reserved": reserved, "used": used}
    return shown


def _budget_summary(state: State) -> str:
    """The limit nearest its end."""
    shares = {
        name: (use["used"] + use["reserved"]) / use["granted"] if use["granted"] else 1.0
        for name, use in _budget(state).items()
    }
    if not shares:
        return ""
    name = max(shares, key=lambda key: shares[key])
    use = _budget(state)[name]
    return f"{name} {use['used'] + use['reserved']}/{use['granted']}"[:64]


def _waiting_on(state: State) -> str:
    if state.terminal:
        return ""
    flying = [step.id for step in state.flying]
    if flying:
        return f"{state.flying[0].kind} {', '.join(flying)}"[:128]
    return "a person" if state.paused or state.unresolved else ""


def _result(state: State) -> Object | None:
    if state.final is None and not state.artifacts:
        return None
    summary = (state.final or "").encode()[:SUMMARY_BYTES].decode(errors="ignore")
    artifacts = {  # by name: the API server refuses a list that names one twice
        item.name[:NAME_LIMIT]: {"name": item.name[:NAME_LIMIT], "digest": item.digest, "bytes": item.size,
                                 "mediaType": item.media_type[:128]}
        for item in state.artifacts if item.name
    }  # fmt: skip
    return {"summary": summary, "artifacts": list(artifacts.values())[:LIST_LIMIT]}
