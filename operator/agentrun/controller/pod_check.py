"""Whether the Pod that was admitted is the Pod that was asked for, on every field that bears on safety (PodMutated)."""

import re
from decimal import Decimal
from typing import Any, TypeGuard

from agentrun.kube.reading import member, members

Object = dict[str, Any]
_POD_FIELDS = (
    "serviceAccountName", "automountServiceAccountToken", "hostUsers", "hostNetwork", "hostPID", "hostIPC",
    "shareProcessNamespace", "runtimeClassName", "securityContext", "dnsPolicy", "dnsConfig", "hostAliases",
    "enableServiceLinks", "ephemeralContainers", "resourceClaims",
)  # fmt: skip
_CONTAINER_FIELDS = (
    "name", "image", "command", "args", "securityContext", "env", "envFrom", "volumeMounts", "volumeDevices",
    "resources", "lifecycle", "workingDir", "restartPolicy", "ports", "livenessProbe", "readinessProbe", "startupProbe",
)  # fmt: skip
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_SUFFIX = {None: Decimal(1), "m": Decimal("0.001")} | {
    unit + binary: Decimal(base) ** power
    for base, binary in ((1000, ""), (1024, "i"))
    for power, unit in enumerate(("k" if not binary else "K", "M", "G", "T"), start=1)
}
# Where `false` is what the API server's own default says; elsewhere (runAsNonRoot) it takes a protection away.
_FALSE_BY_DEFAULT = {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "privileged", "readOnly"}


def mutations(asked: Object, admitted: Object) -> list[str]:
    """Paths that differ, empty when the Pod is as asked. Defaults that mean nothing are no difference."""
    found = [name for name in _POD_FIELDS if not _same(asked["spec"].get(name), admitted["spec"].get(name), name)]
    for group in ("initContainers", "containers"):
        found += _containers(group, asked["spec"].get(group, []), admitted["spec"].get(group, []))
    found += _volumes(asked["spec"]["volumes"], members(admitted["spec"], "volumes"))
    return found + _metadata(asked["metadata"], admitted["metadata"])


def _metadata(asked: Object, admitted: Object) -> list[str]:
    """Policies select by our labels, and deletion follows the owner: what others add beside them is theirs."""
    labels, owners = member(admitted, "labels"), members(admitted, "ownerReferences")
    found = [f"labels[{name}]" for name, value in asked["labels"].items() if labels.get(name) != value]
    kept = all(any(_same(owner, one) for one in owners) for owner in asked["ownerReferences"])
    return found if kept else [*found, "ownerReferences"]


def _containers(group: str, asked: list[Object], admitted: list[Object]) -> list[str]:
    if [one["name"] for one in asked] != [one["name"] for one in admitted]:
        return [group]
    return [
        f"{group}[{one['name']}].{field}"
        for one, other in zip(asked, admitted, strict=True)
        for field in _CONTAINER_FIELDS
        if not _same(one.get(field), other.get(field))
    ]


def _volumes(asked: list[Object], admitted: list[Object]) -> list[str]:
    wanted = {volume["name"]: volume for volume in asked}
    there = {volume["name"]: volume for volume in admitted}
    changed = [name for name in wanted if not _same(wanted[name], there.get(name))]
    return [f"volumes[{name}]" for name in (*changed, *(there.keys() - wanted.keys()))]


def _same(asked: Any, admitted: Any, name: str = "") -> bool:
    if _absent(asked, name) and _absent(admitted, name):
        return True
    if _is_object(asked) and _is_object(admitted):
        return _same_members(asked, admitted)
    if _is_list(asked) and _is_list(admitted):
        return _same_items(asked, admitted)
    return _same_value(asked, admitted)


def _absent(value: Any, name: str) -> bool:
    """0 is a value: as a user it is root."""
    return value is None or (value is False and name in _FALSE_BY_DEFAULT) or (value in ([], {}, "") and value != 0)


def _is_object(value: Any) -> TypeGuard[Object]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _same_members(asked: Object, admitted: Object) -> bool:
    return all(_same(asked.get(name), admitted.get(name), name) for name in asked.keys() | admitted.keys())


def _same_items(asked: list[Any], admitted: list[Any]) -> bool:
    return len(asked) == len(admitted) and all(map(_same, asked, admitted))


def _same_value(asked: Any, admitted: Any) -> bool:
    return bool(asked == admitted) or _amount(asked) == _amount(admitted) is not None


def _amount(value: Any) -> Decimal | None:
    """A Kubernetes quantity as a number: the API server writes 1000m as 1."""
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return Decimal(match[1]) * _SUFFIX[match[2]] if match else None
