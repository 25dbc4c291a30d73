"""The caller's own writes: create and merge patch, strictly checked by the API server, every problem named."""

from typing import Any, cast
from urllib.parse import quote

import msgspec

from agentrun.cli.plain import Refused, run_refused
from agentrun.cli.session import Session
from agentrun.kube.client import MERGE
from agentrun.kube.errors import Conflict, Invalid, error_of
from agentrun.kube.reading import member, members
from agentrun.kube.resources import RUNS

Object = dict[str, Any]
# Strict: a misspelt field is refused, where the API server would else drop it in silence.
_QUERY = "fieldManager=kubectl-agentrun&fieldValidation=Strict"


async def create_run(session: Session, body: Object) -> Object:
    """The AgentRun as created. Raises Refused."""
    name = str(body["metadata"].get("name", ""))
    return await _send(session, "POST", RUNS.path(session.namespace), body, "application/json", name)


async def patch_spec(session: Session, run: Object, spec: Object) -> Object:
    """Merge into `spec` of that very run (by UID, so a new one of the same name is left alone). Raises Refused."""
    meta = run["metadata"]
    body = {"metadata": {"uid": meta["uid"]}, "spec": spec}
    return await _send(session, "PATCH", RUNS.path(session.namespace, quote(meta["name"])), body, MERGE, meta["name"])


async def _send(session: Session, method: str, path: str, body: Object, kind: str, name: str) -> Object:
    content = msgspec.json.encode(body)
    headers = {"Content-Type": kind, "Accept": "application/json"}
    response = await session.kube.raw(method, f"{path}?{_QUERY}", headers=headers, body=content)
    answer = _decoded(response.content)
    if response.is_success:
        return answer
    error = error_of(response.status_code, answer)
    problems = _problems(answer)
    if _replaced(answer):
        error = Conflict(error.status, error.reason, error.message)
    if isinstance(error, Invalid) and problems:
        raise Refused("the API server refuses it:\n" + "\n".join(f"  {problem}" for problem in problems))
    raise run_refused(error, session.namespace, name)


def _decoded(content: bytes) -> Object:
    try:
        found: Any = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return {"message": content[:500].decode(errors="replace")}
    return cast("Object", found) if isinstance(found, dict) else {}


def _replaced(status: Object) -> bool:
    """Another run has the name: to the API server our UID is then a try to change an immutable field."""
    return any(cause.get("field") == "metadata.uid" for cause in members(member(status, "details"), "causes"))


def _problems(status: Object) -> list[str]:
    """`field: what is wrong and what to do`, one per cause the API server names."""
    causes = [cause for cause in members(member(status, "details"), "causes") if cause.get("field")]
    return [f"{cause['field']}: {_fix(str(cause.get('message', '')))}" for cause in causes]


def _fix(message: str) -> str:
    """`Invalid value: "object": <rule's own message>`: the rule's message says what to do."""
    head, found, tail = message.partition('Invalid value: "object": ')
    return tail if found and not head else message
