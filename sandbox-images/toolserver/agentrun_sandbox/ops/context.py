"""What every operation gets."""

from agentrun_sandbox.arguments import Arguments
from agentrun_sandbox.config import Limits
from agentrun_sandbox.paths import Workspace

DEFAULT_TIMEOUT_SECONDS = 120


class Context:
    """One step: its body, parsed and raw, and the Pod's limits."""

    def __init__(self, body: "dict[str, object]", raw: bytes, limits: Limits, workspace: str, state: str) -> None:
        self.body = Arguments(body, "")
        self.raw = raw
        self.limits = limits
        self.workspace_path = workspace
        self.state = state
        self._workspace: Workspace | None = None

    @property
    def workspace(self) -> Workspace:
        """The tree that file operations may touch, opened at first use."""
        self._workspace = self._workspace or Workspace(self.workspace_path)
        return self._workspace

    def timeout(self, arguments: Arguments) -> int:
        """Seconds for this step: the smallest of the call's, the tool's and the Pod's."""
        most = self.limits.step_seconds
        own = arguments.integer("timeoutSeconds", most, 1, 1 << 31)
        given = self.body.integer("timeoutSeconds", DEFAULT_TIMEOUT_SECONDS, 1, 1 << 31)
        return min(own, given, most)

    def output_bytes(self) -> int:
        """Bytes of output to keep: the smaller of the tool's and the Pod's."""
        return min(self.body.integer("maxOutputBytes", self.limits.output_bytes, 1, 1 << 31), self.limits.output_bytes)

    def finish(self, arguments: Arguments) -> int:
        """For operations without a command: bounds are checked, members that nobody knows refused.

        Returns the bytes of output to keep.
        """
        self.body.integer("timeoutSeconds", DEFAULT_TIMEOUT_SECONDS, 1, 1 << 31)  # the server's to keep
        keep = self.output_bytes()
        arguments.done()
        self.body.done()
        return keep
