"""`kubectl agentrun` on the real cluster: verbs, exit codes, the seven questions through the read API (R1, C71)."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from tests.cluster.fixtures import Kubectl
from tests.cluster.shell import ClusterError, wait_until
from tests.e2e.conftest import Tenant
from tests.e2e.install import NAMESPACE
from tests.e2e.plugin import Plugin

QUESTIONS = ("identity", "state", "authority", "effects", "control", "limits", "recovery")


@pytest.fixture
def plugin(tenant: Tenant) -> Plugin:
    return Plugin(tenant.kubectl.kubeconfig, tenant.name)


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    """For a verb that waits while something else is done."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def waiting_run(beside: ThreadPoolExecutor, plugin: Plugin, definition: str) -> Future[CompletedProcess[str]]:
    return beside.submit(plugin, "run", definition, "--name", "asked", "--text", "go", "--wait")


def test_run_and_wait_ends_with_0_when_the_run_completed(tenant: Tenant, plugin: Plugin) -> None:
    tenant.apply("no-tools")
    done = plugin("run", "no-tools", "--name", "asked", "--text", "go", "--wait")
    assert (done.returncode, tenant.status("asked")["state"]) == (0, "completed"), done.stderr


def test_waiting_ends_with_3_when_the_run_failed_C71(tenant: Tenant, plugin: Plugin) -> None:
    tenant.apply("cheat")
    assert plugin("watch", "cheat", seconds=200).returncode == 3
    assert tenant.status("cheat")["reason"] == "VerificationFailed"


def test_waiting_ends_with_4_when_a_person_is_needed_and_resume_lets_it_complete(
    tenant: Tenant, plugin: Plugin, beside: ThreadPoolExecutor
) -> None:
    tenant.apply("slow-tool")
    asked = waiting_run(beside, plugin, "slow-tool")
    wait_until("the run is there", lambda: tenant.kubectl.exists("agentrun", "asked"), 30, 0.3)
    tenant.state("asked", "waiting_tool")
    assert plugin("pause", "asked").returncode == 0
    assert asked.result(90).returncode == 4
    assert plugin("resume", "asked").returncode == 0
    assert tenant.finished("asked")["state"] == "completed"


def test_waiting_ends_with_5_when_somebody_cancels(tenant: Tenant, plugin: Plugin, beside: ThreadPoolExecutor) -> None:
    tenant.apply("slow-model")
    asked = waiting_run(beside, plugin, "slow-model")
    wait_until("the run is there", lambda: tenant.kubectl.exists("agentrun", "asked"), 30, 0.3)
    assert plugin("cancel", "asked", "--message", "changed my mind").returncode == 0
    assert asked.result(60).returncode == 5
    assert "changed my mind" in tenant.status("asked")["message"]
    assert plugin("cancel", "asked").returncode == 0, "a finished run is finished: that is no error"


def test_time_that_is_up_leaves_the_run_alone(tenant: Tenant, plugin: Plugin) -> None:
    tenant.apply("slow-model")
    done = plugin("run", "slow-model", "--name", "asked", "--text", "go", "--wait", "--timeout", "2")
    assert done.returncode == 124
    assert tenant.finished("asked")["state"] == "completed"


def test_what_the_api_refuses_is_said_with_field_and_fix(tenant: Tenant, plugin: Plugin) -> None:
    tenant.apply("no-tools")
    done = plugin("run", "no-tools", "--name", "asked", "--text", "go", "--budget", "modelCalls=-1")
    assert done.returncode in (1, 2)
    assert "modelCalls" in done.stderr
    assert not tenant.kubectl.exists("agentrun", "asked")


def test_one_command_answers_the_seven_questions_R1(tenant: Tenant, plugin: Plugin) -> None:
    tenant.apply("busybox")
    status = tenant.finished("busybox")
    answer = plugin.json("explain", "busybox")
    assert all(answer[question] for question in QUESTIONS)
    assert answer["state"]["state"] == status["state"] == "completed"
    assert answer["state"]["headSeq"] >= status["head"]["seq"], "what is seen of its Pod may still come in"
    assert answer["identity"]["templateDigest"] == status["definition"]["digest"]
    assert [done["tool"] for done in answer["effects"]["committed"]] == ["run", "list"]
    text = plugin("explain", "busybox").stdout
    assert all(f"{number}. " in text for number in range(1, 8))


def test_explain_answers_while_a_tool_runs_and_after_the_object_is_gone(tenant: Tenant, plugin: Plugin) -> None:
    tenant.apply("hung-tool")
    tenant.state("hung-tool", "waiting_tool")
    answer = plugin.json("explain", "hung-tool")
    assert [step["phase"] for step in answer["state"]["unfinished"]] == ["flying"]
    assert answer["control"]["verbs"]["cancel"]["possible"]
    tenant.kubectl("delete", "agentrun", "hung-tool", "--timeout=60s")
    wait_until("its end is journalled", lambda: plugin.json("explain", "hung-tool")["run"]["terminal"], 60, 0.5)
    assert plugin.json("explain", "hung-tool")["run"]["outcome"] == "Cancelled"


def test_events_are_the_history_and_artifacts_are_what_it_names(tenant: Tenant, plugin: Plugin, tmp_path: Path) -> None:
    tenant.apply("busybox")
    status = tenant.finished("busybox")
    events = plugin.lines("events", "busybox")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["kind"] == "RunCreated"
    assert status["head"]["hash"] in {event["hash"] for event in events}
    named = {item["name"]: item["digest"] for item in status["result"]["artifacts"]}
    assert plugin("artifacts", "busybox", "diff", "--output", str(tmp_path / "diff")).returncode == 0
    content = (tmp_path / "diff").read_bytes()
    assert named["diff"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert b"made" in content


def test_another_tenants_runs_do_not_exist_for_a_reader(tenant: Tenant, plugin: Plugin, other: Plugin) -> None:
    tenant.apply("no-tools")
    tenant.finished("no-tools")
    uid = tenant.run("no-tools")["metadata"]["uid"]
    assert plugin("explain", uid).returncode == 0
    done = other("explain", uid)
    assert done.returncode == 1
    assert "no run" in done.stderr
    assert other.json("explain", "no-tools")["run"]["uid"] != uid, "a name means the reader's own run"


def test_nobody_reads_without_a_viewers_token(installed: Kubectl) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/services/https:agentrun-read:https/proxy/v1/runs"
    with pytest.raises(ClusterError, match="logged in"):
        installed("get", "--raw", path)


def test_a_person_with_the_two_documented_bindings_can_do_everything_here_and_nothing_elsewhere(
    tenant: Tenant, person: Plugin
) -> None:
    tenant.apply("no-tools")
    done = person("run", "no-tools", "--name", "asked", "--text", "go", "--wait")
    assert done.returncode == 0, done.stderr
    refused = person("explain", "asked")
    assert refused.returncode == 1
    assert "agentrun-read" in refused.stderr, "the missing right is named, with what an admin would run"
    _bind_reading(tenant)
    answer = person.json("explain", "asked")
    assert answer["identity"]["requester"] == f"system:serviceaccount:{tenant.name}:ann"
    assert person("-n", "default", "get").returncode == 1
    tenant.kubectl.of(NAMESPACE)("delete", "rolebinding", f"{tenant.name}-reads")


def _bind_reading(tenant: Tenant) -> None:
    account = f"--serviceaccount={tenant.name}:ann"
    tenant.kubectl.of(NAMESPACE)("create", "rolebinding", f"{tenant.name}-reads", "--role=agentrun-read", account)


@pytest.fixture
def person(tenant: Tenant, tmp_path: Path) -> Plugin:
    """Ann: no admin, only what docs/how-to/install.md binds in her namespace."""
    account = f"--serviceaccount={tenant.name}:ann"
    tenant.kubectl("create", "serviceaccount", "ann")
    tenant.kubectl("create", "rolebinding", "runners", "--clusterrole=agentrun-runner", account)
    token = tenant.kubectl("create", "token", "ann").strip()
    config = yaml.safe_load(tenant.kubectl.kubeconfig.read_text())
    config["users"] = [{"name": "ann", "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = "ann"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return Plugin(path, tenant.name)


@pytest.fixture
def other(installed: Kubectl, tenant: Tenant) -> Iterator[Plugin]:
    """A second tenant, who has had a run of its own."""
    name = f"{tenant.name}-other"
    installed("create", "namespace", name)
    second = Tenant(installed.of(name))
    second.apply("no-tools")
    second.finished("no-tools")
    second.kubectl("delete", "agentrun", "no-tools")
    second.kubectl("delete", "agentdefinition", "no-tools")
    yield Plugin(installed.kubeconfig, name)
    installed("delete", "namespace", name, "--wait=false")
