"""Input of a run: text, parameters, files, a git checkout. Frozen by digest at admission."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from agentrun.api.common import (
    URL,
    ApiModel,
    Digest,
    Flag,
    JsonObject,
    ObjectName,
    RelativePath,
    one_of_rule,
    require_one_of,
)
from agentrun.api.markers import Utf8Limit, map_list, rule, rules

MAX_INLINE_BYTES = 131_072
INLINE_MESSAGE = (
    "inline text of input.files is at most 131072 bytes together: put larger files into a ConfigMap or an artifact"
)
_SUM = "self.map(f, has(f.text) ? size(bytes(f.text)) : 0).sum()"
FileText = Annotated[str, StringConstraints(max_length=MAX_INLINE_BYTES)]


class ConfigMapKeyRef(ApiModel):
    """A key of a ConfigMap of the run's namespace (`data` or `binaryData`)."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    key: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] = Field(
        description="Key in the ConfigMap."
    )


class ArtifactRef(ApiModel):
    """An artifact of the tenant's content store."""

    digest: Digest = Field(description="Digest of the artifact.")


class InputFile(ApiModel):
    """One file of the workspace."""

    path: RelativePath = Field(description="Path in the workspace: relative, no `..`.")
    executable: Flag | None = Field(default=None, description="Whether it can be executed; absent: false.")
    text: FileText | None = Field(default=None, description="Content as text, written as UTF-8.")
    config_map_key_ref: ConfigMapKeyRef | None = Field(default=None, description="Content from a ConfigMap.")
    artifact_ref: ArtifactRef | None = Field(default=None, description="Content from an artifact.")

    cel_rules = (one_of_rule("text", "configMapKeyRef", "artifactRef"),)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        require_one_of(self, "text", "config_map_key_ref", "artifact_ref")
        return self


class GitInput(ApiModel):
    """A git checkout as the workspace's first content."""

    url: URL = Field(description="URL of the repository.")
    ref: Annotated[
        str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\s~^:?*\[\\-][^\s~^:?*\[\\]*$")
    ] = Field(description="Branch, tag or commit.")


InputFiles = Annotated[tuple[InputFile, ...], Field(max_length=64), map_list("path")]


class RunInput(ApiModel):
    """What a run is given."""

    text: Annotated[str, Utf8Limit(65_536)] | None = Field(
        default=None, description="The task, as the first user message."
    )
    parameters: JsonObject | None = Field(
        default=None, description="Free JSON, shown to the model beside the text; at most 65536 characters."
    )
    files: Annotated[InputFiles, rules(rule(f"{_SUM} <= {MAX_INLINE_BYTES}", INLINE_MESSAGE))] = Field(
        default=(), description="Files of the workspace; inline text at most 128 KiB together."
    )
    git: GitInput | None = Field(default=None, description="A git checkout below the files.")

    @model_validator(mode="after")
    def _inline_text_fits(self) -> Self:
        inline = sum(len(file.text.encode("utf-8", "surrogatepass")) for file in self.files if file.text)
        if inline > MAX_INLINE_BYTES:
            raise ValueError(INLINE_MESSAGE)
        paths = [file.path for file in self.files]
        if len(paths) != len(set(paths)):
            raise ValueError("files: paths must be unique")
        return self


class ScheduledInput(RunInput):
    """What a firing gives its run."""

    # For 32 schedules the rule would cost more than a CRD may: the admission policy bounds the inline text here.

    files: Annotated[InputFiles, Field(max_length=16)] = Field(
        default=(), description="Files of the workspace; inline text at most 128 KiB together in each schedule."
    )
