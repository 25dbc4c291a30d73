"""Each process killed with SIGKILL while a run is in each state: the run goes on, no tool runs twice (R6)."""

from collections.abc import Callable

import pytest
from tests.e2e.conftest import Processes, Tenant

STATES = {
    "waiting_tool": "slow-tool",
    "waiting_model": "slow-model",
    "running": "unpullable",
    "paused": "slow-tool",
    "cancelling": "hung-tool",
    "created": "late-definition",
}


def _bring_to(tenant: Tenant, state: str) -> str:
    name = STATES[state]
    tenant.apply(name)
    match state:
        case "paused":
            tenant.state(name, "waiting_tool")
            tenant.patch(name, '{"operatingMode":"Paused"}')
        case "cancelling":
            tenant.state(name, "waiting_tool")
            tenant.patch(name, '{"stop":{"mode":"Cancel"}}')
            return name
    tenant.state(name, state)
    return name


def _let_end(tenant: Tenant, state: str, name: str) -> str:
    match state:
        case "paused":
            tenant.patch(name, '{"operatingMode":"Active"}')
        case "created":
            tenant.apply("late-definition-2")
        case "running":
            tenant.patch(name, '{"stop":{"mode":"Cancel"}}')
    return str(tenant.finished(name, 150)["reason"])


ENDS = {"waiting_tool": "Completed", "waiting_model": "Completed", "running": "Cancelled", "paused": "Completed",
        "cancelling": "Cancelled", "created": "Completed"}  # fmt: skip


@pytest.mark.parametrize("process", ["agentrun", "agentrun-broker"])
@pytest.mark.parametrize("state", list(STATES))
def test_a_run_survives_sigkill_in_each_state(
    tenant: Tenant,
    processes: Processes,
    survived: set[str],
    state: str,
    process: str,
    figure: Callable[[str, int], None],
) -> None:
    name = _bring_to(tenant, state)
    processes.kill(process)
    assert _let_end(tenant, state, name) == ENDS[state]
    if name == "slow-tool":
        assert tenant.status(name)["result"]["summary"] == "Counted."
    survived.add(state)
    figure("crash.states", len(survived))


def test_an_effect_lost_in_flight_is_shown_and_not_repeated_R5(tenant: Tenant, processes: Processes) -> None:
    tenant.apply("external")
    tenant.state("external", "waiting_tool")
    processes.kill("agentrun")
    tenant.state("external", "needs_reconciliation", 90)
    tenant.kubectl.wait("agentrun/external", "condition=NeedsReconciliation", 10)
    assert [effect["callID"] for effect in tenant.status("external")["unresolvedEffects"]] == ["t1c0"]


@pytest.fixture(scope="session")
def survived() -> set[str]:
    """States whose run went on."""
    return set()
