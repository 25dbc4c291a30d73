"""Types shared by the kinds: bounded scalars, metadata, subjects, limits, attribution, conditions."""

import re
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, StringConstraints
from pydantic_core import CoreSchema

from agentrun.api.markers import RULES, Extra, Utf8Limit, atomic_list, free_json, rule, rules
from agentrun.api.naming import json_name

GROUP = "agentrun.dev"
VERSION = "v1alpha1"
API_VERSION: Final = "agentrun.dev/v1alpha1"

# Amounts stay far below 2**53 (RFC 8785, JavaScript readers) even when a thousand of them are added up.
MAX_AMOUNT = 1_000_000_000_000
MAX_SECONDS = 10 * 366 * 86_400

_PATH_SEGMENT = r"([^/.\x00-\x1f\\]|\.[^/.\x00-\x1f\\]|\.\.[^/\x00-\x1f\\])[^/\x00-\x1f\\]*"
PATH_PATTERN = f"^{_PATH_SEGMENT}(/{_PATH_SEGMENT})*$"
PATH_MESSAGE = "must be a relative path with forward slashes and no empty, `.` or `..` segment, like `src/app.py`"


def _relative_path(value: str) -> str:
    if not re.fullmatch(PATH_PATTERN.removeprefix("^").removesuffix("$"), value):
        raise ValueError(PATH_MESSAGE)
    return value


def _timestamp(value: str) -> str:
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise ValueError("must be an RFC 3339 time with its zone, like `2026-01-31T12:00:00Z`")
    return value


Text4K = Annotated[str, Utf8Limit(4096)]
ShortText = Annotated[str, StringConstraints(max_length=1024)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=63)]
# RFC 1123: names of Kubernetes objects.
ObjectName = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
LabelName = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
# What every provider accepts as a tool's name.
ToolName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$")]
ItemID = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$")
]
CallID = Annotated[str, StringConstraints(min_length=1, max_length=32, pattern=r"^t[0-9]+c[0-9]+$")]
Digest = Annotated[str, StringConstraints(min_length=71, max_length=71, pattern=r"^sha256:[0-9a-f]{64}$")]
Revision = Annotated[
    str,
    StringConstraints(min_length=1, max_length=80, pattern=r"^(sha256:[0-9a-f]{64}|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$"),
]
UID = Annotated[str, StringConstraints(min_length=1, max_length=128)]
UserName = Annotated[str, StringConstraints(min_length=1, max_length=512)]
GroupName = Annotated[str, StringConstraints(max_length=256)]
HostName = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
CIDR = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[0-9a-fA-F.:]+/[0-9]{1,3}$")]
ImageName = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^\S+$")]
URL = Annotated[str, StringConstraints(min_length=1, max_length=2048, pattern=r"^https?://[^\s]+$")]
RelativePath = Annotated[
    str,
    StringConstraints(min_length=1, max_length=255),
    AfterValidator(_relative_path),
    rules(rule(f"self.matches({PATH_PATTERN!r})", PATH_MESSAGE)),
]
Time = Annotated[str, StringConstraints(max_length=64), AfterValidator(_timestamp), Extra({"format": "date-time"})]
Argument = Annotated[str, StringConstraints(max_length=4096)]
Argv = Annotated[tuple[Argument, ...], Field(min_length=1, max_length=64), atomic_list()]
JsonObject = Annotated[dict[str, Any], free_json()]
JsonValue = Annotated[Any, free_json(None)]

Flag = Annotated[bool, Field(strict=True)]
Amount = Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)]
Seconds = Annotated[int, Field(strict=True, ge=1, le=MAX_SECONDS)]
Bytes = Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Percent = Annotated[int, Field(strict=True, ge=0, le=100)]
Counter = Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)]
Ports = Annotated[tuple[Port, ...], Field(max_length=16), atomic_list()]


class ApiModel(BaseModel):
    """Base of all API objects: frozen, camelCase on the wire, snake_case in Python."""

    model_config = ConfigDict(
        alias_generator=json_name,
        validate_by_alias=True,
        validate_by_name=True,
        frozen=True,
        extra="forbid",
        use_enum_values=False,
    )
    # CEL rules of the object as a whole, in the order the API server reports them.
    cel_rules: ClassVar[tuple[dict[str, str], ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Called by pydantic: adds the class's CEL rules."""
        schema = handler(core_schema)
        if cls.cel_rules:
            handler.resolve_ref_schema(schema)[RULES] = list(cls.cel_rules)
        return schema

    def to_json(self) -> dict[str, Any]:
        """The object as JSON, only the fields that were set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


class StatusModel(ApiModel):
    """Base of everything below `status`: fields of a newer version are ignored, not refused."""

    model_config = ConfigDict(extra="ignore")


def set_members(model: BaseModel, names: tuple[str, ...]) -> list[str]:
    """JSON names of those fields of `names` that hold a value."""
    return [json_name(name) for name in names if getattr(model, name) is not None]


def require_one_of(model: BaseModel, *names: str) -> None:
    """Raise unless exactly one of the fields is set.

    Raises: ValueError naming the members and what was found.
    """
    found = set_members(model, names)
    if len(found) != 1:
        wanted = ", ".join(json_name(name) for name in names)
        raise ValueError(f"set exactly one of {wanted} (found: {', '.join(found) or 'none'})")


def one_of_rule(*json_names: str) -> dict[str, str]:
    """The CEL form of `require_one_of`."""
    counts = ", ".join(f"has(self.{name})" for name in json_names)
    return rule(f"[{counts}].filter(set, set).size() == 1", f"set exactly one of {', '.join(json_names)}")


class ObjectMeta(BaseModel):
    """The part of Kubernetes' ObjectMeta that this project reads; the rest is kept as it came."""

    model_config = ConfigDict(alias_generator=json_name, validate_by_alias=True, validate_by_name=True, extra="allow")

    name: str = ""
    generate_name: str | None = None
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class Actor(ApiModel):
    """Who acted, as the API server authenticated them."""

    username: UserName = Field(description="User name.")
    uid: Annotated[str, StringConstraints(max_length=128)] | None = Field(
        default=None, description="Unique id of the user, empty where the authenticator has none."
    )
    groups: Annotated[tuple[GroupName, ...], Field(max_length=256), atomic_list()] | None = Field(
        default=None, description="Groups of the user at that moment, at most the first 256."
    )


Attribution = dict[str, Actor]
ATTRIBUTION_DESCRIPTION = (
    "Who did what, stamped by the API server at each change. Whatever a client writes here is discarded: leave it out."
)


class Manifest(ApiModel):
    """Base of the five kinds."""

    model_config = ConfigDict(extra="forbid")

    metadata: ObjectMeta = Field(default_factory=ObjectMeta, description="Standard object metadata.")

    @classmethod
    def parse(cls, obj: dict[str, Any]) -> Self:
        """Build from an object as the API server returns it.

        Raises: pydantic.ValidationError (see `agentrun.api.validate` for readable messages).
        """
        return cls.model_validate(obj)
