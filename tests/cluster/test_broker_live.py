"""The broker against a real API server: keys, callers, and decisions on objects that people change (R16, C45)."""

import asyncio
import base64
import io
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from tests.cluster.broker_account import kubeconfig_of_the_broker, take_away
from tests.cluster.crds_api import connect
from tests.cluster.crds_setup import install, wait_until_enforced
from tests.unit.broker.objects import TEMPLATE

from agentrun.api.digests import template_digest
from agentrun.broker.client import BrokerClient, BrokerError, cached_text
from agentrun.broker.connect import broker_client, public_keys
from agentrun.broker.keystore import CONFIG_MAP, SECRET, keys_of
from agentrun.broker.kube_reads import KubeReads
from agentrun.broker.server import Ports, run_broker
from agentrun.broker.view import revision_name
from agentrun.broker.wire import AUDIENCE, ModelCall, RunName, SignCall
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass
from agentrun.kube import KubeClient
from agentrun.kube.resources import (
    CLASSES,
    CONFIG_MAPS,
    DEFINITIONS,
    GRANTS,
    NAMESPACES,
    PODS,
    REVISIONS,
    RUNS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from agentrun.models.port import Message, ModelRequest
from agentrun.settings import Settings, load_settings

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]
BOUND = 30.0
NOBODY = RunName("", "", "")
BODY = b'{"arguments":{"argv":["pytest"]}}'
API = "agentrun.dev/v1alpha1"


@dataclass
class Place:
    """A namespace that is operator namespace and tenant in one, and what stands in it."""

    kube: KubeClient
    namespace: str
    settings: Settings
    log: io.StringIO
    health: int
    digest: str = ""
    run: RunName = NOBODY
    pod_uid: str = ""

    def client(self, account: str = "agentrun-harness", audience: str = AUDIENCE) -> BrokerClient:
        """A client with a real token of an account."""

        async def ask() -> str:
            return await self.kube.token_request(account, self.namespace, audience)

        async def authority() -> str:
            return str((await self.kube.get(CONFIG_MAPS, CONFIG_MAP, self.namespace))["data"]["ca.crt"])

        return BrokerClient(self.settings.broker_url, ca=authority, token=cached_text(ask, 300))

    def sign(self, **change: Any) -> SignCall:
        """A dispatch of tool `run`."""
        fields: dict[str, Any] = {
            "run": self.run,
            "fence": 1,
            "step": "t1c0",
            "attempt": 1,
            "template_digest": self.digest,
            "op": "run",
            "pod_name": "arun-fix-1",
            "pod_uid": self.pod_uid,
            "min_fence": 1,
            "body_digest": sha256_digest(BODY),
            "body": BODY,
            "call": "t1c0",
            "tool": "run",
            "arguments_digest": sha256_digest(b'{"argv":["pytest"]}'),
        }
        return SignCall(**{**fields, **change})


async def eventually(attempt: Callable[[], Awaitable[bool]], what: str) -> None:
    """Repeat until true; bounded."""
    end = time.monotonic() + BOUND
    while time.monotonic() < end:
        if await attempt():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not within {BOUND:.0f} s: {what}")


@pytest.fixture(scope="module")
def installed(kubeconfig: Path) -> Path:
    """CRDs and policies are in force."""
    with connect(kubeconfig) as api:
        install(api)
        wait_until_enforced(api, "default")
    return kubeconfig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """A broker that runs with the chart's rights, in a namespace with accounts, a run and its Pod, and no grant."""
    folder = tmp_path_factory.mktemp("broker")
    name = f"broker-{uuid.uuid4().hex[:8]}"
    async with await KubeClient.connect(installed) as kube:
        await kube.create(NAMESPACES, {"metadata": {"name": name}})
        account = await kubeconfig_of_the_broker(kube, name, installed, folder)
        settings = load_settings(
            {},
            kubeconfig=account,
            operator_namespace=name,
            gate_path=folder / "gate.db",
            broker_port=0,
            health_port=0,
        )
        stop, log = asyncio.Event(), io.StringIO()
        started: asyncio.Future[Ports] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(run_broker(settings, stop, started=started, out=log))
        done, _ = await asyncio.wait({task, started}, timeout=BOUND, return_when=asyncio.FIRST_COMPLETED)
        assert started in done, task
        ports = started.result()
        settings = settings.model_copy(update={"broker_url": f"https://localhost:{ports.https}"})
        here = Place(kube, name, settings, log, ports.health)
        try:
            await furnish(here)
            yield here
        finally:
            stop.set()
            await task
            await kube.delete(NAMESPACES, name)
            await take_away(kube, name)
        await kube.delete(CLASSES, name)


async def furnish(here: Place) -> None:
    """Everything but a grant."""
    kube, name = here.kube, here.namespace
    for account in ("agentrun-harness", "agentrun-operator", "somebody"):
        await kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": account}}, name)
    price = {"inputMicroUSDPerMTok": 1_000_000, "outputMicroUSDPerMTok": 1_000_000}
    model = {"name": "scripted", "provider": "Scripted", "price": price}
    head = {"apiVersion": API, "metadata": {"name": name}}
    await kube.create(CLASSES, {**head, "kind": "AgentClass", "spec": {"models": [model]}})
    definition = {"kind": "AgentDefinition", "metadata": {"name": "fixer"}, "apiVersion": API}
    made = await kube.create(DEFINITIONS, {**definition, "spec": {"className": name, "template": TEMPLATE}}, name)
    template = made["spec"]["template"]
    here.digest = template_digest(template)
    await kube.create(
        REVISIONS,
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {"name": revision_name("fixer", here.digest), "labels": {"agentrun.dev/definition": "fixer"}},
            "data": template,
            "revision": 1,
        },
        name,
    )
    run = await kube.create(
        RUNS,
        {
            "apiVersion": API,
            "kind": "AgentRun",
            "metadata": {"name": "fix-1"},
            "spec": {"definitionRef": {"name": "fixer"}},
        },
        name,
    )
    here.run = RunName(name, "fix-1", run["metadata"]["uid"])
    here.pod_uid = (await kube.create(PODS, pod("arun-fix-1", here.run), name))["metadata"]["uid"]


def pod(name: str, run: RunName) -> dict[str, Any]:
    """A Pod of the run that is never scheduled."""
    owner = {"apiVersion": API, "kind": "AgentRun", "name": run.name, "uid": run.uid, "controller": True}
    labels = {"agentrun.dev/run-uid": run.uid, "agentrun.dev/purpose": "work"}
    return {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "schedulingGates": [{"name": "agentrun.dev/test"}],
            "containers": [{"name": "sandbox", "image": "none"}],
        },
    }


def grant(*tools: str) -> dict[str, Any]:
    """A ToolGrant for these tools."""
    return {
        "apiVersion": API,
        "kind": "ToolGrant",
        "metadata": {"name": "tools"},
        "spec": {"definitionName": "fixer", "tools": [{"name": tool} for tool in tools]},
    }


async def refused(call: Awaitable[object]) -> BrokerError:
    with pytest.raises(BrokerError) as caught:
        await call
    return caught.value


async def test_two_first_starts_agree_on_one_set_of_keys(place: Place) -> None:
    other = f"{place.namespace}-keys"
    await place.kube.create(NAMESPACES, {"metadata": {"name": other}})
    reads = KubeReads(place.kube, other)
    made = await asyncio.gather(*(keys_of(reads, other) for _ in range(4)))
    assert len({keys.current.kid for keys in made}) == 1
    assert len({keys.ca_pem for keys in made}) == 1
    assert [key["kid"] for key in await public_keys(place.kube, other)] == [made[0].current.kid]
    await place.kube.delete(NAMESPACES, other)


async def test_the_config_map_is_public_and_the_secret_is_not_in_it_C31(place: Place) -> None:
    facts = await place.kube.get(CONFIG_MAPS, CONFIG_MAP, place.namespace)
    secret = await place.kube.get(SECRETS, SECRET, place.namespace)
    assert set(facts["data"]) == {"ca.crt", "keys.json"}
    for name in ("ca.key", "signing.json"):
        assert base64.b64decode(secret["data"][name]).decode() not in json.dumps(facts)
    assert {entry["manager"] for entry in facts["metadata"]["managedFields"]} == {"agentrun-broker"}


async def test_a_grant_opens_and_its_end_closes_again_C45(place: Place) -> None:
    async with place.client() as client:
        error = await refused(client.sign(place.sign()))
        assert error.error_class is ErrorClass.NOT_GRANTED
        await place.kube.create(GRANTS, grant("run"), place.namespace)
        answer = await client.sign(place.sign())
        (key,) = await public_keys(place.kube, place.namespace)
        public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["publicKey"] + "="))
        claims = jwt.decode(answer.dispatch, public, algorithms=["EdDSA"], audience=place.pod_uid)
        assert (claims["run"], claims["op"], claims["bodyDigest"]) == (place.run.uid, "run", sha256_digest(BODY))
        assert (await refused(client.sign(place.sign(tool="read", op="read")))).error_class is ErrorClass.NOT_GRANTED
        assert (await refused(client.sign(place.sign(tool="none")))).error_class is ErrorClass.NOT_FOUND
        await place.kube.delete(GRANTS, "tools", place.namespace)

        async def closed() -> bool:
            try:
                await client.sign(place.sign())
            except BrokerError as again:
                return again.error_class is ErrorClass.NOT_GRANTED
            return False

        await eventually(closed, "the deleted grant no longer grants")


async def test_a_named_requester_is_whom_the_api_server_stamped_R16(place: Place) -> None:
    stamped = (await place.kube.get(RUNS, "fix-1", place.namespace))["spec"]["attribution"]["run"]["username"]
    async with place.client() as client:
        for name, granted in ((stamped, True), ("mallory", False)):
            wanted = grant("run")
            wanted["spec"]["requesters"] = [{"kind": "User", "name": name}]
            await place.kube.create(GRANTS, wanted, place.namespace)
            if granted:
                assert (await client.sign(place.sign())).dispatch
            else:

                async def other() -> bool:
                    try:
                        await client.sign(place.sign())
                    except BrokerError as error:
                        return "does not name the requester" in error.message
                    return False

                await eventually(other, "the grant for somebody else does not reach the run")
            await place.kube.delete(GRANTS, "tools", place.namespace)


async def test_only_the_fixed_accounts_may_call_with_the_right_audience(place: Place) -> None:
    for account in ("agentrun-harness", "agentrun-operator"):
        async with place.client(account) as client:
            assert (await client.sign(place.sign(op="put", tool=None, call=""))).dispatch
    async with place.client("somebody") as client:
        assert (await refused(client.sign(place.sign()))).error_class is ErrorClass.DENIED
    async with place.client(audience="https://kubernetes.default.svc.cluster.local") as client:
        assert (await refused(client.sign(place.sign()))).error_class is ErrorClass.UNAUTHENTICATED


async def test_the_client_that_processes_make_finds_certificate_and_token_itself(place: Place) -> None:
    async with broker_client(place.settings, place.kube) as client:
        assert (await client.sign(place.sign(op="put", tool=None, call=""))).dispatch


async def test_a_pod_reborn_under_its_name_is_not_the_runs_C9(place: Place) -> None:
    async with place.client() as client:
        error = await refused(client.sign(place.sign(op="put", tool=None, call="", pod_uid="another")))
        assert error.error_class is ErrorClass.SANDBOX_LOST
        stolen = pod("arun-stolen", RunName("", "fix-1", place.run.uid))
        stolen["metadata"]["ownerReferences"] = []
        uid = (await place.kube.create(PODS, stolen, place.namespace))["metadata"]["uid"]
        call = place.sign(op="put", tool=None, call="", pod_name="arun-stolen", pod_uid=uid)
        assert (await refused(client.sign(call))).error_class is ErrorClass.DENIED


async def test_a_scripted_model_call_goes_through_R18(place: Place) -> None:
    deadline = time.time_ns() // 1000 + 20_000_000
    request = ModelRequest((Message("user", "go"),), (), 100, deadline)
    async with place.client() as client:
        answer = await client.model(ModelCall(place.run, 1, "t1", 1, place.digest, request))
    assert (answer.message.text, answer.cost_micro_usd) == ("done", 1010)


async def test_a_stale_fence_is_refused_C3(place: Place) -> None:
    async with place.client() as client:
        await client.sign(place.sign(op="put", tool=None, call="", fence=4))
        error = await refused(client.sign(place.sign(op="put", tool=None, call="", fence=3)))
        assert error.error_class is ErrorClass.STALE_FENCE


async def test_a_stop_closes_within_seconds_and_killing_stays_open_R9(place: Place) -> None:
    stop = {"spec": {"stop": {"mode": "Cancel"}}}
    await place.kube.merge(RUNS, "fix-1", place.namespace, stop)
    async with place.client() as client:

        async def closed() -> bool:
            try:
                await client.sign(place.sign(op="put", tool=None, call="", fence=5))
            except BrokerError as error:
                return error.error_class is ErrorClass.RUN_STOPPED
            return False

        await eventually(closed, "nothing is signed for a stopped run")
        for op in ("kill", "ps"):
            assert (await client.sign(place.sign(op=op, tool=None, call="", fence=5))).dispatch


async def test_the_watches_of_the_brokers_account_are_all_listed(place: Place) -> None:
    async with httpx2.AsyncClient() as http:

        async def ready() -> bool:
            return (await http.get(f"http://localhost:{place.health}/readyz")).text == "ok\n"

        await eventually(ready, "every watch has listed, with the chart's rights")


async def test_nothing_secret_is_in_the_log_C31(place: Place) -> None:
    secret = await place.kube.get(SECRETS, SECRET, place.namespace)
    (signing,) = json.loads(base64.b64decode(secret["data"]["signing.json"]))
    text = place.log.getvalue()
    assert text
    assert signing["privateKey"] not in text
    assert "PRIVATE KEY" not in text
    assert "eyJ" not in text  # no token and no dispatch
