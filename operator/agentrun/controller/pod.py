"""The sandbox Pod as an allow-list: everything in it is written here, nothing is passed through (design 8, R20)."""

from typing import Any

import msgspec

from agentrun.controller.names import (
    MANAGED,
    PART_OF,
    PURPOSE_LABEL,
    RUN_UID_LABEL,
    SANDBOX_ACCOUNT,
    SANDBOX_LABEL,
    SPEC_DIGEST,
    pod_name,
)
from agentrun.core.digest import digest_json
from agentrun.core.plan import RunPlan
from agentrun.kube.reading import member, members

Object = dict[str, Any]
PORT = 7070
USER = 65532
ROOT = "/agentrun"
COPY = "/copy"  # not ROOT: in the tool server's own image that name leads to its root
FLAGS = ["-I", "-S", "-X", "utf8", "-m"]
SERVER = [f"{ROOT}/lib/ld.so", "--library-path", f"{ROOT}/lib", f"{ROOT}/bin/python3", *FLAGS, "agentrun_sandbox"]
GUARD = ["/lib/ld.so", "--library-path", "/lib", "/bin/python3", *FLAGS, "agentrun_sandbox.guard"]
GIB = 1 << 30
STATE_BYTES = 64 << 20
TMP_BYTES = 1 * GIB
GRACE_SECONDS = 2
PROCESSES = 256
DEAD_NODE_SECONDS = 30


class GuardTargets(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the guard proves closed (`denied`, `api`, the node where `node`) and open (`allowed`), as ip:port."""

    denied: tuple[str, ...] = ()
    api: str = ""
    allowed: tuple[str, ...] = ()
    node: bool = True
    tolerate: tuple[str, ...] = ()


class PublicKey(msgspec.Struct, frozen=True, rename={"public_key": "publicKey"}):
    """A key of the broker the sandbox trusts from its birth."""

    kid: str
    public_key: str


class SandboxWanted(msgspec.Struct, frozen=True):
    """One sandbox that should exist."""

    namespace: str
    run_name: str
    run_uid: str
    purpose: str  # work | verify
    number: int
    sandbox: dict[str, Any]  # spec.template.sandbox
    plan: RunPlan
    keys: tuple[PublicKey, ...]
    guard: GuardTargets
    tool_server_image: str
    image_volume: bool = True
    host_users: bool = False
    scheduling: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """Name of its Pod."""
        return pod_name(self.run_name, self.run_uid, self.purpose, self.number)


def build_pod(wanted: SandboxWanted) -> Object:
    """The whole Pod; its digest stands in an annotation, so that a changed wish is told from a changed Pod."""
    spec = _spec(wanted)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": wanted.name,
            "namespace": wanted.namespace,
            "labels": {
                SANDBOX_LABEL: "true",
                RUN_UID_LABEL: wanted.run_uid,
                PURPOSE_LABEL: wanted.purpose,
                **PART_OF_SANDBOX,
            },
            "annotations": {SPEC_DIGEST: digest_json(spec)},
            "ownerReferences": [owner(wanted.run_name, wanted.run_uid)],
        },
        "spec": spec,
    }


PART_OF_SANDBOX = {**MANAGED, "app.kubernetes.io/name": "agentrun-sandbox"}


def owner(name: str, uid: str) -> Object:
    """The AgentRun owns its Pods: deleting it needs nobody of ours."""
    return {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentRun",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _spec(wanted: SandboxWanted) -> Object:
    spec: Object = {
        "serviceAccountName": SANDBOX_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostUsers": wanted.host_users,
        # No DNS: nothing listens there, and the proxy resolves for whoever may leave.
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": _init_containers(wanted),
        "containers": [_sandbox(wanted)],
        "volumes": _volumes(wanted),
        "tolerations": [*_dead_node(), *members(wanted.scheduling, "tolerations")],
    }
    if wanted.scheduling.get("nodeSelector"):
        spec["nodeSelector"] = wanted.scheduling["nodeSelector"]
    if wanted.scheduling.get("imagePullSecrets"):
        spec["imagePullSecrets"] = wanted.scheduling["imagePullSecrets"]
    return spec


def _dead_node() -> list[Object]:
    return [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute",
         "tolerationSeconds": DEAD_NODE_SECONDS}
        for key in ("not-ready", "unreachable")
    ]  # fmt: skip


def _init_containers(wanted: SandboxWanted) -> list[Object]:
    """The guard proves egress; where nodes have no image volumes it copies the tool server too."""
    mounts: list[Object] = [] if wanted.image_volume else [{"name": "toolserver", "mountPath": COPY}]
    guard = {
        **_container("guard", wanted.tool_server_image, GUARD),
        "args": ["check"] if wanted.image_volume else ["check", "copy", COPY],
        "env": _env(wanted),
        "resources": _resources(100, 64 << 20, 64 << 20),
        "volumeMounts": mounts,
    }
    return [guard]


def _sandbox(wanted: SandboxWanted) -> Object:
    limits = member(wanted.sandbox, "resources")
    cpu, memory = limits.get("cpuMillis", 1000), limits.get("memoryBytes", GIB)
    return {
        **_container("sandbox", wanted.sandbox["image"], SERVER),
        "env": _env(wanted),
        "workingDir": "/workspace",
        "ports": [{"name": "tools", "containerPort": PORT, "protocol": "TCP"}],
        "resources": _resources(cpu, memory, limits.get("ephemeralStorageBytes", GIB)),
        "volumeMounts": [
            {"name": "toolserver", "mountPath": ROOT, "readOnly": True},
            {"name": "workspace", "mountPath": "/workspace"},
            {"name": "state", "mountPath": "/agentrun-state"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the sandbox's own
        ],
    }


def _container(name: str, image: str, command: list[str]) -> Object:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "privileged": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "File",
    }


def _resources(cpu_millis: int, memory: int, disk: int) -> Object:
    bounds = {"cpu": f"{cpu_millis}m", "memory": str(memory), "ephemeral-storage": str(disk)}
    return {"requests": {**bounds, "cpu": f"{min(cpu_millis, 100)}m"}, "limits": bounds}


def _env(wanted: SandboxWanted) -> list[Object]:
    limits = member(wanted.sandbox, "resources")
    settings = {
        "v": 1,
        "run": wanted.run_uid,
        "keys": [msgspec.to_builtins(key) for key in wanted.keys],
        "limits": {
            "memoryBytes": limits.get("memoryBytes", GIB),
            "workspaceBytes": _workspace_bytes(wanted),
            # On the node's own users the kernel would count other Pods' processes too.
            **({} if wanted.host_users else {"processes": limits.get("processes", PROCESSES)}),
        },
        "guard": msgspec.to_builtins(wanted.guard),
        "workspace": "/workspace",
        "state": "/agentrun-state",
    }
    return [
        {"name": "AGENTRUN_SANDBOX", "value": msgspec.json.encode(settings).decode()},
        _downward("POD_UID", "metadata.uid"),
        _downward("HOST_IP", "status.hostIP"),
        _downward("POD_IPS", "status.podIPs"),
    ]


def _downward(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _volumes(wanted: SandboxWanted) -> list[Object]:
    image: Object = {"image": {"reference": wanted.tool_server_image, "pullPolicy": "IfNotPresent"}}
    copied: Object = {"emptyDir": {"sizeLimit": str(STATE_BYTES)}}
    return [
        {"name": "toolserver", **(image if wanted.image_volume else copied)},
        {"name": "workspace", "emptyDir": {"sizeLimit": str(_workspace_bytes(wanted))}},
        {"name": "state", "emptyDir": {"sizeLimit": str(_workspace_bytes(wanted) + STATE_BYTES)}},
        {"name": "tmp", "emptyDir": {"sizeLimit": str(TMP_BYTES)}},
    ]


def _workspace_bytes(wanted: SandboxWanted) -> int:
    return int(wanted.sandbox.get("workspaceBytes", GIB))


def public_keys(keys: list[Object]) -> tuple[PublicKey, ...]:
    """The broker's keys as its ConfigMap lists them."""
    return tuple(PublicKey(key["kid"], key["publicKey"]) for key in keys)


def build_policy(wanted: SandboxWanted, pod_uid: str, operator_namespace: str) -> Object:
    """Ingress to the tool server from our own processes only; owned by the Pod, so it goes with it."""
    from_ours = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": operator_namespace}},
        "podSelector": {"matchLabels": PART_OF},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": wanted.name,
            "namespace": wanted.namespace,
            "labels": {RUN_UID_LABEL: wanted.run_uid, **MANAGED},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": wanted.name, "uid": pod_uid}],
        },
        "spec": {
            "podSelector": {"matchLabels": {RUN_UID_LABEL: wanted.run_uid, PURPOSE_LABEL: wanted.purpose}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [from_ours], "ports": [{"protocol": "TCP", "port": PORT}]}],
        },
    }
