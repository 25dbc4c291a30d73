"""The AgentRun that `kubectl agentrun run` sends, from its options. Reads local files; asks nobody."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from agentrun.cli.outcome import Object

GENERATED_PREFIX = 57  # a run's name has at most 63 characters, and the API server adds five behind the hyphen


@dataclass(frozen=True)
class Wish:
    """The options as given: `key=value` texts not yet read."""

    definition: str
    name: str | None
    text: str | None
    parameters: Sequence[str]
    files: Sequence[str]
    budget: Sequence[str]


def manifest(wish: Wish) -> Object:
    """Raises click.BadParameter naming the option and the fix."""
    given = {
        "text": sys.stdin.read() if wish.text == "-" else wish.text,
        "parameters": _pairs("--parameter", wish.parameters, _json),
        "files": [_file(item) for item in wish.files],
    }
    run_input = {key: value for key, value in given.items() if value not in (None, {}, [])}
    budget = _pairs("--budget", wish.budget, _amount)
    spec: Object = {"definitionRef": {"name": wish.definition}}
    spec |= {"input": run_input} if run_input else {}
    spec |= {"budget": budget} if budget else {}
    prefix = wish.definition[:GENERATED_PREFIX].rstrip("-")
    meta = {"name": wish.name} if wish.name else {"generateName": f"{prefix}-"}
    return {"apiVersion": "agentrun.dev/v1alpha1", "kind": "AgentRun", "metadata": meta, "spec": spec}


def _pairs(option: str, items: Sequence[str], read: Any) -> Object:
    found: Object = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{item!r}: write {option} NAME=VALUE", param_hint=option)
        if key in found:
            raise click.BadParameter(f"{key} is given twice: leave one", param_hint=option)
        found[key] = read(key, value)
    return found


def _json(key: str, value: str) -> Any:
    try:
        return json.loads(value, parse_constant=_no_constant)
    except ValueError:
        hint = f"the value of {key} is no JSON: for a text write --parameter '{key}={json.dumps(value)}'"
        raise click.BadParameter(hint, param_hint="--parameter") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _amount(key: str, value: str) -> int:
    from agentrun.api.limits import Limits  # noqa: PLC0415 - pydantic is slow to import
    from agentrun.api.naming import json_name  # noqa: PLC0415

    known = [json_name(name) for name in Limits.model_fields]
    if key not in known:
        raise click.BadParameter(f"there is no limit {key}: choose of {', '.join(known)}", param_hint="--budget")
    if not (value.isascii() and value.isdigit()):
        raise click.BadParameter(f"{key} must be a whole number, not {value!r}", param_hint="--budget")
    return int(value)


def _file(item: str) -> Object:
    path, _, local = item.partition("=")
    source = Path(local or path)
    try:
        text = source.read_bytes().decode("utf-8")
    except OSError as error:
        raise click.BadParameter(f"{source}: {error.strerror}", param_hint="--file") from None
    except UnicodeDecodeError:
        hint = f"{source} is no UTF-8 text: put it into a ConfigMap and apply a manifest with configMapKeyRef"
        raise click.BadParameter(hint, param_hint="--file") from None
    return {"path": path, "text": text, **({"executable": True} if os.access(source, os.X_OK) else {})}
