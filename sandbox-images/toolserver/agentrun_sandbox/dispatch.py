"""What happens to a request: checked, answered from memory, joined to a running step, or begun."""

import json
import time

from agentrun_sandbox import TYPE_CHECKING
from agentrun_sandbox.arguments import parse
from agentrun_sandbox.config import Config
from agentrun_sandbox.errors import Refused, StepError
from agentrun_sandbox.memory import Memory
from agentrun_sandbox.sodium import sha256_digest
from agentrun_sandbox.token import Claims, check_claims, open_token

if TYPE_CHECKING:
    Body = dict[str, object]

ONCE = ("run", "tool", "verify", "write", "edit")  # begun and not finished: never again
AGAIN = ("read", "list", "search", "put")  # remembered, but an interrupted one may run again: same effect
ALWAYS = ("get", "ps", "kill")  # not remembered
OPERATIONS = ONCE + AGAIN + ALWAYS


def check_head(token: str, config: Config) -> Claims:
    """Everything that can be checked before the body is there. Raises Refused."""
    claims = open_token(token, config.keys)
    check_claims(claims, config.pod_uid, config.run, time.time())
    if claims.op not in OPERATIONS:
        raise Refused(400, "UnknownOperation", f"op {claims.op[:64]!r} is none of {', '.join(OPERATIONS)}")
    return claims


def check_body(claims: Claims, body: bytes, memory: Memory) -> None:
    """Whether these are the signed bytes and the fence is not behind; remembers the fence. Raises Refused."""
    if sha256_digest(body) != claims.body_digest:
        raise Refused(403, "BodyMismatch", "bodyDigest is not the digest of the body")
    if claims.fence < memory.fence:
        raise Refused(409, "StaleFence", f"fence {claims.fence} is behind {memory.fence}: the run has another owner")
    try:
        memory.raise_fence(max(claims.fence, claims.min_fence))
    except OSError as error:
        raise Refused(503, "StateUnavailable", f"the state volume cannot be written: {error.strerror}") from None


def step_key(claims: Claims, body: "Body") -> str:
    """What step memory goes by: the step id, and for `put` the chunk."""
    return f"{claims.step}/{body.get('index')}" if claims.op == "put" else claims.step


class Remembered:
    """What memory says about a step: an answer, or a reason never to run it (`error`), or nothing."""

    def __init__(self, answer: "bytes | None" = None, error: "StepError | None" = None) -> None:
        self.answer = answer
        self.error = error


def recall(claims: Claims, key: str, memory: Memory) -> Remembered:
    """Look a step up that is not running in this process. Raises Refused (StepConflict)."""
    if claims.op in ALWAYS:
        return Remembered()
    started = memory.started(key)
    if started is None:
        return Remembered()
    if started.get("bodyDigest") != claims.body_digest or started.get("op") != claims.op:
        raise Refused(409, "StepConflict", f"step {key} was dispatched before with another body or operation")
    answer = memory.result(key)
    if answer is not None:
        return Remembered(answer)
    if claims.op in AGAIN:
        return Remembered()
    told = "the container was restarted while this step ran: whether it took effect is unknown, it is not run again"
    return Remembered(error=StepError("SandboxReplaced", told, {"startedBy": started.get("bootID")}))


def parsed(claims: Claims, body: bytes) -> "Body":
    """The body's object; `kill` and `ps` may come without one. Raises StepError."""
    return {} if claims.op in ("kill", "ps") and not body else parse(body)


def healthz(config: Config, boot_id: str, fence: int) -> bytes:
    """Body of `GET /healthz`."""
    return json.dumps({"v": 1, "podUID": config.pod_uid, "run": config.run, "bootID": boot_id, "fence": fence}).encode()
