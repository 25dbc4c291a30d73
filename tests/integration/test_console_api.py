"""The read API over real HTTPS on a real SQLite journal, for one tenant's viewer (decision 0004, R1, R4, R23)."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.histories import dispatched
from tests.integration.console_world import (
    ABSENT,
    ARTIFACTS,
    CONTENT,
    DIGEST,
    FOREIGN,
    MINE,
    OTHER,
    OURS,
    SECRET,
    THEIRS,
    USERS,
    Object,
    World,
    break_store,
    mend_store,
    running,
)
from tests.unit.controller import apiserver
from tests.unit.controller.apiserver import Answer, Asked

from agentrun.console.tenants import KEPT_SECONDS
from agentrun.console.viewers import HEADER, TRUSTED_SECONDS
from agentrun.core.digest import sha256_digest
from agentrun.core.events import Actor, Event, ModelCompleted, ProposedCall, SteeringAdded, Usage
from agentrun.journal.port import Blob


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """The API on a free port, an empty journal and a cluster of two tenants."""
    async with running(tmp_path) as found:
        yield found


# --- runs -----------------------------------------------------------------------------------------------------------


async def test_a_finished_run_answers_by_name_and_by_uid_R1(world: World) -> None:
    log = await world.worked(MINE)
    by_uid = await world.read(f"/v1/runs/{MINE}/explain")
    assert by_uid == await world.read("/v1/runs/fix/explain")
    assert by_uid["state"]["state"] == "completed"
    assert by_uid["state"]["headHash"] == log.hash
    assert by_uid["identity"]["tenant"] == OURS.key
    assert [effect["step"] for effect in by_uid["effects"]["committed"]] == ["t1c0"]
    [item] = (await world.read("/v1/runs"))["items"]
    assert item == by_uid["run"]
    assert (item["uid"], item["name"], item["requester"], item["terminal"]) == (MINE, "fix", "ann", True)


async def test_a_name_means_the_newest_run_of_that_name(world: World) -> None:
    await world.run(OTHER, seconds=0)
    await world.run(MINE, seconds=5)  # the smaller UID, the later run
    assert (await world.read("/v1/runs/fix/explain"))["run"]["uid"] == MINE


async def test_runs_come_page_by_page_each_once(world: World) -> None:
    uids = [f"0b0c7c5e-0000-4000-8000-00000000001{number}" for number in range(5)]
    for uid in reversed(uids):
        await world.run(uid)
    await world.run(FOREIGN, THEIRS)
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await world.read("/v1/runs", limit=2, **({"after": after} if after else {}))
        seen += [item["uid"] for item in page["items"]]
        after = page["next"]
    assert seen == uids


# --- one tenant only ------------------------------------------------------------------------------------------------


async def test_another_tenants_run_is_404_by_name_and_uid_as_if_it_were_not_there_R23(world: World) -> None:
    await world.worked(FOREIGN, THEIRS)
    assert (await world.get(f"/v1/runs/{FOREIGN}/explain", token="token-b")).json()["run"]["uid"] == FOREIGN
    for rest in ("explain", "events", "artifacts", "artifacts/changes.patch", f"blobs/{DIGEST['patch']}"):
        for run, absent in ((FOREIGN, ABSENT), ("fix", "fux")):
            answer = await world.refused(f"/v1/runs/{run}/{rest}", 404)
            same = await world.refused(f"/v1/runs/{absent}/{rest}", 404)
            assert answer == {**same, "message": same["message"].replace(absent, run)}
    assert (await world.read("/v1/runs"))["items"] == []


async def test_a_run_whose_name_is_another_tenants_uid_is_still_found(world: World) -> None:
    await world.run(FOREIGN, THEIRS)
    await world.run(MINE, name=FOREIGN)
    assert (await world.read(f"/v1/runs/{FOREIGN}/explain"))["run"]["uid"] == MINE


async def test_the_journal_of_an_older_namespace_of_the_same_name_is_closed_R23(world: World) -> None:
    await world.run(MINE)
    await world.read(f"/v1/runs/{MINE}/explain")
    world.cluster.objects["/api/v1/namespaces/team-a"]["metadata"]["uid"] = "uid-made-anew"
    world.later += KEPT_SECONDS
    await world.refused(f"/v1/runs/{MINE}/explain", 404)
    await world.refused("/v1/runs/fix/events", 404)


async def test_a_namespace_that_is_gone_is_404(world: World) -> None:
    error = await world.refused("/v1/runs", 404, "token-gone")
    assert "team-gone" in error["message"]


# --- who asks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/runs/fix/explain", "/v1/runs/fix/blobs/x", "/v1/runs/fix/artifacts"])
async def test_without_a_token_there_is_401_and_nothing_else_R23(world: World, path: str) -> None:
    await world.worked(MINE)
    assert (await world.refused(path, 401, None))["class"] == "Unauthenticated"
    assert (await world.refused(path, 401, "made-up"))["class"] == "Unauthenticated"
    answer = await world.http.get(path, headers={"Authorization": "Bearer token-a"})
    assert answer.status_code == 401  # that header is the API server's, never ours


async def test_another_account_of_the_namespace_is_403_R23(world: World) -> None:
    assert (await world.refused("/v1/runs", 403, "token-default"))["class"] == "Denied"


async def test_a_token_of_another_audience_is_401_R23(world: World) -> None:
    world.audience = "https://kubernetes.default.svc"
    await world.refused("/v1/runs", 401)


async def test_a_revoked_token_ends_within_60_seconds_R23(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.read("/v1/runs")
    monkeypatch.delitem(USERS, "token-a")
    world.later += TRUSTED_SECONDS
    await world.refused("/v1/runs", 401)


# --- events ---------------------------------------------------------------------------------------------------------


async def test_events_page_by_page_are_the_history_R4(world: World) -> None:
    log = await world.worked(MINE)
    items: list[Object] = []
    after = 0
    while page := await world.read("/v1/runs/fix/events", after=after, limit=3):
        assert page["next"] == (page["items"][-1]["seq"] if page["items"] else after)
        if not page["items"]:
            break
        items += page["items"]
        after = page["next"]
    stored = await world.journal.events(MINE)
    assert [(e["seq"], e["kind"], e["hash"], e["fence"]) for e in items] == [
        (e.seq, e.kind, e.hash, e.fence) for e in stored
    ]
    assert items[-1]["hash"] == log.hash
    assert set(items[0]) == {"seq", "kind", "kindVersion", "fence", "sourceKey", "recordedAt", "hash", "body"}
    assert (items[0]["sourceKey"], items[0]["body"]["name"]) == ("create", "fix")
    assert items == (await world.read(f"/v1/runs/{MINE}/events"))["items"]


async def test_a_wait_ends_when_something_is_recorded_and_gives_it(world: World) -> None:
    log = await world.run(MINE)
    waiting = asyncio.create_task(world.read("/v1/runs/fix/events", after=log.seq, wait=15))
    done, _ = await asyncio.wait({waiting}, timeout=0.7)
    assert not done
    began = time.monotonic()
    await log.accept(SteeringAdded("s1", DIGEST["steer"], "AfterCurrentWork", Actor("ann")), "steer-s1")
    page = await waiting
    assert time.monotonic() - began < 5
    assert [event["kind"] for event in page["items"]] == ["SteeringAdded"]
    assert page["next"] == log.seq


async def test_two_who_wait_are_both_woken(world: World) -> None:
    log = await world.run(MINE)
    waiting = [asyncio.create_task(world.read("/v1/runs/fix/events", after=log.seq, wait=15)) for _ in range(2)]
    await asyncio.sleep(0.2)
    await log.accept(SteeringAdded("s1", DIGEST["steer"], "AfterCurrentWork", Actor("ann")), "steer-s1")
    assert [len(page["items"]) for page in await asyncio.gather(*waiting)] == [1, 1]


async def test_a_wait_in_vain_ends_with_nothing_at_its_time(world: World) -> None:
    log = await world.run(MINE)
    await world.run(OTHER, name="other")
    began = time.monotonic()
    asking = asyncio.create_task(world.read("/v1/runs/fix/events", after=log.seq, wait=1))
    await asyncio.sleep(0.1)
    await world.logs[OTHER].accept(SteeringAdded("s1", DIGEST["steer"], "AfterCurrentWork", Actor("ann")), "steer-s1")
    assert await asking == {"items": [], "next": log.seq}
    assert 0.9 < time.monotonic() - began < 5


async def test_what_is_there_is_not_waited_for(world: World) -> None:
    await world.run(MINE)
    began = time.monotonic()
    assert len((await world.read("/v1/runs/fix/events", wait=30))["items"]) == 2
    assert time.monotonic() - began < 5


async def test_a_store_that_fails_during_a_wait_is_told_as_503(world: World) -> None:
    log = await world.run(MINE)
    asking = asyncio.create_task(world.refused("/v1/runs/fix/events", 503, after=log.seq, wait=15))
    await asyncio.sleep(0.2)
    break_store(world)
    assert (await asking)["class"] == "JournalUnavailable"


# --- content --------------------------------------------------------------------------------------------------------


async def test_artifacts_are_listed_and_their_bytes_re_digest_R4(world: World) -> None:
    await world.worked(MINE)
    items = (await world.read("/v1/runs/fix/artifacts"))["items"]
    assert items == [
        {"name": a.name, "digest": a.digest, "mediaType": a.media_type, "sizeBytes": a.size} for a in ARTIFACTS
    ]
    for item in items:
        answer = await world.get(f"/v1/runs/fix/artifacts/{quote(item['name'])}")
        assert answer.headers["Digest"] == item["digest"] == sha256_digest(answer.content)
        assert len(answer.content) == item["sizeBytes"]


async def test_content_is_never_shown_as_a_page_C31(world: World) -> None:
    await world.worked(MINE)
    for path in ("artifacts/changes.patch", f"blobs/{DIGEST['patch']}"):
        headers = (await world.get(f"/v1/runs/fix/{path}")).headers
        assert headers["content-type"] == "application/octet-stream"
        assert headers["content-disposition"] == "attachment"
        assert headers["x-content-type-options"] == "nosniff"


async def test_an_artifact_that_is_not_there_is_404_and_told_what_is(world: World) -> None:
    await world.worked(MINE)
    error = await world.refused("/v1/runs/fix/artifacts/none.txt", 404)
    assert "changes.patch" in error["message"]


@pytest.mark.parametrize("name", list(CONTENT))
async def test_every_content_that_the_history_names_is_readable_R4(world: World, name: str) -> None:
    await world.worked(MINE)
    answer = await world.get(f"/v1/runs/{MINE}/blobs/{DIGEST[name]}")
    assert answer.content == CONTENT[name]
    assert answer.headers["Digest"] == sha256_digest(answer.content)


async def test_a_digest_in_a_models_text_opens_nothing_R23(world: World) -> None:
    """The content exists, for this tenant even; but this run's events do not name it."""
    await world.worked(MINE)
    digest = sha256_digest(SECRET)
    await world.journal.put_blobs(OURS, [Blob(digest, SECRET)])
    reply = await world.get(f"/v1/runs/fix/blobs/{DIGEST['reply']}")
    assert digest in reply.text
    assert (await world.refused(f"/v1/runs/fix/blobs/{digest}", 404))["class"] == "NotFound"


async def test_a_digest_in_the_text_of_an_event_opens_nothing_R23(world: World) -> None:
    """Free text in events is written by models and tools: an error message, a summary, a tool's name."""
    log = await world.run(MINE)
    digest = sha256_digest(SECRET)
    await world.journal.put_blobs(OURS, [Blob(digest, SECRET), Blob(DIGEST["last"], CONTENT["last"])])
    call = ProposedCall("t1c0", f"x output={digest}", DIGEST["last"], "NotFound", f" output={digest}")
    replies: tuple[Event, ...] = (
        dispatched("t1"),
        ModelCompleted("t1", 1, DIGEST["last"], "ToolCalls", Usage(), calls=(call,), adapter=digest),
        dispatched("t2"),
        ModelCompleted("t2", 1, DIGEST["last"], "Stop", Usage(), summary=f"pod=p output={digest}"),
    )
    await log.record(replies, log.fence)
    assert digest in (await world.get("/v1/runs/fix/events")).text
    await world.refused(f"/v1/runs/fix/blobs/{digest}", 404)


async def test_another_tenants_content_is_closed_even_under_a_digest_we_name_R23(world: World) -> None:
    """What we name and do not hold is gone for us, whoever else has the same bytes."""
    log = await world.run(MINE)
    await log.accept(SteeringAdded("s1", sha256_digest(SECRET), "AfterCurrentWork", Actor("ann")), "steer-s1")
    await world.journal.put_blobs(THEIRS, [Blob(sha256_digest(SECRET), SECRET)])
    assert (await world.refused(f"/v1/runs/fix/blobs/{sha256_digest(SECRET)}", 410))["class"] == "Gone"


# --- what is wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("/v1/runs", "limit", "0"),
        ("/v1/runs", "limit", "501"),
        ("/v1/runs", "limit", "many"),
        ("/v1/runs", "limit", ""),
        ("/v1/runs", "after", "fix"),
        ("/v1/runs/fix/events", "after", "-1"),
        ("/v1/runs/fix/events", "after", "1e3"),
        ("/v1/runs/fix/events", "after", "²"),
        ("/v1/runs/fix/events", "after", "9" * 30),
        ("/v1/runs/fix/events", "limit", "501"),
        ("/v1/runs/fix/events", "wait", "31"),
        ("/v1/runs/fix/events", "wait", "0.5"),
    ],
)
async def test_a_bad_parameter_is_400_and_named(world: World, path: str, name: str, value: str) -> None:
    await world.run(MINE)
    error = await world.refused(path, 400, **{name: value})
    assert error["class"] == "Invalid"
    assert error["message"].startswith(f"{name} must be ")


async def test_another_path_or_method_is_refused_in_the_apis_own_form(world: World) -> None:
    await world.refused("/v1/walks", 404)
    await world.refused("/", 404)
    answer = await world.http.post("/v1/runs", headers={HEADER: "token-a"}, content=b"{}")
    assert (answer.status_code, answer.json()["error"]["class"]) == (405, "MethodNotAllowed")


async def test_a_journal_that_does_not_answer_is_503_until_it_does_again(world: World) -> None:
    await world.run(MINE)
    break_store(world)
    for rest in ("explain", "events", "artifacts"):
        error = await world.refused(f"/v1/runs/{MINE}/{rest}", 503)
        assert error["class"] == "JournalUnavailable"
        assert "try again" in error["message"]
    mend_store(world)
    await world.read(f"/v1/runs/{MINE}/explain")


@pytest.mark.parametrize("part", ["tokenreviews", "namespaces/team-a", "namespaces/kube-system"])
async def test_an_api_server_that_does_not_answer_is_503_and_lets_nobody_in(world: World, part: str) -> None:
    await world.run(MINE)

    def silent(asked: Asked) -> Answer | None:
        return apiserver.refusal(500, "InternalError", "etcd is away") if asked.path.endswith(part) else None

    world.cluster.rules.insert(0, silent)
    error = await world.refused("/v1/runs", 503)
    assert error["class"] == "AuthorityUnavailable"
    world.cluster.rules.remove(silent)
    assert len((await world.read("/v1/runs"))["items"]) == 1


async def test_a_run_of_a_newer_build_is_told_so_C11(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.run(MINE)
    monkeypatch.setattr("agentrun.core.reducer._VERSIONS", {})
    error = await world.refused(f"/v1/runs/{MINE}/explain", 503)
    assert error["class"] == "UnknownVersion"
    assert "reducer version 1" in error["message"]


async def test_a_failure_inside_is_answered_without_its_words_C31(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.run(MINE)

    def broken(*_: object) -> None:
        raise RuntimeError("CANARY")

    monkeypatch.setattr("agentrun.console.app.explain", broken)
    answer = await world.get(f"/v1/runs/{MINE}/explain", 500)
    assert answer.json()["error"]["class"] == "InternalError"
    assert "CANARY" not in answer.text


async def test_answers_are_not_kept_by_anybody_between(world: World) -> None:
    await world.worked(MINE)
    for path in ("/v1/runs", "/v1/runs/fix/explain", "/v1/runs/fix/artifacts/changes.patch"):
        assert (await world.get(path)).headers["cache-control"] == "no-store"
