"""Configuration: one plain variable AGENTRUN_SANDBOX (JSON), and the Pod's identity by the downward API."""

import json

from agentrun_sandbox.encoding import base64url_decode

PORT = 7070
OWN_VARIABLES = ("AGENTRUN_SANDBOX", "POD_UID", "HOST_IP", "POD_IPS")  # never given to commands
DEFAULT_LIMITS = {
    "outputBytes": 1 << 20,
    "stepSeconds": 3600,
    "fileBytes": 10 << 20,
    "workspaceBytes": 1 << 30,
    "memoryBytes": 0,
    "processes": 0,
}


class ConfigError(Exception):
    """The configuration cannot be used; names the field and the fix."""


class Limits:
    """Upper bounds of a step: bytes and seconds. `memory_bytes` is only told in messages (0: unknown).

    `processes` (0: no limit of ours) is set for commands where the Pod has a user namespace of its own: elsewhere the
    kernel counts per UID on the whole node, and another Pod's processes would make this one's fork fail.
    """

    __slots__ = ("file_bytes", "memory_bytes", "output_bytes", "processes", "step_seconds", "workspace_bytes")

    def __init__(self, given: "dict[str, object]") -> None:
        unknown = set(given) - set(DEFAULT_LIMITS)
        if unknown:
            raise ConfigError(f"limits.{min(unknown)} is no limit; known: {', '.join(DEFAULT_LIMITS)}")
        self.output_bytes = _positive(given, "outputBytes")
        self.step_seconds = _positive(given, "stepSeconds")
        self.file_bytes = _positive(given, "fileBytes")
        self.workspace_bytes = _positive(given, "workspaceBytes")
        self.memory_bytes = _positive(given, "memoryBytes")
        self.processes = _positive(given, "processes")


def _positive(given: "dict[str, object]", name: str) -> int:
    value = given.get(name, DEFAULT_LIMITS[name])
    if type(value) is not int or value < 0 or (value == 0 and DEFAULT_LIMITS[name] != 0):
        raise ConfigError(f"limits.{name} must be a positive integer, not {value!r}")
    return value


class Config:
    """What the Pod was born with. `keys` maps kid to the raw public key."""

    def __init__(self, raw: str, environ: "dict[str, str]") -> None:
        document = _object(raw)
        self.run = _text(document, "run")
        self.keys = _keys(document.get("keys"))
        limits = document.get("limits", {})
        if not isinstance(limits, dict):
            raise ConfigError("limits must be an object")
        self.limits = Limits(limits)
        self.workspace = str(document.get("workspace", "/workspace"))
        self.state = str(document.get("state", "/agentrun-state"))
        self.port = _port(document.get("port", PORT))
        self.pod_uid = environ.get("POD_UID", "")
        if not self.pod_uid:
            raise ConfigError("POD_UID is empty: set it by the downward API from metadata.uid")


def _port(value: object) -> int:
    if type(value) is not int or not 0 <= value < 65536:
        raise ConfigError(f"AGENTRUN_SANDBOX.port must be a port number, not {value!r}")
    return value


def load(environ: "dict[str, str]") -> Config:
    """The configuration of this process. Raises ConfigError."""
    return Config(environ.get("AGENTRUN_SANDBOX", ""), environ)


def _object(raw: str) -> "dict[str, object]":
    if not raw:
        raise ConfigError("AGENTRUN_SANDBOX is empty: set it to the JSON that sandbox-protocol.md describes")
    try:
        document = json.loads(raw)
    except ValueError as error:
        raise ConfigError(f"AGENTRUN_SANDBOX is no JSON: {error}") from None
    if not isinstance(document, dict) or document.get("v") != 1:
        raise ConfigError("AGENTRUN_SANDBOX must be an object with v: 1")
    return document


def _text(document: "dict[str, object]", name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"AGENTRUN_SANDBOX.{name} must be a text that is not empty")
    return value


def _keys(given: object) -> "dict[str, bytes]":
    if not isinstance(given, list) or not given:
        raise ConfigError("AGENTRUN_SANDBOX.keys must hold at least one {kid, publicKey}")
    keys: dict[str, bytes] = {}
    for position, item in enumerate(given):
        try:
            kid, key = str(item["kid"]), base64url_decode(str(item["publicKey"]))
        except (TypeError, KeyError, ValueError):
            key = b""
        if len(key) != 32:
            raise ConfigError(f"AGENTRUN_SANDBOX.keys[{position}] must be {{kid, publicKey: base64url of 32 bytes}}")
        keys[kid] = key
    return keys
