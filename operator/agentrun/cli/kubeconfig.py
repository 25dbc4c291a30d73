"""Which kubeconfig, context and namespace, by kubectl's rules: of several files the first that says something wins."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agentrun.core.errors import AgentrunError
from agentrun.kube.reading import member, members

Object = dict[str, Any]


class BadKubeconfig(AgentrunError):
    """The kubeconfig cannot be used; the message names the file or context and what to set."""


@dataclass(frozen=True)
class Choice:
    """`files` None: there is no kubeconfig (a Pod's own account may do). Namespace None: nobody named one."""

    files: Path | None
    context: str | None
    namespace: str | None


def choose(kubeconfig: str | None, context: str | None, namespace: str | None) -> Choice:
    """Raises BadKubeconfig."""
    given = kubeconfig or os.environ.get("KUBECONFIG")
    paths = [kubeconfig] if kubeconfig else (given or str(Path.home() / ".kube" / "config")).split(os.pathsep)
    found = [path for path in (Path(name).expanduser() for name in paths if name) if path.is_file()]
    if not found:
        return _nothing(given, context, namespace)
    configs = [_read(path) for path in found]
    name = context or next((str(one["current-context"]) for one in configs if one.get("current-context")), None)
    if name is None:
        raise BadKubeconfig(f"{found[0]} has no current context: give --context, or `kubectl config use-context NAME`")
    return Choice(Path(os.pathsep.join(map(str, found))), name, namespace or _namespace(configs, name))


def _nothing(given: str | None, context: str | None, namespace: str | None) -> Choice:
    if given:
        raise BadKubeconfig(f"there is no kubeconfig at {given}: give --kubeconfig or set KUBECONFIG")
    return Choice(None, context, namespace)


def _read(path: Path) -> Object:
    import yaml  # noqa: PLC0415 - start-up

    try:
        found: Any = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadKubeconfig(f"{path} cannot be read as a kubeconfig: {type(error).__name__}") from None
    if not isinstance(found, dict):
        raise BadKubeconfig(f"{path} is no kubeconfig: it is empty or no mapping")
    return cast("Object", found)


def _namespace(configs: list[Object], name: str) -> str | None:
    contexts = [context for config in configs for context in members(config, "contexts")]
    for context in contexts:
        if context.get("name") == name:
            return member(context, "context").get("namespace")
    known = ", ".join(str(context.get("name")) for context in contexts) or "none"
    raise BadKubeconfig(f"the kubeconfig has no context {name}: it has {known}")
