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
