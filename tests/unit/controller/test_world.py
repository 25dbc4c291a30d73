"""The cache: a full list ends ghosts, and never takes what came meanwhile for gone (C1, C6)."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentrun.controller.world import Kind, World

Object = dict[str, Any]
UIDS = st.sampled_from([f"u{number}" for number in range(9)])


def run(uid: str, version: int = 1) -> Object:
    meta = {"uid": uid, "name": f"run-{uid}", "namespace": "team", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {}}


def test_a_run_made_while_the_list_was_on_its_way_is_not_gone() -> None:
    world = World()
    world.begin_list("agentruns")
    world.take("agentruns", "ADDED", run("u1"))
    assert world.replace("agentruns", []) == []
    assert world.runs.uid("u1") is not None


def test_a_run_deleted_while_the_list_was_on_its_way_is_no_ghost() -> None:
    world = World()
    world.take("agentruns", "ADDED", run("u1"))
    world.begin_list("agentruns")
    world.take("agentruns", "DELETED", run("u1"))
    assert world.replace("agentruns", [run("u1")]) == []
    assert world.runs.uid("u1") is None


def test_a_run_whose_deletion_was_missed_is_gone_with_the_next_list() -> None:
    world = World()
    world.take("agentruns", "ADDED", run("u1"))
    world.begin_list("agentruns")
    assert [found["metadata"]["uid"] for found in world.replace("agentruns", [])] == ["u1"]


def test_of_two_with_one_name_the_later_stays() -> None:
    kind = Kind()
    kind.put(run("u1") | {"metadata": {"uid": "u1", "name": "same", "namespace": "team"}})
    kind.put(run("u2") | {"metadata": {"uid": "u2", "name": "same", "namespace": "team"}})
    kind.drop(run("u1") | {"metadata": {"uid": "u1", "name": "same", "namespace": "team"}})
    found = kind.name("team", "same")
    assert found is not None
    assert found["metadata"]["uid"] == "u2"


class CacheMachine(RuleBasedStateMachine):
    """A server, a watch that may lose deletions, and lists that take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = Kind()
        self.server: set[str] = set()
        self.listed: set[str] | None = None
        self.missed: set[str] = set()
        self.ever: set[str] = set()

    @rule(uid=UIDS)
    def create(self, uid: str) -> None:
        if uid in self.ever:
            return  # the API server gives no UID twice
        self.ever.add(uid)
        self.server.add(uid)
        self.kind.put(run(uid))

    @rule(uid=UIDS)
    def delete(self, uid: str) -> None:
        self.server.discard(uid)
        self.missed.discard(uid)
        self.kind.drop(run(uid))

    @rule(uid=UIDS)
    def delete_unseen(self, uid: str) -> None:
        if uid in self.server:
            self.server.discard(uid)
            self.missed.add(uid)

    @rule()
    def begin(self) -> None:
        if self.listed is None:
            self.kind.begin_list()
            self.listed = set(self.server)
            self.unseen_before = set(self.missed)

    @rule()
    def arrive(self) -> None:
        if self.listed is None:
            return
        self.kind.replace([run(uid) for uid in self.listed])
        back = self.listed & self.missed  # deleted unseen after the list was made: the next one ends it
        self.missed = back | {uid for uid in self.missed if uid not in self.unseen_before}
        self.listed = None

    @invariant()
    def what_is_there_is_never_taken_for_gone(self) -> None:
        cached = {found["metadata"]["uid"] for found in self.kind.items()}
        assert self.server <= cached

    @invariant()
    def only_a_missed_deletion_lives_on(self) -> None:
        cached = {found["metadata"]["uid"] for found in self.kind.items()}
        assert cached - self.server <= self.missed


TestCache = CacheMachine.TestCase
