"""The broker over real HTTPS on loopback: signed dispatches, model calls, refusals, cancellation (C3, C31, C45)."""

import asyncio
import copy
import io
import json
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from tests.integration import openai_server as wire
from tests.integration.openai_server import Exchange
from tests.unit.broker.objects import (
    GRANT_UID,
    POD_UID,
    RUN,
    RUN_UID,
    TEMPLATE,
    Object,
    Recorded,
    digest_of,
    retemplated,
    world,
)

from agentrun.broker.app import Api
from agentrun.broker.callers import Callers
from agentrun.broker.client import BrokerClient, BrokerError, fixed_text
from agentrun.broker.credentials import Credentials
from agentrun.broker.gate import Gate
from agentrun.broker.keys import Keys, new_keys, server_certificate
from agentrun.broker.metrics import Metrics, probes
from agentrun.broker.model_calls import ModelCalls
from agentrun.broker.redaction import Redactor, json_logger
from agentrun.broker.refusal import Refused
from agentrun.broker.service import Broker
from agentrun.broker.serving import serving, tls_context
from agentrun.broker.signing import Signer
from agentrun.broker.view import Kind
from agentrun.broker.wire import MODEL_PATH, SIGN_PATH, ModelCall, SignCall
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass, Retry
from agentrun.models.port import Finish, Message, ModelRequest

BOUND = 20.0
KEY = "sk-CANARY-31-key"
TOKEN = "CANARY-token-of-the-harness"
HARNESS = "system:serviceaccount:agentrun-system:agentrun-harness"
BODY = b'{"arguments":{"argv":["pytest"]}}'


@dataclass
class Running:
    """A running broker and what it works with."""

    url: str
    client: BrokerClient
    view: Recorded
    gate: Gate
    keys: Keys
    log: io.StringIO
    secrets: dict[str, Object]
    metrics: Metrics

    def lines(self) -> list[dict[str, Any]]:
        """Its log."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


async def review(token: str, audience: str) -> dict[str, Any]:
    """A TokenReview that knows one token."""
    user = {"username": HARNESS}
    return {"authenticated": token == TOKEN, "audiences": [audience], "user": user}


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker on a free port."""
    keys = new_keys(datetime.now(UTC))
    redactor, out = Redactor(), io.StringIO()
    secrets: dict[str, Object] = {}

    async def read_secret(name: str) -> Object | None:
        return secrets.get(name)

    view, gate = Recorded(world()), await Gate.open(tmp_path / "gate.db")
    models = ModelCalls(Credentials(read_secret, redactor))
    metrics = Metrics()
    broker = Broker(view, gate, Signer(keys.current.kid, keys.current.key), models)
    api = Api(broker, Callers(review, "agentrun-system"), json_logger("broker", redactor, out), metrics)
    tls = tls_context(*server_certificate(keys, ("localhost", "127.0.0.1"), datetime.now(UTC)))
    async with serving(api.application(), "127.0.0.1", 0, tls) as port:
        url = f"https://127.0.0.1:{port}"
        async with BrokerClient(url, ca=fixed_text(keys.ca_pem), token=fixed_text(TOKEN)) as client:
            yield Running(url, client, view, gate, keys, out, secrets, metrics)
    await models.close()
    await gate.close()
    assert "CANARY" not in out.getvalue()


def sign_call(view: Recorded, **change: Any) -> SignCall:
    """A dispatch of tool `run`."""
    fields: dict[str, Any] = {
        "run": RUN,
        "fence": 3,
        "step": "t1c0",
        "attempt": 1,
        "template_digest": digest_of(view.objects),
        "op": "run",
        "pod_name": "arun-fix-1-11111111-w1",
        "pod_uid": POD_UID,
        "min_fence": 1,
        "body_digest": sha256_digest(BODY),
        "body": BODY,
        "call": "t1c0",
        "tool": "run",
        "arguments_digest": sha256_digest(b'{"argv":["pytest"]}'),
    }
    return SignCall(**{**fields, **change})


def model_call(view: Recorded, *, fence: int = 3, seconds: float = BOUND) -> ModelCall:
    """A model call of the first turn."""
    deadline = time.time_ns() // 1000 + int(seconds * 1_000_000)
    request = ModelRequest((Message("user", "go"),), (), 500, deadline)
    return ModelCall(RUN, fence, "t1", 1, digest_of(view.objects), request)


def use_provider(running: Running, endpoint: str, **model: Any) -> None:
    """Let the run's model be one behind this endpoint."""
    template = copy.deepcopy(TEMPLATE) | {"modelName": "large", "modelParameters": {}}
    retemplated(running.view.objects, template)
    price = {"inputMicroUSDPerMTok": 2_000_000, "outputMicroUSDPerMTok": 10_000_000}
    entry = {"name": "large", "provider": "OpenAIChat", "endpoint": endpoint, "price": price, **model}
    running.view.objects["AgentClass"]["spec"]["models"].append(entry)


def with_key(running: Running, key: str) -> None:
    """The platform's Secret for the model."""
    import base64

    data = {"apiKey": base64.b64encode(key.encode()).decode()}
    running.secrets["large-key"] = {"type": "agentrun.dev/credential", "data": data}


async def refused(call: Any) -> BrokerError:
    with pytest.raises(BrokerError) as caught:
        await call
    return caught.value


async def test_a_granted_call_is_signed_for_this_pod_and_these_bytes_R16(running: Running) -> None:
    answer = await running.client.sign(sign_call(running.view))
    public = Ed25519PublicKey.from_public_bytes(running.keys.current.public)
    dispatch = jwt.decode(answer.dispatch, public, algorithms=["EdDSA"], audience=POD_UID)
    assert (dispatch["run"], dispatch["bodyDigest"], dispatch["fence"]) == (RUN_UID, sha256_digest(BODY), 3)
    verdict = jwt.decode(answer.verdict.sig, public, algorithms=["EdDSA"])
    assert verdict | {"iat": 0} == {
        "run": RUN_UID,
        "step": "t1c0",
        "attempt": 1,
        "call": "t1c0",
        "op": "run",
        "tool": "run",
        "decision": "Allowed",
        "grant": GRANT_UID,
        "policyDigest": answer.verdict.policy_digest,
        "bodyDigest": sha256_digest(BODY),
        "iat": 0,
    }


async def test_three_answers_arrive_as_three_classes_C45(running: Running) -> None:
    grant = running.view.objects["ToolGrant"]["spec"]
    grant["tools"] = [{"name": "run", "match": [{"path": "/argv", "equals": ["make"]}]}]
    errors = [
        await refused(running.client.sign(sign_call(running.view, tool=name, op=name))) for name in ("x", "read", "run")
    ]
    assert [(error.error_class, error.retry) for error in errors] == [
        (ErrorClass.NOT_FOUND, Retry.NEVER),
        (ErrorClass.NOT_GRANTED, Retry.NEVER),
        (ErrorClass.DENIED, Retry.NEVER),
    ]


async def test_a_stale_harness_is_refused_for_tools_and_models_C3(running: Running) -> None:
    await running.client.sign(sign_call(running.view, fence=5))
    for call in (
        running.client.sign(sign_call(running.view, fence=4)),
        running.client.model(model_call(running.view, fence=4)),
    ):
        assert (await refused(call)).error_class is ErrorClass.STALE_FENCE
    await running.client.sign(sign_call(running.view, fence=5))


async def test_a_stopped_run_is_refused_at_once_R9(running: Running) -> None:
    running.view.objects["AgentRun"]["spec"]["stop"] = {"mode": "Cancel"}
    for call in (running.client.sign(sign_call(running.view)), running.client.model(model_call(running.view))):
        assert (await refused(call)).error_class is ErrorClass.RUN_STOPPED


async def test_a_refusal_of_the_live_view_is_checked_at_the_api_server_first(running: Running) -> None:
    running.view.stale = {name: obj for name, obj in running.view.objects.items() if name != "ToolGrant"}
    await running.client.sign(sign_call(running.view))
    assert running.view.fresh > 0


async def test_an_unkeyed_mutation_is_judged_freshly_and_kept_R6(running: Running) -> None:
    seen = copy.deepcopy(running.view.objects)
    running.view.stale = seen
    running.view.objects["ToolGrant"]["spec"]["tools"] = [{"name": "run"}]  # revoked a moment ago
    body = b'{"arguments":{},"argv":["/bin/post"]}'
    bytes_of = {"body": body, "body_digest": sha256_digest(body), "arguments_digest": sha256_digest(b"{}")}
    post = sign_call(running.view, tool="post", op="tool", **bytes_of)
    assert (await refused(running.client.sign(post))).error_class is ErrorClass.NOT_GRANTED
    running.view.objects["ToolGrant"]["spec"]["tools"] = [{"name": "post"}]
    answer = await running.client.sign(post)
    rows = running.gate._connection
    kept = await running.gate._on_thread(lambda: rows.execute("SELECT step, jws FROM verdict").fetchall())
    assert kept == [("t1c0", answer.verdict.sig)]


async def test_nobody_who_could_say_means_no_R16(running: Running) -> None:
    async def silent(_kind: Kind, _namespace: str, _name: str, *, fresh: bool) -> Object | None:
        raise Refused(ErrorClass.AUTHORITY_UNAVAILABLE, f"the API server does not answer (fresh={fresh})")

    running.view.get = silent  # type: ignore[method-assign]
    for call in (running.client.sign(sign_call(running.view)), running.client.model(model_call(running.view))):
        error = await refused(call)
        assert (error.error_class, error.retry) == (ErrorClass.AUTHORITY_UNAVAILABLE, Retry.REPEAT)


async def test_a_scripted_model_answers_with_its_cost_R18(running: Running) -> None:
    answer = await running.client.model(model_call(running.view))
    assert (answer.message.text, answer.finish_reason) == ("done", Finish.STOP)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (1000, 10)
    assert answer.cost_micro_usd == 2100
    assert (answer.adapter.name, answer.verdict.decision) == ("Scripted", "Allowed")


async def test_the_key_reaches_the_provider_and_nobody_else_C31(running: Running) -> None:
    async with wire.provider() as provider:

        async def handle(exchange: Exchange) -> None:
            await exchange.begin()
            await exchange.end(wire.call(0, '{"a": 1 }', name="run"), wire.finish("tool_calls"), wire.usage(7, 3))

        provider.handler = handle
        use_provider(running, provider.url, modelID="vendor/large", credentialRef={"name": "large-key"})
        with_key(running, KEY + "\n")
        answer = await running.client.model(model_call(running.view))
        assert provider.seen[0].headers["authorization"] == f"Bearer {KEY}"
        assert provider.seen[0].body["model"] == "vendor/large"
    assert answer.message.tool_calls[0].arguments == b'{"a": 1 }'
    assert answer.cost_micro_usd == 44
    assert KEY not in repr(answer)


async def test_a_key_broken_by_a_newline_appears_nowhere_C31(running: Running) -> None:
    async with wire.provider() as provider:
        use_provider(running, provider.url, credentialRef={"name": "large-key"})
        with_key(running, "sk-CANARY-part1\nsk-CANARY-part2")
        error = await refused(running.client.model(model_call(running.view)))
        assert provider.seen == []
    assert error.error_class is ErrorClass.UNAUTHENTICATED
    assert "CANARY" not in str(error)
    assert "CANARY" not in running.log.getvalue()


async def test_a_provider_that_repeats_the_key_does_not_spread_it_C31(running: Running) -> None:
    async with wire.provider() as provider:

        async def handle(exchange: Exchange) -> None:
            await exchange.answer(401, {"error": {"message": f"bad key {KEY}"}})

        provider.handler = handle
        use_provider(running, provider.url, credentialRef={"name": "large-key"})
        with_key(running, KEY)
        error = await refused(running.client.model(model_call(running.view)))
    assert "[redacted]" in str(error)
    assert "CANARY" not in running.log.getvalue()


async def test_a_failed_call_says_what_it_cost_R22(running: Running) -> None:
    async with wire.provider() as provider:

        async def handle(exchange: Exchange) -> None:
            await exchange.begin()
            await exchange.send(wire.text("half"))
            exchange.writer.transport.abort()

        provider.handler = handle
        use_provider(running, provider.url, maxOutputTokens=100)
        error = await refused(running.client.model(model_call(running.view)))
    assert (error.error_class, error.retry) == (ErrorClass.TRANSIENT, Retry.REPEAT)
    assert error.refusal.usage is not None
    assert error.refusal.usage.estimated
    assert error.refusal.usage.output_tokens == 100  # the class's cap, not the 500 asked for
    assert error.refusal.cost_micro_usd is not None
    assert error.refusal.cost_micro_usd > 1000


async def test_a_rate_limit_keeps_its_retry_after_C42(running: Running) -> None:
    async with wire.provider() as provider:

        async def handle(exchange: Exchange) -> None:
            await exchange.answer(429, {"error": {"message": "slow down"}}, Retry_After="12")

        provider.handler = handle
        use_provider(running, provider.url)
        error = await refused(running.client.model(model_call(running.view)))
    assert (error.error_class, error.refusal.retry_after_seconds) == (ErrorClass.RATE_LIMITED, 12)


async def test_closing_the_connection_ends_the_providers_request_R18(running: Running) -> None:
    loop = asyncio.get_running_loop()
    asked, hung_up = loop.create_future(), loop.create_future()
    async with wire.provider() as provider:

        async def handle(exchange: Exchange) -> None:
            await exchange.begin()
            asked.set_result(None)
            hung_up.set_result(await exchange.hung_up())

        provider.handler = handle
        use_provider(running, provider.url)
        task = asyncio.create_task(running.client.model(model_call(running.view)))
        await asyncio.wait_for(asked, BOUND)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.wait_for(hung_up, BOUND)
    # The client goes on working.
    await running.client.sign(sign_call(running.view))


async def test_a_model_without_a_price_is_refused_under_a_money_limit_C43(running: Running) -> None:
    del running.view.objects["AgentClass"]["spec"]["models"][0]["price"]
    assert (await running.client.model(model_call(running.view))).cost_micro_usd is None
    for place in ("run", "class"):
        limited = running.view.objects["AgentRun" if place == "run" else "AgentClass"]["spec"]
        limited["budget"] = {"costMicroUSD": 5} if place == "run" else {"max": {"costMicroUSD": 5}}
        error = await refused(running.client.model(model_call(running.view)))
        assert error.error_class is ErrorClass.DENIED
        assert "has no price" in error.message
        del limited["budget"]


async def test_a_model_that_the_class_does_not_have_is_named(running: Running) -> None:
    running.view.objects["AgentClass"]["spec"]["models"] = []
    assert "no model scripted (it has: none)" in (await refused(running.client.model(model_call(running.view)))).message


async def test_a_provider_without_an_adapter_is_refused_and_free(running: Running) -> None:
    use_provider(running, "https://models.example.org", provider="Anthropic")
    error = await refused(running.client.model(model_call(running.view)))
    assert (error.error_class, error.refusal.usage) == (ErrorClass.INVALID_REQUEST, None)


async def test_an_unknown_token_gets_nothing_and_is_not_shown_C31(running: Running) -> None:
    async with BrokerClient(
        running.url, ca=fixed_text(running.keys.ca_pem), token=fixed_text("CANARY-other-token")
    ) as stranger:
        error = await refused(stranger.sign(sign_call(running.view)))
    assert error.error_class is ErrorClass.UNAUTHENTICATED
    assert "CANARY" not in str(error)


async def test_a_token_with_a_line_break_never_leaves_the_client_C31(running: Running) -> None:
    async with BrokerClient(
        running.url, ca=fixed_text(running.keys.ca_pem), token=fixed_text("CANARY\nX: 1")
    ) as stranger:
        error = await refused(stranger.sign(sign_call(running.view)))
    assert "CANARY" not in str(error)
    assert running.lines() == []


async def test_another_authority_is_not_trusted(running: Running) -> None:
    other = new_keys(datetime.now(UTC)).ca_pem
    async with BrokerClient(running.url, ca=fixed_text(other), token=fixed_text(TOKEN)) as client:
        error = await refused(client.sign(sign_call(running.view)))
    assert (error.error_class, error.retry) == (ErrorClass.TRANSIENT, Retry.REPEAT)
    assert running.lines() == []  # no request, so no token, reached the server


async def test_new_keys_of_the_broker_are_picked_up(running: Running) -> None:
    answers = [new_keys(datetime.now(UTC)).ca_pem]

    async def authority() -> str:
        return answers[0] if len(answers) == 1 else answers.pop()

    async with BrokerClient(running.url, ca=authority, token=fixed_text(TOKEN)) as client:
        await refused(client.sign(sign_call(running.view)))
        answers[:] = [running.keys.ca_pem]
        assert (await client.sign(sign_call(running.view))).dispatch


async def test_no_broker_is_transient() -> None:
    keys = new_keys(datetime.now(UTC))
    async with BrokerClient("https://127.0.0.1:1", ca=fixed_text(keys.ca_pem), token=fixed_text(TOKEN)) as client:
        error = await refused(client.sign(sign_call(Recorded(world()))))
    assert (error.error_class, error.retry) == (ErrorClass.TRANSIENT, Retry.REPEAT)


@pytest.mark.parametrize(
    ("path", "content", "status", "error_class"),
    [
        (SIGN_PATH, b"{}", 400, "InvalidRequest"),
        (SIGN_PATH, b"no json", 400, "InvalidRequest"),
        (MODEL_PATH, b'{"run": 5}', 400, "InvalidRequest"),
        (MODEL_PATH, b"\xff", 400, "InvalidRequest"),
    ],
)
async def test_what_is_not_of_this_api_is_told_so(
    running: Running, path: str, content: bytes, status: int, error_class: str
) -> None:
    context = ssl.create_default_context(cadata=running.keys.ca_pem)
    async with httpx2.AsyncClient(verify=context, base_url=running.url) as http:
        answer = await http.post(path, content=content, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == status
    assert answer.json()["error"]["class"] == error_class
    assert answer.json()["error"]["retry"] == "Never"


async def test_a_body_without_end_is_cut_off(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrun.broker.app.MAX_BODY_BYTES", 1024)
    error = await refused(running.client.sign(sign_call(running.view, body=b"x" * 4096)))
    assert error.error_class is ErrorClass.TOO_LARGE


async def test_every_request_leaves_one_line_with_the_run_and_no_secret_C31(running: Running) -> None:
    await running.client.sign(sign_call(running.view))
    await refused(running.client.sign(sign_call(running.view, tool="x")))
    allowed, no = running.lines()
    assert (allowed["event"], allowed["run"], allowed["tool"], allowed["caller"]) == (
        "allowed",
        RUN_UID,
        "run",
        HARNESS,
    )
    assert (no["event"], no["error_class"]) == ("refused", "NotFound")


async def test_probes_and_metrics_stand_on_a_port_of_their_own_C31(running: Running) -> None:
    await running.client.model(model_call(running.view))
    await refused(running.client.sign(sign_call(running.view, tool="x")))
    missing = ["no list of AgentRun yet"]
    app = probes(running.metrics, lambda: missing[0] if missing else None)
    async with serving(app, "127.0.0.1", 0) as port, httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        assert (await http.get("/healthz")).status_code == 200
        assert ((await http.get("/readyz")).status_code, (await http.get("/readyz")).text) == (
            503,
            f"{missing.pop()}\n",
        )
        assert (await http.get("/readyz")).status_code == 200
        text = (await http.get("/metrics")).text
    assert 'agentrun_broker_requests_total{answer="NotFound",path="/v1/sign"} 1.0' in text
    assert 'agentrun_broker_tokens_total{bucket="input_tokens"} 1000.0' in text
    assert "agentrun_broker_cost_micro_usd_total 2100.0" in text
    assert "CANARY" not in text


async def test_a_failure_inside_is_answered_without_its_words_C31(running: Running) -> None:
    async def broken(_kind: Kind, _namespace: str, _name: str, *, fresh: bool) -> Object | None:
        raise RuntimeError(f"Illegal header value {KEY} {fresh}")

    running.view.get = broken  # type: ignore[method-assign]
    error = await refused(running.client.sign(sign_call(running.view)))
    assert (error.error_class, error.retry) == (ErrorClass.INTERNAL, Retry.REPEAT)
    assert "CANARY" not in str(error)
    assert running.lines()[0]["error"] == "RuntimeError"
