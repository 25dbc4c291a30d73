"""Settings of every process: environment `AGENTRUN_<NAME>`, overridden by flags of the same names."""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentrun.core.errors import AgentrunError

PREFIX = "AGENTRUN_"


class SettingsError(AgentrunError):
    """A setting is missing or wrong; the message names the variable and what it may be."""


class ToolServerMount(StrEnum):
    """How the tool server gets into a sandbox."""

    AUTO = "auto"  # as volume: Kubernetes 1.36 has image volumes; `copy` where the nodes' runtime has none
    VOLUME = "volume"
    COPY = "copy"


class Settings(BaseModel):
    """Frozen; every process reads the part it needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    journal_url: str = Field(
        default="sqlite:////var/lib/agentrun/journal.db", description="sqlite:/// or postgresql://"
    )
    broker_url: str = Field(default="https://agentrun-broker.agentrun-system.svc")
    broker_token_path: Path | None = Field(default=None, description="projected token; absent: asked by TokenRequest")
    operator_namespace: str = "agentrun-system"
    kubeconfig: Path | None = None
    watch_namespaces: tuple[str, ...] = Field(default=(), description="comma-separated; none: the whole cluster")
    tool_server_image: str = ""
    tool_server_mount: ToolServerMount = ToolServerMount.AUTO
    sandbox_host_users: bool = False
    gate_path: Path = Path("/var/lib/agentrun/gate.db")
    broker_port: int = Field(default=8443, ge=0, le=65535)
    read_port: int = Field(default=8444, ge=0, le=65535)
    health_port: int = Field(default=8081, ge=0, le=65535)
    lease_seconds: float = Field(default=15.0, gt=0)
    renew_seconds: float = Field(default=5.0, gt=0)
    workers: int = Field(default=50, ge=1, le=1000, description="runs one harness works on at a time")
    log_level: str = "info"


def load_settings(environment: Mapping[str, str] | None = None, **flags: Any) -> Settings:
    """Raises SettingsError naming the variable. Flags that are None were not given."""
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    for name in Settings.model_fields:
        value = environment.get(PREFIX + name.upper())
        if value:
            values[name] = tuple(filter(None, value.split(","))) if name == "watch_namespaces" else value
    values |= {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = PREFIX + str(first["loc"][0]).upper()
        raise SettingsError(f"{name}: {first['msg']} (got {first.get('input')!r})") from None
