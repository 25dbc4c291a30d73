"""The broker's HTTPS API (docs/decisions/0002-joints.md): authenticate, decode, hand over, answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentrun.broker.callers import Callers
from agentrun.broker.metrics import Metrics
from agentrun.broker.refusal import Refused, answer_to, status_of
from agentrun.broker.service import Broker
from agentrun.broker.wire import (
    MODEL_PATH,
    SIGN_PATH,
    ErrorAnswer,
    ModelCall,
    Refusal,
    SignCall,
    Wire,
    decode,
    encode,
)
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass, Retry

MAX_BODY_BYTES = 64 * 1024 * 1024
_Call = TypeVar("_Call", ModelCall, SignCall)
_Result = TypeVar("_Result")


class Gone(Exception):
    """The caller has closed its connection; nobody waits for an answer."""


class Api:
    """Handlers of one broker."""

    def __init__(self, broker: Broker, callers: Callers, log: Any, metrics: Metrics) -> None:
        self._broker = broker
        self._callers = callers
        self._log = log
        self._metrics = metrics

    def application(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route(MODEL_PATH, self._model, methods=["POST"]),
                Route(SIGN_PATH, self._sign, methods=["POST"]),
            ]
        )

    async def _model(self, request: Request) -> Response:
        async def work(call: ModelCall, raw: bytes) -> Wire:
            return await while_connected(request, self._broker.model(call, sha256_digest(raw)))

        return await self._answer(request, ModelCall, work)

    async def _sign(self, request: Request) -> Response:
        async def work(call: SignCall, _raw: bytes) -> Wire:
            return await self._broker.sign(call)

        return await self._answer(request, SignCall, work)

    async def _answer(
        self, request: Request, kind: type[_Call], work: Callable[[_Call, bytes], Awaitable[Wire]]
    ) -> Response:
        began = time.monotonic()
        facts: dict[str, Any] = {"path": request.url.path}
        answer = await self._guarded(request, kind, work, facts)
        facts["seconds"] = round(time.monotonic() - began, 4)
        self._metrics.answered(request.url.path, answer, facts["seconds"])
        if isinstance(answer, ErrorAnswer):
            error = answer.error
            self._log.warning("refused", error_class=str(error.error_class), message=error.message, **facts)
            return _response(status_of(error.error_class), answer)
        self._log.info("allowed", **facts)
        return _response(200, answer)

    async def _guarded(
        self,
        request: Request,
        kind: type[_Call],
        work: Callable[[_Call, bytes], Awaitable[Wire]],
        facts: dict[str, Any],
    ) -> Wire:
        try:
            facts["caller"] = await self._callers.check(request.headers.get("authorization"))
            raw = await _body(request)
            call = _decoded(raw, kind)
            facts |= {"run": call.run.uid, "step": call.step, "attempt": call.attempt, "fence": call.fence}
            facts |= {"op": call.op, "tool": call.tool} if isinstance(call, SignCall) else {}
            return await work(call, raw)
        except Refused as refusal:
            return answer_to(refusal)
        except Gone:
            return ErrorAnswer(Refusal(ErrorClass.CANCELLED, "the caller went away", Retry.NEVER))
        except Exception as error:  # noqa: BLE001  (the process must answer; the message of an unknown error may hold a secret)
            self._log.error("failed", error=type(error).__name__, where=_where(error), **facts)
            return ErrorAnswer(Refusal(ErrorClass.INTERNAL, f"the broker failed: {type(error).__name__}", Retry.REPEAT))


async def while_connected(request: Request, work: Awaitable[_Result]) -> _Result:
    """The result of `work`, which is cancelled when the caller closes its connection. Raises Gone then."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Gone
        return task.result()
    finally:
        for pending in (task, watcher):
            pending.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise Refused(ErrorClass.TOO_LARGE, f"a request holds at most {MAX_BODY_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _decoded(raw: bytes, kind: type[_Call]) -> _Call:
    try:
        return decode(raw, kind)
    except msgspec.MsgspecError as error:
        raise Refused(ErrorClass.INVALID_REQUEST, f"the request is not of this API: {error}") from None


def _where(error: BaseException) -> str:
    """Place of the failure, without the values that a traceback's text may hold."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "unknown" if trace is None else f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"


def _response(status: int, answer: Wire) -> Response:
    return Response(encode(answer), status, media_type="application/json")
