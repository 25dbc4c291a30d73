"""Builds the CustomResourceDefinition of a kind."""

from typing import Any

from agentrun.api.kinds import Column, Kind
from agentrun.api.markers import RULES, rule
from agentrun.api.structural import structural_schema

Manifest = dict[str, Any]
# Not `agentrun`: kubectl would take the category for the resource of that name.
CATEGORIES = ["agentrun-dev"]
_ROOT = rule("has(self.spec)", "spec is required and cannot be removed")


def custom_resource_definition(kind: Kind) -> Manifest:
    """The CRD of `kind`, with one served and stored version."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name, "labels": {"app.kubernetes.io/part-of": "agentrun"}},
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": CATEGORIES,
            },
            "scope": kind.scope,
            "versions": [_version(kind)],
        },
    }


def _version(kind: Kind) -> Manifest:
    return {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": open_api_schema(kind)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
    }


def open_api_schema(kind: Kind) -> Manifest:
    """Schema of the whole object. The API server owns the schema of metadata."""
    schema = structural_schema(kind.model)
    properties: Manifest = schema["properties"]
    properties["apiVersion"] = {"type": "string", "description": f"Always {kind.api_version}."}
    properties["kind"] = {"type": "string", "description": f"Always {kind.kind}."}
    properties["metadata"] = {"type": "object"}
    schema["properties"] = {name: properties[name] for name in ("apiVersion", "kind", "metadata", "spec", "status")}
    # Removing `spec` would skip every rule below it, so it is required by schema and by rule.
    schema["required"] = ["spec"]
    schema[RULES] = [dict(_ROOT), *schema.get(RULES, [])]
    return schema


def _column(column: Column) -> Manifest:
    entry: Manifest = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    return entry | ({"priority": column.priority} if column.priority else {})
