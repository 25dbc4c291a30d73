"""What people say in a spec, as facts that are each accepted once; the last generation wins (R9, C14)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.histories import History
from tests.unit.controller.objects import run

from agentrun.controller.spec_facts import actor, spec_facts
from agentrun.core.events import Actor, ModeChanged, SteeringAdded, StopRequested

Object = dict[str, Any]


class Told:
    """A history that takes each source key once, as the journal does."""

    def __init__(self) -> None:
        self.history = History().admit()
        self.keys: set[str] = set()

    def look(self, seen: Object, digests: dict[str, str] | None = None) -> int:
        """One pass of the operator over what it sees; returns how many facts were taken."""
        taken = 0
        for fact, key in spec_facts(seen, self.history.now, digests or {}):
            if key not in self.keys:
                self.keys.add(key)
                self.history.add(fact, source_key=key)
                taken += 1
        return taken


def test_a_spec_that_asks_for_nothing_says_nothing() -> None:
    assert spec_facts(run(), History().admit().now, {}) == []
    assert spec_facts(run(operatingMode="Active", stop=None, steering=[]), History().admit().now, {}) == []


def test_pausing_is_a_fact_of_its_generation_by_whom_it_was_stamped() -> None:
    stamps = {"operatingMode": {"username": "bob", "uid": "u-2"}}
    ((fact, key),) = spec_facts(run(7, operatingMode="Paused", attribution=stamps), History().admit().now, {})
    assert fact == ModeChanged(paused=True, generation=7, actor=Actor("bob", "u-2"))
    assert key == "spec/7/operatingMode"


def test_the_same_spec_seen_again_says_nothing_new() -> None:
    told = Told()
    seen = run(2, operatingMode="Paused", stop={"mode": "Cancel"})
    assert told.look(seen) == 2
    assert told.look(seen) == 0
    assert spec_facts(seen, told.history.now, {}) == []


def test_a_stale_pause_seen_after_the_resume_changes_nothing_C14() -> None:
    told = Told()
    for generation, mode in ((2, "Paused"), (3, "Active")):
        told.look(run(generation, operatingMode=mode))
    told.look(run(2, operatingMode="Paused"))
    assert told.history.now.paused is False


def test_a_pause_skipped_by_the_watch_and_shown_late_changes_nothing_C14() -> None:
    told = Told()
    told.look(run(2, operatingMode="Paused"))
    told.look(run(5, operatingMode="Active"))
    told.look(run(4, operatingMode="Paused"))
    assert told.history.now.paused is False


MODES = st.lists(st.sampled_from(["Active", "Paused"]), min_size=1, max_size=12)


@given(MODES, st.data())
def test_in_whatever_order_generations_are_seen_the_last_one_wins_C14(modes: list[str], data: st.DataObject) -> None:
    told = Told()
    last = len(modes)
    seen = data.draw(st.lists(st.integers(1, last), max_size=24))
    for generation in [*seen, last]:
        told.look(run(generation, operatingMode=modes[generation - 1]))
    assert told.history.now.paused is (modes[-1] == "Paused")


def test_cancel_may_become_kill_and_each_names_who_asked_R9() -> None:
    told = Told()
    stamps = {"stop/Cancel": {"username": "ann"}, "stop/Kill": {"username": "root", "uid": "u-0"}}
    assert told.look(run(2, stop={"mode": "Cancel", "message": "enough"}, attribution=stamps)) == 1
    assert told.history.now.stop is not None
    assert (told.history.now.stop.mode, told.history.now.stop.actor) == ("Cancel", "ann")
    assert told.look(run(3, stop={"mode": "Kill"}, attribution=stamps)) == 1
    assert (told.history.now.stop.mode, told.history.now.stop.actor) == ("Kill", "root")
    assert told.look(run(2, stop={"mode": "Cancel", "message": "enough"}, attribution=stamps)) == 0
    assert told.history.now.stop.mode == "Kill"


def test_a_stop_carries_its_message() -> None:
    ((fact, key),) = spec_facts(run(2, stop={"mode": "Kill", "message": "now"}), History().admit().now, {})
    assert (fact, key) == (StopRequested("Kill", Actor(""), "now"), "spec/2/stop")


def steer(name: str) -> Object:
    return {"id": name, "message": f"do {name}", "deliverAt": "NextModelCall"}


def test_each_steering_entry_is_one_fact_whatever_else_changes_C53() -> None:
    told = Told()
    digests = {"a": "sha256:a", "b": "sha256:b"}
    assert told.look(run(2, steering=[steer("a")]), digests) == 1
    assert told.look(run(3, steering=[steer("a"), steer("b")]), digests) == 1
    assert told.look(run(9, steering=[steer("a"), steer("b")]), digests) == 0
    assert [one.id for one in told.history.now.steering] == ["a", "b"]


def test_a_message_that_is_not_stored_yet_is_no_fact_yet() -> None:
    assert spec_facts(run(steering=[steer("a")]), History().admit().now, {}) == []


def test_a_steering_entry_names_its_writer() -> None:
    stamps = {"steering/a": {"username": "bob"}}
    seen = run(steering=[steer("a")], attribution=stamps)
    ((fact, key),) = spec_facts(seen, History().admit().now, {"a": "sha256:a"})
    assert fact == SteeringAdded("a", "sha256:a", "NextModelCall", Actor("bob"))
    assert key == "steering/a"


def test_without_a_stamp_nobody_is_named_R1() -> None:
    specs: list[Object] = [{}, {"attribution": None}, {"attribution": {"run": None}}, {"attribution": {"other": {}}}]
    for spec in specs:
        assert actor(spec, "run") == Actor("")
