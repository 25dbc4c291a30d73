"""Checks a manifest offline, with errors that name the field and the fix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from agentrun.api.common import API_VERSION, Manifest
from agentrun.api.kinds import BY_KIND


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: the field's path (JSON names) and what to do about it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class InvalidManifest(Exception):
    """A manifest that the API would refuse. A repetition changes nothing."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def parse(manifest: Mapping[str, Any]) -> Manifest:
    """Build the model of a manifest of any of the five kinds.

    Raises: InvalidManifest naming each field and its fix.
    """
    if not isinstance(manifest.get("kind"), str) or manifest["kind"] not in BY_KIND:
        raise InvalidManifest([Problem("kind", f"must be one of {', '.join(sorted(BY_KIND))}")])
    if manifest.get("apiVersion") != API_VERSION:
        raise InvalidManifest([Problem("apiVersion", f"must be {API_VERSION}")])
    return parse_as(BY_KIND[manifest["kind"]].model, manifest)


_Model = TypeVar("_Model", bound=Manifest)


def parse_as(model: type[_Model], manifest: Mapping[str, Any]) -> _Model:
    """Build a known model.

    Raises: InvalidManifest naming each field and its fix.
    """
    try:
        return model.model_validate(dict(manifest))
    except ValidationError as error:
        raise InvalidManifest([_problem(item) for item in error.errors()]) from None


def _problem(item: Mapping[str, Any]) -> Problem:
    return Problem(_path(item["loc"]), _message(item))


def _path(loc: Sequence[str | int]) -> str:
    path = ""
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".") or "object"


def _message(item: Mapping[str, Any]) -> str:
    match item["type"]:
        case "missing":
            return "is required: set it"
        case "extra_forbidden":
            return "is not a field of this API version: remove it, or correct its spelling"
        case "string_pattern_mismatch":
            return f"must match {item['ctx']['pattern']}"
        case _:
            text: str = item["msg"]
            return text.removeprefix("Value error, ").removeprefix("Input ")
