"""The sandbox Pod: `restricted`, nothing but what is written down, bounds on every container (R20, C62)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.controller.sandboxes import UID, wanted

from agentrun.controller.names import pod_name
from agentrun.controller.pod import GuardTargets, build_pod, build_policy
from agentrun.controller.standing import standing_objects

Object = dict[str, Any]


def containers(pod: Object) -> list[Object]:
    return [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]


def amount(quantity: str) -> int:
    """In thousandths; the builder writes whole numbers and `m` alone."""
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


def violations(spec: Object) -> Iterator[str]:
    """What the Pod Security Standard `restricted` (and `baseline` in it) forbids, as its page lists it."""
    pod = spec["securityContext"]
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield name
    for name in ("sysctls", "windowsOptions", "seLinuxOptions", "appArmorProfile"):
        if name in pod:
            yield name
    for volume in spec["volumes"]:
        if not volume.keys() - {"name"} <= RESTRICTED_VOLUMES:
            yield f"volume {volume['name']}"
    for container in (*spec["initContainers"], *spec["containers"], *spec.get("ephemeralContainers", [])):
        yield from container_violations(container, pod, container["securityContext"])


def container_violations(container: Object, pod: Object, own: Object) -> Iterator[str]:
    """A container's own value stands before its Pod's."""
    effective = pod | own
    expected: Object = {
        "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
        "runAsNonRoot": effective.get("runAsNonRoot") is True,
        "runAsUser": effective.get("runAsUser") != 0,
        "seccompProfile": effective.get("seccompProfile") == {"type": "RuntimeDefault"},
        "privileged": not own.get("privileged"),
        "procMount": own.get("procMount", "Default") == "Default",
        "drop": "ALL" in own["capabilities"].get("drop", []),
        "add": not set(own["capabilities"].get("add", [])) - {"NET_BIND_SERVICE"},
        "hostPort": not any(port.get("hostPort") for port in container.get("ports", [])),
    }
    yield from (f"{container['name']}: {name}" for name, holds in expected.items() if not holds)


RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
KINDS = [
    {"image_volume": image_volume, "host_users": host_users, "purpose": purpose}
    for image_volume in (True, False)
    for host_users in (True, False)
    for purpose in ("work", "verify")
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_it_meets_the_restricted_profile(kind: Object) -> None:
    assert list(violations(build_pod(wanted(**kind))["spec"])) == []


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_beyond_restricted_its_root_is_read_only_and_its_volumes_come_from_nowhere_else_R20(kind: Object) -> None:
    pod = build_pod(wanted(**kind))
    for container in containers(pod):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert all(volume.keys() - {"name"} <= {"emptyDir", "image"} for volume in pod["spec"]["volumes"])
    assert pod["spec"]["hostUsers"] is kind["host_users"]


def test_it_has_no_identity_and_no_way_to_find_services() -> None:
    spec = build_pod(wanted())["spec"]
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
    assert spec["dnsPolicy"] == "None"
    assert spec["serviceAccountName"] == "agentrun-sandbox"
    text = json.dumps(spec)
    assert "secret" not in text.lower()
    assert "token" not in text.replace("automountServiceAccountToken", "").lower()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("resources", [{}, {"cpuMillis": 1}, {"cpuMillis": 64_000, "memoryBytes": 1 << 20}], ids=str)
def test_every_container_has_requests_and_limits_C62(kind: Object, resources: Object) -> None:
    found = containers(build_pod(wanted(sandbox={"image": "i", "resources": resources}, **kind)))
    assert [container["name"] for container in found] == ["guard", "sandbox"]
    for container in found:
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        assert limits.keys() == requests.keys() == {"cpu", "memory", "ephemeral-storage"}
        for name, limit in limits.items():
            asked, most = amount(requests[name]), amount(limit)
            assert 0 < asked <= most, name


def test_what_the_template_asks_for_becomes_the_limits() -> None:
    resources = {"cpuMillis": 500, "memoryBytes": 1 << 28, "ephemeralStorageBytes": 1 << 20}
    spec = build_pod(wanted(sandbox={"image": "i", "workspaceBytes": 4096, "resources": resources}))["spec"]
    assert spec["containers"][0]["resources"]["limits"] == {
        "cpu": "500m",
        "memory": str(1 << 28),
        "ephemeral-storage": str(1 << 20),
    }
    sizes = {volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in spec["volumes"] if "emptyDir" in volume}
    assert sizes["workspace"] == "4096"
    assert all(sizes.values())


def test_a_dead_node_is_left_after_thirty_seconds() -> None:
    seconds = {rule["key"]: rule["tolerationSeconds"] for rule in build_pod(wanted())["spec"]["tolerations"]}
    assert seconds == {"node.kubernetes.io/not-ready": 30, "node.kubernetes.io/unreachable": 30}


def test_the_class_adds_places_to_run_and_nothing_else_R20() -> None:
    asked: Object = {
        "nodeSelector": {"pool": "sandboxes"},
        "imagePullSecrets": [{"name": "pull"}],
        "tolerations": [{"key": "pool", "operator": "Exists"}],
    }
    plain = build_pod(wanted())["spec"]
    slipped_in: Object = {"hostNetwork": True, "runtimeClassName": "fast", "securityContext": {"runAsUser": 0}}
    placed = build_pod(wanted(scheduling=asked | slipped_in))["spec"]
    assert {name: placed[name] for name in placed if placed[name] != plain.get(name)} == asked | {
        "tolerations": [*plain["tolerations"], *asked["tolerations"]]
    }


def test_the_template_adds_nothing_that_is_not_its_own_to_say_R20() -> None:
    slipped_in: Object = {
        "image": "images.test/python:1",
        "securityContext": {"privileged": True},
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        "env": [{"name": "A", "value": "b"}],
        "command": ["sh"],
        "hostNetwork": True,
    }
    assert build_pod(wanted(sandbox=slipped_in))["spec"] == build_pod(wanted())["spec"]


def test_it_is_owned_by_the_very_run_by_uid_C1() -> None:
    owner = build_pod(wanted())["metadata"]["ownerReferences"]
    assert [(one["kind"], one["uid"], one["controller"]) for one in owner] == [("AgentRun", UID, True)]


def test_the_same_wish_gives_the_same_pod_and_another_wish_another_digest() -> None:
    def digest(**changes: Any) -> str:
        return str(build_pod(wanted(**changes))["metadata"]["annotations"]["agentrun.dev/spec-digest"])

    assert digest() == digest()
    assert digest() != digest(sandbox={"image": "another"})
    assert digest() != digest(guard=GuardTargets(tolerate=("NodeIP",)))


def test_copying_is_the_guards_work_where_nodes_have_no_image_volumes() -> None:
    pod = build_pod(wanted(image_volume=False))
    guard = pod["spec"]["initContainers"][0]
    assert guard["args"] == ["check", "copy", "/copy"]
    assert {mount["name"] for mount in guard["volumeMounts"]} == {"toolserver"}
    sandbox = pod["spec"]["containers"][0]["volumeMounts"]
    assert next(mount for mount in sandbox if mount["name"] == "toolserver")["readOnly"] is True


def test_only_our_own_processes_reach_the_tool_server() -> None:
    policy = build_policy(wanted(), "pod-uid", "agentrun-system")
    assert policy["metadata"]["ownerReferences"][0]["uid"] == "pod-uid"
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 7070}]
    (source,) = rule["from"]
    assert source["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "agentrun-system"}
    assert source["podSelector"]["matchLabels"]


def test_the_standing_default_deny_closes_both_ways_and_nobody_owns_it() -> None:
    deny, *accounts = standing_objects("team")
    assert deny["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert not deny["spec"].keys() & {"ingress", "egress"}
    assert all("ownerReferences" not in one["metadata"] for one in (deny, *accounts))
    assert all(account["automountServiceAccountToken"] is False for account in accounts)


@given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?", fullmatch=True), st.uuids(), st.integers(1, 99))
def test_a_pods_name_is_a_name_whatever_the_runs_is(name: str, uid: object, number: int) -> None:
    found = pod_name(name, str(uid), "verify", number)
    assert found.startswith("arun-")
    assert len(found) <= 63
    assert all(part.isalnum() for part in found.replace("--", "-").split("-")), found


@pytest.mark.parametrize(("host_users", "processes"), [(False, 300), (True, None)])
def test_the_process_limit_is_given_where_the_pod_has_users_of_its_own(
    host_users: bool,
    processes: int | None,
) -> None:
    sandbox = {"image": "i", "resources": {"processes": 300}}
    spec = build_pod(wanted(sandbox=sandbox, host_users=host_users))["spec"]
    variable = next(one for one in spec["containers"][0]["env"] if one["name"] == "AGENTRUN_SANDBOX")
    assert json.loads(variable["value"])["limits"].get("processes") == processes
