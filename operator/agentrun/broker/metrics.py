"""Probes and metrics on a plain HTTP port of their own; nothing on it is secret (design 8: the guard dials it)."""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agentrun.broker.wire import ErrorAnswer, ModelAnswer, Wire


class Metrics:
    """What the broker counts. Labels are few: paths, classes, models of classes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "agentrun_broker_requests", "Requests by answer.", ("path", "answer"), registry=self.registry
        )
        self._seconds = Histogram(
            "agentrun_broker_seconds", "Seconds a request took.", ("path",), registry=self.registry
        )
        self._tokens = Counter("agentrun_broker_tokens", "Tokens used by models.", ("bucket",), registry=self.registry)
        self._cost = Counter("agentrun_broker_cost_micro_usd", "Cost of model calls.", registry=self.registry)

    def answered(self, path: str, answer: Wire, seconds: float) -> None:
        """Count one answered request."""
        said = str(answer.error.error_class) if isinstance(answer, ErrorAnswer) else "Allowed"
        self._requests.labels(path, said).inc()
        self._seconds.labels(path).observe(seconds)
        spent = answer.error if isinstance(answer, ErrorAnswer) else answer if isinstance(answer, ModelAnswer) else None
        if spent is not None and spent.usage is not None:
            for bucket in ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"):
                self._tokens.labels(bucket).inc(getattr(spent.usage, bucket))
            self._cost.inc(spent.cost_micro_usd or 0)


def probes(metrics: Metrics, problem: Callable[[], str | None]) -> Starlette:
    """`/healthz` answers while the process works; `/readyz` says what is missing; `/metrics` for Prometheus."""

    async def health(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(_request: Request) -> Response:
        said = problem()
        return PlainTextResponse(f"{said or 'ok'}\n", 503 if said else 200)

    async def exposition(_request: Request) -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    routes = [Route("/healthz", health), Route("/readyz", ready), Route("/metrics", exposition)]
    return Starlette(routes=routes)
