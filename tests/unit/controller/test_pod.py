"""The sandbox Pod: `restricted`, nothing but what is written down, bounds on every container (R20, C62)."""

import json
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


@pytest.mark.parametrize("image_volume", [True, False])
def test_it_meets_the_restricted_profile(image_volume: bool) -> None:
    spec = build_pod(wanted(image_volume=image_volume))["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] != 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    for container in (*spec["initContainers"], *spec["containers"]):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is context["privileged"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True
    assert all(volume.keys() - {"name"} <= {"emptyDir", "image"} for volume in spec["volumes"])


def test_it_has_no_identity_and_no_way_to_find_services() -> None:
    spec = build_pod(wanted())["spec"]
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
    assert spec["dnsPolicy"] == "None"
    assert spec["serviceAccountName"] == "agentrun-sandbox"
    text = json.dumps(spec)
    assert "secret" not in text.lower()
    assert "token" not in text.replace("automountServiceAccountToken", "").lower()


def test_every_container_has_requests_and_limits_C62() -> None:
    for container in containers(build_pod(wanted(image_volume=False))):
        for kind in ("requests", "limits"):
            assert container["resources"][kind].keys() == {"cpu", "memory", "ephemeral-storage"}


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
