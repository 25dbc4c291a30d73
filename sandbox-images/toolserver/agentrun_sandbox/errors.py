"""What goes wrong, in two kinds: a refused request (nothing started) and a failed step (a typed result)."""


class Refused(Exception):
    """The request is not carried out. `status` is the HTTP status, `kind` the class that the answer names."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


class StepError(Exception):
    """The step was tried and failed: becomes `errorClass` and `message` of its result; `extra` adds members."""

    def __init__(self, kind: str, message: str, extra: "dict[str, object] | None" = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.extra = extra or {}
