"""Stable identities: they survive retries, restarts and takeovers (docs/decisions/0001-formats.md)."""

import hashlib

import msgspec

from agentrun.core.digest import canonical


class Tenant(msgspec.Struct, frozen=True):
    """A tenant is a namespace of one cluster, by UID: a re-created namespace is another tenant."""

    cluster: str
    namespace_uid: str

    @property
    def key(self) -> str:
        """`<cluster>/<namespace UID>`."""
        return f"{self.cluster}/{self.namespace_uid}"


def model_step(turn: int) -> str:
    """Step id of the model call of a turn (turns count from 1)."""
    return f"t{turn}"


def tool_step(turn: int, index: int) -> str:
    """Step id, and call id, of a proposed tool call (index counts from 0)."""
    return f"t{turn}c{index}"


def put_step(number: int) -> str:
    """Step id of bringing a workspace into a sandbox."""
    return f"put{number}"


def get_step(number: int) -> str:
    """Step id of taking a workspace out of a sandbox."""
    return f"get{number}"


def verify_step(number: int) -> str:
    """Step id of a verification."""
    return f"verify{number}"


def command_id(step: str, attempt: int) -> str:
    """Id of one attempt of a step."""
    return f"{step}#{attempt}"


def idempotency_key(cluster: str, run: str, fork_scope: str, step: str) -> str:
    """Key of a step's effect: the same for every attempt, another for every fork."""
    raw = canonical(["agentrun/key/1", cluster, run, fork_scope, step])
    return "ar1-" + hashlib.sha256(raw).hexdigest()
