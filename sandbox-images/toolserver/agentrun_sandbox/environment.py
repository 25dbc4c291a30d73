"""The environment of commands: the user image's own, made usable under any UID (C61), nothing of the server's."""

import os

from agentrun_sandbox.config import OWN_VARIABLES
from agentrun_sandbox.proc import read_file

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def image_environment() -> "dict[str, str]":
    """What the container was started with; the interpreter has added a locale to its own copy since (PEP 538)."""
    raw = read_file("/proc/self/environ")
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if b"=" in item)
    found = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    return found or dict(os.environ)


def command_environment(given: "dict[str, str]", workspace: str, extra: "dict[str, str]") -> "dict[str, str]":
    """What a command gets; `extra` is the call's own. HOME and TMPDIR are writable, whatever the UID."""
    result = {name: value for name, value in given.items() if name not in (*OWN_VARIABLES, "PWD", "OLDPWD")}
    result.setdefault("PATH", DEFAULT_PATH)
    temporary = _writable(result.get("TMPDIR", ""), "/tmp", os.path.join(workspace, ".tmp"))  # noqa: S108
    result["TMPDIR"] = temporary
    result["HOME"] = _writable(result.get("HOME", ""), os.path.join(temporary, f"home-{os.getuid()}"))
    if "GIT_CONFIG_COUNT" not in result:  # the kubelet made the folder, so its owner is another: git would refuse it
        result |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": workspace}
    return result | extra


def _writable(first: str, *others: str) -> str:
    """The first folder that can be written; the last one is made."""
    for path in (first, *others):
        if path and path != "/" and os.access(path, os.W_OK | os.X_OK):
            return path
    os.makedirs(others[-1], exist_ok=True)
    return others[-1]
