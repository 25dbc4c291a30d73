"""The part of a frozen template that decides transitions: small, and recorded in the run's first event (R7)."""

import msgspec


class ToolPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the reducer must know of a tool; the whole ToolSpec stands in the template's blob."""

    name: str
    digest: str
    executor: str  # Builtin | Sandbox | HTTP | MCP | SubRun
    effect: str  # ReadOnly | Workspace | External
    retry: str = "Reconcile"  # Repeat | SameKey | Reconcile
    timeout_seconds: int = 60
    approval: str = "None"  # None | FirstUse | EachCall
    builtin: str = ""
    max_output_bytes: int = 65536

    @property
    def in_sandbox(self) -> bool:
        """Whether a call of it needs the run's Pod."""
        return self.executor in ("Builtin", "Sandbox")


class VerificationPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Goal verification: run again in a fresh Pod with protected paths restored."""

    timeout_seconds: int


class BudgetPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits granted to the run; None is only found where neither run nor class bounds it."""

    wall_clock_seconds: int | None = None
    idle_seconds: int | None = None
    model_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_micro_usd: int | None = None
    tool_calls: int | None = None
    mutations: int | None = None
    output_bytes: int | None = None
    sub_runs: int | None = None
    sandbox_seconds: int | None = None
    concurrency: int | None = None


class RunPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything the reducer decides by."""

    tools: tuple[ToolPlan, ...] = ()
    budget: BudgetPlan = BudgetPlan()
    verification: VerificationPlan | None = None
    model_timeout_seconds: int = 600
    max_output_tokens: int = 4096  # worst case of one reply, reserved before the call
    reply_cost_micro_usd: int = 0  # worst case of one call at the class's price, reserved before the call
    model_attempts: int = 5
    workspace: bool = False  # the input brings files

    @property
    def needs_sandbox(self) -> bool:
        """No sandbox tool, no Pod (design 8)."""
        return any(tool.in_sandbox for tool in self.tools)

    def tool(self, name: str) -> ToolPlan | None:
        """The tool of that name."""
        return next((tool for tool in self.tools if tool.name == name), None)
