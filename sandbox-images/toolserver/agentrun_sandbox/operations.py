"""Which code carries an operation out; imported in the step's own process, so the server starts without it."""

from agentrun_sandbox import TYPE_CHECKING
from agentrun_sandbox.ops.context import Context

if TYPE_CHECKING:
    Body = dict[str, object]


def preload() -> None:
    """Import the operations once, so that no step's process has to; they stay shared with all of them."""
    import gc

    from agentrun_sandbox.ops import files, get, put, run, tree  # noqa: F401

    gc.freeze()


def perform(op: str, step: str, context: Context) -> "Body":
    """Members of the result. Raises StepError."""
    if op in ("run", "tool", "verify"):
        from agentrun_sandbox.ops import run

        return {"run": run.run, "tool": run.tool, "verify": run.verify}[op](context)
    if op in ("read", "write", "edit"):
        from agentrun_sandbox.ops import files

        return {"read": files.read, "write": files.write, "edit": files.edit}[op](context)
    if op in ("list", "search"):
        from agentrun_sandbox.ops import tree

        return {"list": tree.list_files, "search": tree.search}[op](context)
    if op == "put":
        from agentrun_sandbox.ops.put import put

        return put(context, step)
    from agentrun_sandbox.ops.get import get

    return get(context, step)
