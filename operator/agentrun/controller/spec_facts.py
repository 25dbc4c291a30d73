"""What people say in a run's spec, as facts with their source keys. Pure; each is accepted once (design 5)."""

from typing import Any

from agentrun.core.events import Actor, ControlFact, ModeChanged, SteeringAdded, StopRequested
from agentrun.core.state import State
from agentrun.kube.reading import member, members

Object = dict[str, Any]
Facts = list[tuple[ControlFact, str]]


def spec_facts(run: Object, state: State, steering_digests: dict[str, str]) -> Facts:
    """Facts that the history may not hold yet; one that it holds is refused by its source key."""
    spec, generation = run["spec"], int(run["metadata"].get("generation", 1))
    return [
        *_mode(spec, generation, state),
        *_stop(spec, generation, state),
        *_steering(spec, state, steering_digests),
    ]


def actor(spec: Object, key: str) -> Actor:
    """Who did it, as stamped; without a stamp nobody is named."""
    stamp = member(member(spec, "attribution"), key)
    return Actor(str(stamp.get("username", "")), str(stamp.get("uid", "")))


def _mode(spec: Object, generation: int, state: State) -> Facts:
    paused = spec.get("operatingMode") == "Paused"
    if paused == state.paused:
        return []
    fact = ModeChanged(paused=paused, generation=generation, actor=actor(spec, "operatingMode"))
    return [(fact, f"spec/{generation}/operatingMode")]


def _stop(spec: Object, generation: int, state: State) -> Facts:
    stop = spec.get("stop")
    if not stop or (state.stop is not None and state.stop.mode in (stop["mode"], "Kill")):
        return []
    fact = StopRequested(stop["mode"], actor(spec, f"stop/{stop['mode']}"), stop.get("message") or "")
    return [(fact, f"spec/{generation}/stop")]


def _steering(spec: Object, state: State, digests: dict[str, str]) -> Facts:
    known = {steer.id for steer in state.steering}
    return [
        (
            SteeringAdded(item["id"], digests[item["id"]], item["deliverAt"], actor(spec, f"steering/{item['id']}")),
            f"steering/{item['id']}",
        )
        for item in members(spec, "steering")
        if item["id"] not in known and item["id"] in digests
    ]
