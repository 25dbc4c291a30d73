"""What the operator sends: status alone of what is the users', nothing twice, stale writers retried (R0.4, C35)."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.histories import dispatched, replied
from tests.unit.controller.apiserver import ApiServer, refusal
from tests.unit.controller.bench import RUN_PATH, Bench
from tests.unit.controller.objects import RUN_UID, run

from agentrun.api.conditions import ConditionType
from agentrun.controller import status_writer
from agentrun.controller.definitions import reconcile_definition
from agentrun.controller.status_writer import StatusWriter
from agentrun.core.events import WorkspaceGot
from agentrun.kube import Conflict, KubeClient, Unavailable

Object = dict[str, Any]
WRITES = ("POST", "PUT", "PATCH", "DELETE")
READY: Object = {"state": "ready", "conditions": []}
MODEL: Object = {"state": "waiting_model", "conditions": []}
PAUSED: Object = {"state": "paused", "conditions": []}


async def a_whole_life(one: Bench) -> None:
    await one.turns()
    one.pod_runs()
    await one.turns()
    one.run_spec(2, operatingMode="Paused")
    await one.turns()
    one.run_spec(3, operatingMode="Active")
    await one.turns()
    await one.happens(dispatched("t1"), replied("t1"))
    await one.turns()
    await one.happens(dispatched("get1"), WorkspaceGot("get1", 1, "sha256:" + "a" * 64))
    await one.turns(4)


async def test_of_the_users_objects_only_the_status_is_ever_written_C35(one: Bench) -> None:
    await a_whole_life(one)
    (definition,) = one.api.named("agentdefinitions")
    await reconcile_definition(one.kube, definition, class_found=True)
    written = [asked for asked in one.api.asked if asked.method in WRITES and "/agentrun.dev/" in asked.path]
    assert len(written) > 4
    for asked in written:
        assert (asked.method, asked.path.rsplit("/", 1)[1]) == ("PATCH", "status")
        assert asked.body.keys() == {"apiVersion", "kind", "metadata", "status"}
        assert asked.body["metadata"].keys() == {"name", "namespace", "uid"}
        assert asked.query == {"fieldManager": "agentrun-operator", "force": "true"}
    run_now, before = one.api.objects[RUN_PATH], run()
    assert run_now["metadata"]["labels"] == before["metadata"]["labels"]
    assert run_now["metadata"]["annotations"] == before["metadata"]["annotations"]


async def test_every_status_has_every_condition_of_the_generation_it_speaks_of(one: Bench) -> None:
    await a_whole_life(one)
    for asked in one.api.of("PATCH", "/agentruns/"):
        status = asked.body["status"]
        assert [condition["type"] for condition in status["conditions"]] == list(ConditionType)
        assert {condition["observedGeneration"] for condition in status["conditions"]} == {status["observedGeneration"]}
    assert one.status()["observedGeneration"] == 3


async def test_a_pass_over_what_has_not_changed_writes_nothing(one: Bench) -> None:
    await one.turns()
    one.pod_runs()
    await one.turns()
    history, before = await one.history(), len(one.api.asked)
    await one.turns(5)
    assert [asked for asked in one.api.asked[before:] if asked.method in WRITES] == []
    assert await one.history() == history


async def test_a_new_operator_finds_nothing_to_do_where_nothing_changed(one: Bench) -> None:
    await a_whole_life(one)
    status, before = one.status(), len(one.api.asked)
    one.restart()
    await one.turns()
    assert [asked for asked in one.api.asked[before:] if asked.method in WRITES] == []
    assert one.status() == status


async def test_progress_is_written_at_most_every_ten_seconds_and_what_is_waited_for_at_once(
    api: ApiServer, kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put(RUN_PATH, run())
    writer, now = StatusWriter(kube), [1000.0]
    monkeypatch.setattr(status_writer, "time", SimpleNamespace(monotonic=lambda: now[0]))  # its own clock only
    assert await writer.write(run(), READY) is None
    now[0] += 3
    assert await writer.write(run(), MODEL) == pytest.approx(7)
    assert await writer.write(run(), PAUSED) is None
    now[0] += 10
    assert await writer.write(run(), PAUSED) is None
    assert [asked.body["status"]["state"] for asked in api.of("PATCH")] == ["ready", "paused"]
    now[0] += 10
    assert await writer.write(run(), {**PAUSED, "message": "later"}) is None
    assert len(api.of("PATCH")) == 3


async def test_a_refused_write_is_raised_and_the_next_pass_writes_it_again_C6(api: ApiServer, kube: KubeClient) -> None:
    api.put(RUN_PATH, run())
    writer = StatusWriter(kube)
    await writer.write(run(), READY)
    answers = [(refusal(409, "Conflict", "x"), Conflict), (refusal(500, "InternalError", "x"), Unavailable)]
    api.rules.append(lambda _asked: answers[0][0] if answers else None)
    while answers:
        with pytest.raises(answers[0][1]):
            await writer.write(run(), PAUSED)
        answers.pop(0)
    await writer.write(run(), PAUSED)
    assert api.objects[RUN_PATH]["status"] == PAUSED


async def test_the_status_of_a_run_deleted_meanwhile_goes_nowhere(api: ApiServer, kube: KubeClient) -> None:
    assert await StatusWriter(kube).write(run(), READY) is None
    assert not api.objects


async def test_a_run_made_again_under_its_name_does_not_get_the_old_ones_status_C9(
    api: ApiServer, kube: KubeClient
) -> None:
    again = run()
    again["metadata"]["uid"] = "another"
    api.put(RUN_PATH, again)
    with pytest.raises(Conflict):
        await StatusWriter(kube).write(run(), READY)
    assert "status" not in api.objects[RUN_PATH]


async def test_what_was_seen_is_the_last_status_until_one_is_written(api: ApiServer, kube: KubeClient) -> None:
    api.put(RUN_PATH, run())
    writer = StatusWriter(kube)
    assert writer.last(RUN_UID, MODEL) == MODEL
    await writer.write(run(), READY)
    assert writer.last(RUN_UID, MODEL) == READY
    writer.forget(RUN_UID)
    assert writer.last(RUN_UID, MODEL) == MODEL
