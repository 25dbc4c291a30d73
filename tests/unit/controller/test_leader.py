"""One operator leads: the lease is kept, given back, taken over when it is silent, and lost in time (C3, C9)."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.unit.controller.apiserver import ApiServer, refusal

from agentrun.controller import leader
from agentrun.controller.leader import LeaderLease, LeadershipLost, leading
from agentrun.kube import KubeClient
from agentrun.settings import Settings

Object = dict[str, Any]
PATH = "/apis/coordination.k8s.io/v1/namespaces/agentrun-system/leases/agentrun-operator"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same proportions, in tenths of seconds."""
    monkeypatch.setattr(leader, "SECONDS", 1.5)
    monkeypatch.setattr(leader, "RENEW_SECONDS", 0.4)
    monkeypatch.setattr(leader, "RETRY_SECONDS", 0.1)


def holder(api: ApiServer) -> str:
    return str(api.objects[PATH]["spec"]["holderIdentity"])


def another(api: ApiServer, renewed: str = "2026-01-01T00:00:00.000000Z") -> None:
    """Another operator writes the lease."""
    api.put(PATH, {"metadata": {"name": "agentrun-operator"}, "spec": {"holderIdentity": "b", "renewTime": renewed}})


async def leads(kube: KubeClient) -> LeaderLease:
    lease = LeaderLease(kube, "agentrun-system")
    assert await asyncio.wait_for(lease.wait(asyncio.Event()), 10)
    return lease


@contextlib.asynccontextmanager
async def keeping(lease: LeaderLease) -> AsyncGenerator[asyncio.Task[None]]:
    task = asyncio.create_task(lease.keep())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_first_operator_leads_and_the_second_waits(api: ApiServer, kube: KubeClient) -> None:
    first = await leads(kube)
    me = holder(api)
    stop = asyncio.Event()
    async with keeping(first) as task:
        waiting = asyncio.create_task(LeaderLease(kube, "agentrun-system").wait(stop))
        await asyncio.sleep(2.5)
        assert not task.done()
        assert not waiting.done()
        assert holder(api) == me
        stop.set()
        assert await waiting is False


async def test_a_lease_given_back_is_taken_at_once(api: ApiServer, kube: KubeClient) -> None:
    first = await leads(kube)
    me = holder(api)
    await first.release()
    assert holder(api) == ""
    await asyncio.wait_for(leads(kube), 1.0)
    assert holder(api) not in ("", me)


async def test_a_silent_leaders_lease_is_taken_only_after_its_time_by_our_own_clock(
    api: ApiServer, kube: KubeClient
) -> None:
    another(api)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(LeaderLease(kube, "agentrun-system").wait(asyncio.Event()), 1.0)
    assert holder(api) == "b"
    await leads(kube)
    assert holder(api) != "b"


async def test_a_leader_that_was_stopped_past_its_lease_leads_no_more_C3(api: ApiServer, kube: KubeClient) -> None:
    lease = await leads(kube)
    another(api)
    with pytest.raises(LeadershipLost, match="another operator leads"):
        await asyncio.wait_for(lease.keep(), 5)
    await lease.release()
    assert holder(api) == "b"


async def test_of_two_that_write_at_once_one_leads(api: ApiServer, kube: KubeClient) -> None:
    stop = asyncio.Event()
    leases = [LeaderLease(kube, "agentrun-system") for _ in range(5)]
    waits = [asyncio.create_task(lease.wait(stop)) for lease in leases]
    await asyncio.sleep(1.0)
    stop.set()
    assert (await asyncio.gather(*waits)).count(True) == 1
    assert holder(api)


async def test_a_failure_between_renewals_is_survived(api: ApiServer, kube: KubeClient) -> None:
    lease = await leads(kube)
    failures = [refusal(500, "InternalError", "no"), refusal(409, "Conflict", "no")]
    api.rules.append(lambda asked: failures.pop() if failures and asked.method == "PUT" else None)
    async with keeping(lease) as task:
        await asyncio.sleep(2.5)
        assert not task.done()
    assert not failures


@pytest.mark.parametrize("hangs", [True, False])
async def test_leadership_ends_before_the_lease_does_when_the_api_server_fails_or_hangs_C3(
    api: ApiServer, kube: KubeClient, hangs: bool
) -> None:
    lease = await leads(kube)
    began = asyncio.get_running_loop().time()
    if hangs:
        api.hold.clear()
    else:
        api.rules.append(lambda _asked: refusal(503, "ServiceUnavailable", "etcd is away"))
    with pytest.raises(LeadershipLost, match="in time" if hangs else "etcd is away"):
        await asyncio.wait_for(lease.keep(), 10)
    assert asyncio.get_running_loop().time() - began < leader.SECONDS


async def test_work_runs_while_we_lead_and_the_lease_is_given_back_after_it(api: ApiServer, kube: KubeClient) -> None:
    seen: list[str] = []

    async def work(_stop: asyncio.Event) -> None:
        seen.append(holder(api))

    await leading(kube, Settings(), asyncio.Event(), work)
    assert seen[0]
    assert holder(api) == ""


async def test_work_is_ended_when_leadership_is_lost(api: ApiServer, kube: KubeClient) -> None:
    ended = asyncio.Event()

    async def work(_stop: asyncio.Event) -> None:
        another(api)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(leading(kube, Settings(), asyncio.Event(), work), 10)
    assert ended.is_set()
    assert holder(api) == "b"


async def test_who_is_told_to_stop_while_waiting_never_works(api: ApiServer, kube: KubeClient) -> None:
    another(api)
    stop = asyncio.Event()
    stop.set()

    async def work(_stop: asyncio.Event) -> None:
        raise AssertionError

    await leading(kube, Settings(), stop, work)
    assert holder(api) == "b"
