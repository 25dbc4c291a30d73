"""The objects a run is made of, as the API server returns them."""

import copy
from typing import Any

from agentrun.api.digests import template_digest
from agentrun.controller.definitions import build_revision

Object = dict[str, Any]
RUN_UID = "0b0c7c5e-0000-4000-8000-000000000001"
READ: Object = {
    "name": "read", "executor": "Builtin", "builtin": "Read", "sideEffectClass": "ReadOnly", "retryClass": "Repeat",
}  # fmt: skip
TEMPLATE: Object = {
    "instructions": "Fix it.",
    "modelName": "scripted",
    "tools": [READ],
    "sandbox": {"image": "images.test/python:1"},
}


def template(**changes: Any) -> Object:
    """A template; None takes a field away."""
    merged = copy.deepcopy(TEMPLATE) | changes
    return {name: value for name, value in merged.items() if value is not None}


def definition(name: str = "fixer", **changes: Any) -> Object:
    """An AgentDefinition with its template."""
    return {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentDefinition",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-of-{name}", "generation": 1},
        "spec": {"className": "default", "template": template(**changes)},
    }


def agent_class(**spec: Any) -> Object:
    """The class `default`."""
    models = [{"name": "scripted", "provider": "Scripted"}]
    return {"metadata": {"name": "default", "uid": "uid-of-default"}, "spec": {"models": models, **spec}}


def revision(of: Object) -> Object:
    """The frozen template of a definition."""
    return build_revision(of, template_digest(of["spec"]["template"]))


def run(generation: int = 1, **spec: Any) -> Object:
    """An attributed run of `fixer`."""
    stamps = {"run": {"username": "ann", "uid": "u-1"}}
    return {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentRun",
        "metadata": {
            "name": "run-1",
            "namespace": "team",
            "uid": RUN_UID,
            "generation": generation,
            "labels": {"team": "red"},
            "annotations": {"why": "because"},
        },
        "spec": {"definitionRef": {"name": "fixer"}, "input": {"text": "go"}, "attribution": stamps, **spec},
    }
