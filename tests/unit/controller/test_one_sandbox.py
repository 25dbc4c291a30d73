"""One run, one sandbox, whatever fails on the way and however old the cache is (C1, C2, C6, C26)."""

from typing import Any

import pytest
from tests.histories import dispatched, replied
from tests.unit.controller.apiserver import Asked, refusal
from tests.unit.controller.bench import RUN_PATH, Bench
from tests.unit.controller.objects import RUN_UID

from agentrun.controller.names import pod_name
from agentrun.core.events import WorkspaceGot, decode
from agentrun.kube import KubeError

Object = dict[str, Any]
POD_PATH = f"/api/v1/namespaces/team/pods/{pod_name('run-1', RUN_UID, 'work', 1)}"


async def kinds(one: Bench) -> list[str]:
    return [type(decode(record)).__name__ for record in await one.history()]


async def test_a_run_gets_its_pod_with_its_policy_and_says_so(one: Bench) -> None:
    await one.turns()
    assert [found["metadata"]["uid"] for found in one.pods()]
    assert one.api.named("networkpolicies")
    assert one.conditions()["SandboxReady"] == ("False", "Pending")
    one.pod_runs()
    await one.turns()
    assert one.conditions()["SandboxReady"] == ("True", "Ready")
    assert await kinds(one) == ["RunCreated", "RunAdmitted", "SandboxStarted"]


@pytest.mark.parametrize("answer", [refusal(500, "InternalError", "no"), refusal(409, "Conflict", "somebody else")])
@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize("stale", [True, False])
async def test_a_status_write_that_fails_leaves_one_sandbox_C6(
    one: Bench, answer: tuple[int, Object], restarted: bool, stale: bool
) -> None:
    one.api.rules.append(lambda asked: answer if asked.path == f"{RUN_PATH}/status" else None)
    for _ in range(3):
        with pytest.raises(KubeError):
            await one.turn()
        if restarted:
            one.restart()
        if not stale:
            one.see()
    one.api.rules.clear()
    (before,) = one.pods()
    await one.turns()
    assert one.pods() == [before]
    assert await kinds(one) == ["RunCreated", "RunAdmitted"]
    assert one.status()["state"] == "ready"


async def test_an_answer_lost_after_the_pod_was_made_leaves_one_sandbox_C6(one: Bench) -> None:
    def lost(asked: Asked) -> tuple[int, Object] | None:
        if asked.method != "POST" or not asked.path.endswith("/pods") or one.pods():
            return None
        one.api.create(asked)
        return refusal(504, "Timeout", "the answer was lost")

    one.api.rules.append(lost)
    with pytest.raises(KubeError):
        await one.turn()
    (before,) = one.pods()
    await one.turns()
    assert one.pods() == [before]


async def test_a_cache_that_has_not_seen_the_pod_leads_to_no_second_C1(one: Bench) -> None:
    for generation in range(1, 5):
        one.api.objects[RUN_PATH]["metadata"]["labels"] = {"churn": str(generation)}
        one.world.take("agentruns", "MODIFIED", dict(one.api.objects[RUN_PATH]))
        await one.turn()
    (made,) = one.pods()
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == [RUN_UID]
    assert not one.api.of("DELETE")


async def test_a_pod_is_the_runs_by_owner_uid_whatever_its_labels_become_C1(one: Bench) -> None:
    await one.turns()
    found = one.pod_runs()
    await one.turns()
    for labels in ({"agentrun.dev/run-uid": "another", "agentrun.dev/purpose": "verify"}, {}):
        found["metadata"]["labels"] = labels
        one.world.take("pods", "MODIFIED", dict(found, metadata=dict(found["metadata"])))
        await one.turn()
    assert len(one.pods()) == 1
    assert await kinds(one) == ["RunCreated", "RunAdmitted", "SandboxStarted"]
    del one.api.objects[POD_PATH]
    one.world.take("pods", "DELETED", found)
    await one.turn()
    assert (await kinds(one))[3:] == ["SandboxLost", "SandboxGone"]


@pytest.mark.parametrize("owner", [[], [{"kind": "AgentRun", "name": "run-1", "uid": "the run of that name before"}]])
async def test_a_pod_of_that_name_that_is_not_the_runs_is_neither_used_nor_ended_C1(
    one: Bench, owner: list[Object]
) -> None:
    labels = {"agentrun.dev/run-uid": RUN_UID, "agentrun.dev/purpose": "work"}
    foreign: Object = {
        "metadata": {"name": POD_PATH.rsplit("/", 1)[1], "namespace": "team", "labels": labels},
        "spec": {},
    }
    foreign["metadata"] |= {"ownerReferences": owner}
    one.api.put(POD_PATH, foreign)
    await one.turns()
    assert one.pods() == [foreign]
    assert one.conditions()["SandboxReady"] == ("False", "Pending")
    assert await kinds(one) == ["RunCreated", "RunAdmitted"]
    del one.api.objects[POD_PATH]
    await one.turns()
    assert len(one.pods()) == 1


async def test_a_run_is_quiet_only_when_no_pod_of_it_is_left_whatever_the_cache_and_labels_say_C12(one: Bench) -> None:
    await one.turns()
    found = one.pod_runs()
    await one.turns()
    found["metadata"]["labels"] = {}
    one.world.take("pods", "DELETED", found)
    one.run_spec(2, stop={"mode": "Cancel"})
    one.world.take("agentruns", "MODIFIED", one.api.objects[RUN_PATH])
    await one.turn()
    assert one.conditions()["Quiescent"] == ("False", "Stopping")
    assert one.status()["state"] == "cancelling"
    await one.turns(4)
    assert not one.pods()
    assert one.conditions()["Quiescent"] == ("True", "Stopped")


async def test_a_pod_deleted_right_after_the_run_ended_changes_nothing_C2(one: Bench) -> None:
    await one.turns()
    one.pod_runs()
    await one.turns()
    await one.happens(dispatched("t1"), replied("t1"))
    await one.happens(dispatched("get1"), WorkspaceGot("get1", 1, "sha256:" + "a" * 64))
    ended = await one.history()
    outcome = (await one.state()).outcome
    assert outcome is not None
    one.api.objects.pop(POD_PATH)
    await one.turns(4)
    assert [type(decode(record)).__name__ for record in (await one.history())[len(ended) :]] == ["SandboxGone"]
    assert (await one.state()).outcome == outcome
    assert one.status()["state"] == "completed"
    assert one.conditions()["Quiescent"] == ("True", "Stopped")
    assert not one.pods()


async def test_the_pod_of_a_run_that_ended_is_deleted_as_that_very_pod(one: Bench) -> None:
    await one.turns()
    (made,) = one.pods()
    one.run_spec(2, stop={"mode": "Kill"})
    await one.turns(4)
    assert [asked.body["preconditions"] for asked in one.api.of("DELETE", "/pods/")] == [
        {"uid": made["metadata"]["uid"]}
    ]
    assert not one.pods()
    assert one.status()["reason"] == "Killed"
    assert one.conditions()["Quiescent"] == ("True", "Stopped")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refusal(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: small'), "QuotaExceeded"),
        (refusal(403, "Forbidden", "policy agentrun-x denied the request"), "PolicyDenied"),
        (refusal(422, "Invalid", "spec.x: no"), "PolicyDenied"),
    ],
)
async def test_a_refused_pod_is_shown_with_the_clusters_word_and_made_once_there_is_room_C26(
    one: Bench, answer: tuple[int, Object], reason: str
) -> None:
    one.api.rules.append(lambda asked: answer if asked.method == "POST" and asked.path.endswith("/pods") else None)
    one.see()
    wait = await one.turn()
    assert wait is not None
    assert wait <= 5
    assert one.conditions()["SandboxReady"] == ("False", reason)
    (told,) = [one["message"] for one in one.status()["conditions"] if one["type"] == "SandboxReady"]
    assert told == answer[1]["message"]
    one.api.rules.clear()
    await one.turns()
    assert len(one.pods()) == 1


async def test_a_pod_that_admission_changed_is_refused_and_taken_away_R20(one: Bench) -> None:
    def changed(asked: Asked) -> tuple[int, Object] | None:
        if asked.method == "POST" and asked.path.endswith("/pods"):
            asked.body["spec"]["hostNetwork"] = True
        return None

    one.api.rules.append(changed)
    await one.turns(4)
    assert one.status()["reason"] == "PodMutated"
    assert "hostNetwork" in one.status()["message"]
    assert not one.pods()


async def test_the_broker_without_keys_is_waited_for_without_a_pod(one: Bench) -> None:
    path = "/api/v1/namespaces/agentrun-system/configmaps/agentrun-broker"
    keys = one.api.objects.pop(path)
    await one.turns()
    assert not one.pods()
    assert one.conditions()["SandboxReady"] == ("False", "Pending")
    one.api.put(path, keys)
    await one.turns()
    assert len(one.pods()) == 1
