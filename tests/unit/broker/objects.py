"""Objects as the API server returns them, recorded once; tests change a copy."""

import copy
import hashlib
from typing import Any

from agentrun.api.digests import template_digest
from agentrun.broker.authority import Authority
from agentrun.broker.view import Kind, revision_name
from agentrun.broker.wire import RunName, SignCall
from agentrun.core.digest import sha256_digest

Object = dict[str, Any]
NAMESPACE = "team-a"
RUN_UID = "11111111-aaaa"
POD_UID = "22222222-bbbb"
GRANT_UID = "33333333-cccc"
NOW = 1_800_000_000_000_000
RUN = RunName(NAMESPACE, "fix-1", RUN_UID)


def builtin(name: str, member: str, effect: str) -> Object:
    """A ToolSpec of a built-in tool."""
    retry = "Repeat" if effect == "ReadOnly" else "Reconcile"
    return {
        "name": name,
        "executor": "Builtin",
        "builtin": member,
        "sideEffectClass": effect,
        "retryClass": retry,
    }


POST_TOOL: Object = {
    "name": "post",
    "description": "Posts a line.",
    "executor": "Sandbox",
    "sandbox": {"argv": ["/bin/post"]},
    "sideEffectClass": "External",
    "retryClass": "Reconcile",
}
TEMPLATE: Object = {
    "instructions": "Fix the test.",
    "modelName": "scripted",
    "modelParameters": {"turns": [{"text": "done", "usage": {"inputTokens": 1000, "outputTokens": 10}}]},
    "sandbox": {"image": "busybox:1"},
    "verification": {"argv": ["pytest", "-q"]},
    "tools": [
        builtin("run", "Run", "Workspace"),
        builtin("read", "Read", "ReadOnly"),
        builtin("write", "Write", "Workspace"),
        POST_TOOL,
    ],
}


def world() -> dict[str, Object]:
    """One object of each kind, by its kind's name; together they let `run` and `read` act."""
    return copy.deepcopy(
        {
            "AgentRun": {
                "metadata": {"name": "fix-1", "namespace": NAMESPACE, "uid": RUN_UID},
                "spec": {
                    "definitionRef": {"name": "fixer"},
                    "attribution": {"run": {"username": "ann", "uid": "u1", "groups": ["devs"]}},
                },
            },
            "AgentDefinition": {
                "metadata": {"name": "fixer", "namespace": NAMESPACE, "uid": "d1"},
                "spec": {"className": "default", "template": TEMPLATE},
            },
            "ControllerRevision": {
                "metadata": {
                    "name": revision_name("fixer", template_digest(TEMPLATE)),
                    "namespace": NAMESPACE,
                    "uid": "r1",
                    "labels": {"agentrun.dev/definition": "fixer"},
                },
                "data": TEMPLATE,
            },
            "AgentClass": {
                "metadata": {"name": "default", "uid": "c1"},
                "spec": {
                    "models": [
                        {
                            "name": "scripted",
                            "provider": "Scripted",
                            "price": {"inputMicroUSDPerMTok": 2_000_000, "outputMicroUSDPerMTok": 10_000_000},
                        }
                    ]
                },
            },
            "ToolGrant": {
                "metadata": {"name": "fixer-tools", "namespace": NAMESPACE, "uid": GRANT_UID},
                "spec": {"definitionName": "fixer", "tools": [{"name": "run"}, {"name": "read"}, {"name": "post"}]},
            },
            "Pod": {
                "metadata": {
                    "name": "arun-fix-1-11111111-w1",
                    "namespace": NAMESPACE,
                    "uid": POD_UID,
                    "labels": {"agentrun.dev/run-uid": RUN_UID, "agentrun.dev/purpose": "work"},
                    "ownerReferences": [
                        {
                            "apiVersion": "agentrun.dev/v1alpha1",
                            "kind": "AgentRun",
                            "name": "fix-1",
                            "uid": RUN_UID,
                            "controller": True,
                        }
                    ],
                }
            },
        }
    )


def authority(objects: dict[str, Object], *more_grants: Object) -> Authority:
    """What a decision reads of these objects."""
    grants = tuple(grant for grant in (objects.get("ToolGrant"), *more_grants) if grant is not None)
    return Authority(
        objects.get("AgentRun"),
        objects.get("AgentDefinition"),
        objects.get("ControllerRevision"),
        objects.get("AgentClass"),
        grants,
        objects.get("Pod"),
    )


def digest_of(objects: dict[str, Object]) -> str:
    """Template digest of the revision."""
    return template_digest(objects["ControllerRevision"]["data"])


def retemplated(objects: dict[str, Object], template: Object) -> None:
    """Give the definition another frozen template."""
    objects["ControllerRevision"]["data"] = template
    objects["ControllerRevision"]["metadata"]["name"] = revision_name("fixer", template_digest(template))


class Recorded:
    """A View of recorded objects; counts fresh readings, and can be out of reach."""

    def __init__(self, objects: dict[str, Object]) -> None:
        self.objects = objects
        self.stale: dict[str, Object] | None = None  # what the live view shows where it lags behind
        self.fresh = 0

    def _shown(self, *, fresh: bool) -> dict[str, Object]:
        self.fresh += fresh
        return self.objects if fresh or self.stale is None else self.stale

    async def get(self, kind: Kind, namespace: str, name: str, *, fresh: bool) -> Object | None:
        """The object of that kind, if names agree."""
        found = self._shown(fresh=fresh).get(kind.value)
        same = found is not None and found["metadata"]["name"] == name
        return found if same and found is not None and found["metadata"].get("namespace", "") == namespace else None

    async def list(self, kind: Kind, namespace: str, *, fresh: bool) -> tuple[Object, ...]:
        """The object of that kind, if there is one."""
        found = self._shown(fresh=fresh).get(kind.value)
        return () if found is None or found["metadata"]["namespace"] != namespace else (found,)


def hashed(body: bytes) -> str:
    """`sha256:…` of bytes."""
    assert hashlib.sha256(body).hexdigest() in sha256_digest(body)
    return sha256_digest(body)


__all__ = ["SignCall"]
