"""The admitted Pod against the one asked for: every change that bears on safety is named (PodMutated, R20)."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from tests.unit.controller.sandboxes import admitted, wanted

from agentrun.controller.pod import build_pod
from agentrun.controller.pod_check import mutations

Object = dict[str, Any]
Change = Callable[[Object], object]


def sandbox(spec: Object) -> Object:
    found: Object = spec["containers"][0]
    return found


def guard(spec: Object) -> Object:
    found: Object = spec["initContainers"][0]
    return found


CHANGES: dict[str, tuple[str, Change]] = {
    "host network": ("hostNetwork", lambda spec: spec.update(hostNetwork=True)),
    "host processes": ("hostPID", lambda spec: spec.update(hostPID=True)),
    "host IPC": ("hostIPC", lambda spec: spec.update(hostIPC=True)),
    "groups": ("securityContext", lambda spec: spec["securityContext"].update(supplementalGroups=[0])),
    "a sysctl": ("securityContext", lambda spec: spec["securityContext"].update(sysctls=[{"name": "a", "value": "1"}])),
    "another DNS server": ("dnsConfig", lambda spec: spec.update(dnsConfig={"nameservers": ["10.0.0.10"]})),
    "service variables": ("enableServiceLinks", lambda spec: spec.update(enableServiceLinks=True)),
    "a debug container": ("ephemeralContainers", lambda spec: spec.update(ephemeralContainers=[{"name": "debug"}])),
    "a claimed device": ("resourceClaims", lambda spec: spec.update(resourceClaims=[{"name": "gpu"}])),
    "a port of the node": ("containers[sandbox].ports", lambda spec: sandbox(spec)["ports"][0].update(hostPort=7070)),
    "a probe that runs something": (
        "containers[sandbox].livenessProbe",
        lambda spec: sandbox(spec).update(livenessProbe={"exec": {"command": ["sh"]}}),
    ),
    "a block device": (
        "containers[sandbox].volumeDevices",
        lambda spec: sandbox(spec).update(volumeDevices=[{"name": "tmp", "devicePath": "/dev/x"}]),
    ),
    "another folder": ("containers[sandbox].workingDir", lambda spec: sandbox(spec).update(workingDir="/")),
    "no seccomp for a container": (
        "containers[sandbox].securityContext",
        lambda spec: sandbox(spec)["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    ),
    "mounts that spread": (
        "containers[sandbox].volumeMounts",
        lambda spec: sandbox(spec)["volumeMounts"][1].update(mountPropagation="Bidirectional"),
    ),
    "escalation for the guard": (
        "initContainers[guard].securityContext",
        lambda spec: guard(spec)["securityContext"].update(allowPrivilegeEscalation=True),
    ),
    "other targets for the guard": (
        "initContainers[guard].env",
        lambda spec: guard(spec)["env"][0].update(value='{"guard": {}}'),
    ),
    "no memory limit": (
        "containers[sandbox].resources",
        lambda spec: sandbox(spec)["resources"]["limits"].pop("memory"),
    ),
    "a volume less": ("volumes[tmp]", lambda spec: spec["volumes"].pop()),
    "a Secret for a volume": (
        "volumes[state]",
        lambda spec: spec["volumes"].__setitem__(2, {"name": "state", "secret": {"secretName": "x"}}),
    ),
    "host users": ("hostUsers", lambda spec: spec.update(hostUsers=True)),
    "another account": ("serviceAccountName", lambda spec: spec.update(serviceAccountName="default")),
    "a token": ("automountServiceAccountToken", lambda spec: spec.update(automountServiceAccountToken=True)),
    "no seccomp": ("securityContext", lambda spec: spec["securityContext"].pop("seccompProfile")),
    "root for the Pod": ("securityContext", lambda spec: spec["securityContext"].update(runAsUser=0)),
    "root may run": ("securityContext", lambda spec: spec["securityContext"].update(runAsNonRoot=False)),
    "a DNS server": ("dnsPolicy", lambda spec: spec.update(dnsPolicy="ClusterFirst")),
    "names of hosts": ("hostAliases", lambda spec: spec.update(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["x"]}])),
    "another runtime": ("runtimeClassName", lambda spec: spec.update(runtimeClassName="fast")),
    "shared processes": ("shareProcessNamespace", lambda spec: spec.update(shareProcessNamespace=True)),
    "a sidecar": ("containers", lambda spec: spec["containers"].append({"name": "mesh", "image": "mesh"})),
    "no guard": ("initContainers", lambda spec: spec["initContainers"].clear()),
    "an init container first": ("initContainers", lambda spec: spec["initContainers"].insert(0, {"name": "mesh"})),
    "a sidecar of the new kind": (
        "initContainers[guard].restartPolicy",
        lambda s: guard(s).update(restartPolicy="Always"),
    ),
    "another image": ("containers[sandbox].image", lambda spec: sandbox(spec).update(image="other")),
    "another guard": ("initContainers[guard].image", lambda spec: guard(spec).update(image="other")),
    "another command": ("containers[sandbox].command", lambda spec: sandbox(spec).update(command=["sh"])),
    "a guard that skips": ("initContainers[guard].args", lambda spec: guard(spec).update(args=["skip"])),
    "root for a container": (
        "containers[sandbox].securityContext",
        lambda spec: sandbox(spec)["securityContext"].update(runAsUser=0),
    ),
    "root may run in a container": (
        "containers[sandbox].securityContext",
        lambda spec: sandbox(spec)["securityContext"].update(runAsNonRoot=False),
    ),
    "privileged": (
        "containers[sandbox].securityContext",
        lambda spec: sandbox(spec)["securityContext"].update(privileged=True),
    ),
    "a capability": (
        "containers[sandbox].securityContext",
        lambda spec: sandbox(spec)["securityContext"]["capabilities"].update(add=["NET_ADMIN"]),
    ),
    "a writable root": (
        "containers[sandbox].securityContext",
        lambda spec: sandbox(spec)["securityContext"].update(readOnlyRootFilesystem=False),
    ),
    "a proc mount": (
        "containers[sandbox].securityContext",
        lambda spec: sandbox(spec)["securityContext"].update(procMount="Unmasked"),
    ),
    "a variable": ("containers[sandbox].env", lambda spec: sandbox(spec)["env"].append({"name": "A", "value": "b"})),
    "variables from a Secret": (
        "containers[sandbox].envFrom",
        lambda spec: sandbox(spec).update(envFrom=[{"secretRef": {"name": "x"}}]),
    ),
    "a mount": (
        "containers[sandbox].volumeMounts",
        lambda spec: sandbox(spec)["volumeMounts"].append({"name": "tmp", "mountPath": "/x"}),
    ),
    "a writable tool server": (
        "containers[sandbox].volumeMounts",
        lambda spec: sandbox(spec)["volumeMounts"][0].update(readOnly=False),
    ),
    "more memory": (
        "containers[sandbox].resources",
        lambda spec: sandbox(spec)["resources"]["limits"].update(memory="64Gi"),
    ),
    "a hook": (
        "containers[sandbox].lifecycle",
        lambda spec: sandbox(spec).update(lifecycle={"postStart": {"exec": {}}}),
    ),
    "a volume of the host": (
        "volumes[host]",
        lambda spec: spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
    ),
    "another tool server": (
        "volumes[toolserver]",
        lambda spec: spec["volumes"][0]["image"].update(reference="other"),
    ),
    "a bigger workspace": ("volumes[workspace]", lambda spec: spec["volumes"][1]["emptyDir"].update(sizeLimit="9Gi")),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_a_change_is_found_and_named(name: str) -> None:
    field, change = CHANGES[name]
    asked, found = build_pod(wanted()), admitted()
    change(found["spec"])
    assert mutations(asked, found) == [field]


# Of one container: the field that is named, and the change. Every container's is found, the guard's as the sandbox's.
OF_A_CONTAINER: dict[str, tuple[str, Change]] = {
    "image": ("image", lambda one: one.update(image="other")),
    "a digest added": ("image", lambda one: one.update(image=one["image"] + "@sha256:" + "0" * 64)),
    "root": ("securityContext", lambda one: one["securityContext"].update(runAsUser=0)),
    "root's group": ("securityContext", lambda one: one["securityContext"].update(runAsGroup=0)),
    "privileged": ("securityContext", lambda one: one["securityContext"].update(privileged=True)),
    "escalation": ("securityContext", lambda one: one["securityContext"].update(allowPrivilegeEscalation=True)),
    "escalation unsaid": ("securityContext", lambda one: one["securityContext"].pop("allowPrivilegeEscalation")),
    "a capability": ("securityContext", lambda one: one["securityContext"]["capabilities"].update(add=["SYS_ADMIN"])),
    "capabilities kept": ("securityContext", lambda one: one["securityContext"]["capabilities"].update(drop=[])),
    "no capabilities said": ("securityContext", lambda one: one["securityContext"].pop("capabilities")),
    "writable root": ("securityContext", lambda one: one["securityContext"].pop("readOnlyRootFilesystem")),
    "AppArmor off": (
        "securityContext",
        lambda one: one["securityContext"].update(appArmorProfile={"type": "Unconfined"}),
    ),
    "SELinux off": ("securityContext", lambda one: one["securityContext"].update(seLinuxOptions={"type": "spc_t"})),
    "no context": ("securityContext", lambda one: one.pop("securityContext")),
    "command": ("command", lambda one: one["command"].insert(0, "sh")),
    "arguments": ("args", lambda one: one.update(args=["copy"])),
    "preloaded code": ("env", lambda one: one["env"].insert(0, {"name": "LD_PRELOAD", "value": "/tmp/x.so"})),
    "no settings": ("env", lambda one: one["env"].clear()),
    "a Secret's value": (
        "env",
        lambda one: one["env"].append({"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}),
    ),
    "unbounded": ("resources", lambda one: one.pop("resources")),
    "a device": ("resources", lambda one: one["resources"].update(claims=[{"name": "gpu"}])),
    "a mount": (
        "volumeMounts",
        lambda one: one.update(volumeMounts=[*one.get("volumeMounts", []), {"name": "tmp", "mountPath": "/x"}]),
    ),
    "a hook": ("lifecycle", lambda one: one.update(lifecycle={"preStop": {"exec": {"command": ["sh"]}}})),
    "a probe of its start": ("startupProbe", lambda one: one.update(startupProbe={"exec": {"command": ["sh"]}})),
    "a probe of its readiness": (
        "readinessProbe",
        lambda one: one.update(readinessProbe={"exec": {"command": ["sh"]}}),
    ),
    "a sidecar's life": ("restartPolicy", lambda one: one.update(restartPolicy="Always")),
}


@pytest.mark.parametrize("name", list(OF_A_CONTAINER))
@pytest.mark.parametrize(("group", "container"), [("initContainers", "guard"), ("containers", "sandbox")])
@pytest.mark.parametrize("image_volume", [True, False])
def test_a_change_of_any_container_is_found_and_named_R20(
    name: str, group: str, container: str, image_volume: bool
) -> None:
    field, change = OF_A_CONTAINER[name]
    asked = build_pod(wanted(image_volume=image_volume))
    found = admitted(asked)
    change(found["spec"][group][0])
    assert mutations(asked, found) == [f"{group}[{container}].{field}"]


VOLUMES_OF_OTHERS: list[Object] = [
    {"hostPath": {"path": "/"}},
    {"secret": {"secretName": "x"}},
    {"configMap": {"name": "x"}},
    {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    {"persistentVolumeClaim": {"claimName": "x"}},
    {"csi": {"driver": "x"}},
    {"nfs": {"server": "x", "path": "/"}},
]


@pytest.mark.parametrize("source", VOLUMES_OF_OTHERS, ids=lambda source: next(iter(source)))
def test_a_volume_is_found_whether_it_is_added_or_put_in_anothers_place_R20(source: Object) -> None:
    asked, added, replaced = build_pod(wanted()), admitted(), admitted()
    added["spec"]["volumes"].insert(0, {"name": "theirs", **source})
    replaced["spec"]["volumes"][1] = {"name": "workspace", **source}
    assert mutations(asked, added) == ["volumes[theirs]"]
    assert mutations(asked, replaced) == ["volumes[workspace]"]


def test_a_container_added_anywhere_is_found_R20() -> None:
    asked = build_pod(wanted())
    for group in ("initContainers", "containers"):
        for place in (0, 1):
            found = admitted()
            found["spec"][group].insert(place, {"name": "mesh", "image": "mesh"})
            assert mutations(asked, found) == [group]


def test_several_changes_are_all_named() -> None:
    found = admitted()
    for change in (CHANGES["host network"][1], CHANGES["another image"][1], CHANGES["a volume of the host"][1]):
        change(found["spec"])
    assert mutations(build_pod(wanted()), found) == ["hostNetwork", "containers[sandbox].image", "volumes[host]"]


HARMLESS: dict[str, Change] = {
    "its node": lambda spec: spec.update(nodeName="node-1"),
    "a node selector of the namespace": lambda spec: spec.update(nodeSelector={"pool": "team"}),
    "the account's pull secrets": lambda spec: spec.update(imagePullSecrets=[{"name": "pull"}]),
    "images pulled always": lambda spec: sandbox(spec).update(imagePullPolicy="Always"),
    "a toleration": lambda spec: spec["tolerations"].append({"key": "gpu", "operator": "Exists"}),
    "a priority": lambda spec: spec.update(priorityClassName="low", priority=10),
    "what is off, said": lambda spec: spec.update(hostNetwork=False, hostPID=False, hostIPC=False),
    "shared processes off, said": lambda spec: spec.update(shareProcessNamespace=False),
    "empty lists, said": lambda spec: spec.update(hostAliases=[], ephemeralContainers=None, resourceClaims=[]),
    "unprivileged, unsaid": lambda spec: sandbox(spec)["securityContext"].pop("privileged"),
    "writable mounts, said": lambda spec: sandbox(spec)["volumeMounts"][1].update(readOnly=False),
}


@pytest.mark.parametrize("name", list(HARMLESS))
def test_what_a_cluster_may_rightly_say_is_no_change(name: str) -> None:
    found = admitted()
    HARMLESS[name](found["spec"])
    assert found != admitted()
    assert mutations(build_pod(wanted()), found) == []


@pytest.mark.parametrize("image_volume", [True, False])
def test_what_an_api_server_fills_in_is_no_change(image_volume: bool) -> None:
    asked = build_pod(wanted(image_volume=image_volume))
    assert mutations(asked, admitted(asked)) == []


@pytest.mark.parametrize(("asked", "same"), [("1024", "1Ki"), ("1000m", "1"), ("1Gi", "1073741824"), ("1G", "1000M")])
def test_a_quantity_is_a_number_however_it_is_written(asked: str, same: str) -> None:
    pod, found = build_pod(wanted()), admitted()
    for one, amount in ((pod, asked), (found, same)):
        sandbox(one["spec"])["resources"]["limits"]["memory"] = amount
    assert mutations(pod, found) == []


# What an admission plugin or the cluster's own defaults may rightly set.
FREE = {"imagePullPolicy", "terminationMessagePolicy", "terminationGracePeriodSeconds", "tolerations"}


def parts(found: Any) -> list[Any]:
    """Keys or indexes; none of a value that has no parts."""
    if isinstance(found, list):
        return list(range(len(found)))  # pyright: ignore[reportUnknownArgumentType]
    return list(cast("Object", found)) if isinstance(found, dict) else []


def leaves(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of every value in the spec."""
    if not parts(found):
        yield path
    for part in parts(found):
        yield from leaves(found[part], (*path, part))


def changed(pod: Object, path: tuple[Any, ...]) -> Object:
    """The Pod with that one value changed."""
    parent: Any = pod["spec"]
    for part in path[:-1]:
        parent = parent[part]
    was = parent[path[-1]]
    parent[path[-1]] = not was if isinstance(was, bool) else was + 1 if isinstance(was, int) else "changed"
    return pod


@pytest.mark.parametrize("image_volume", [True, False])
def test_every_value_of_the_spec_that_bears_on_safety_is_compared_R20(image_volume: bool) -> None:
    asked = build_pod(wanted(image_volume=image_volume))
    unseen = {path for path in leaves(asked["spec"]) if not mutations(asked, changed(copy.deepcopy(asked), path))}
    assert {next((part for part in path if part in FREE), path) for path in unseen} == {*FREE, ("restartPolicy",)}


@pytest.mark.parametrize("label", ["agentrun.dev/sandbox", "agentrun.dev/run-uid", "agentrun.dev/purpose"])
def test_a_label_that_policies_select_by_may_neither_go_nor_change_R20(label: str) -> None:
    asked = build_pod(wanted())
    for change in (lambda labels: labels.pop(label), lambda labels: labels.update({label: "other"})):
        found = admitted(asked)
        change(found["metadata"]["labels"])
        assert mutations(asked, found) == [f"labels[{label}]"]


def test_what_others_add_to_the_metadata_is_theirs() -> None:
    asked = build_pod(wanted())
    found = admitted(asked)
    found["metadata"]["labels"]["mesh"] = "on"
    found["metadata"]["annotations"] = {"mesh": "on"}
    assert mutations(asked, found) == []


def test_a_pod_that_nobody_owns_would_outlive_its_run() -> None:
    asked = build_pod(wanted())
    found = admitted(asked)
    found["metadata"]["ownerReferences"] = []
    assert mutations(asked, found) == ["ownerReferences"]
