"""The fixed set of limits that a run's ledger knows (design section 7)."""

from typing import Annotated

from pydantic import Field

from agentrun.api.common import Amount, ApiModel, Seconds, StatusModel

_ABSENT = "Absent means the class's default, never unlimited."


class Limits(ApiModel):
    """Limits of one run. Every field is optional; an absent one means the class's default, never unlimited."""

    wall_clock_seconds: Seconds | None = Field(default=None, description=f"Seconds from admission to end. {_ABSENT}")
    idle_seconds: Seconds | None = Field(
        default=None, description=f"Seconds a run may wait on people (paused, approval) before it ends. {_ABSENT}"
    )
    model_calls: Amount | None = Field(default=None, description=f"Calls of the model, retries included. {_ABSENT}")
    input_tokens: Amount | None = Field(default=None, description=f"Tokens sent to models. {_ABSENT}")
    output_tokens: Amount | None = Field(default=None, description=f"Tokens produced by models. {_ABSENT}")
    cost_micro_usd: Amount | None = Field(
        default=None, description=f"Money for model calls, in millionths of a US dollar. {_ABSENT}"
    )
    tool_calls: Amount | None = Field(default=None, description=f"Tool calls of every kind. {_ABSENT}")
    mutations: Amount | None = Field(
        default=None, description=f"Tool calls with an effect outside the sandbox. {_ABSENT}"
    )
    output_bytes: Amount | None = Field(default=None, description=f"Bytes of tool output kept. {_ABSENT}")
    sub_runs: Amount | None = Field(default=None, description=f"Runs started by this run, theirs included. {_ABSENT}")
    sandbox_seconds: Amount | None = Field(default=None, description=f"Seconds of sandbox life. {_ABSENT}")
    concurrency: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = Field(
        default=None, description=f"Operations of the run in flight at once. {_ABSENT}"
    )


class LimitUse(StatusModel):
    """State of one limit in the ledger."""

    granted: Amount = Field(description="Allowed in all, top-ups included.")
    reserved: Amount = Field(default=0, description="Set aside for operations in flight.")
    used: Amount = Field(default=0, description="Settled use.")
