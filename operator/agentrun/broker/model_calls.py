"""Model calls: what the class allows, at whose price, with whose key (R18, C43)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import httpx2
import msgspec

from agentrun.api.agentclass import AgentClassSpec, Model, Provider
from agentrun.broker.credentials import Credentials
from agentrun.broker.refusal import Refused
from agentrun.broker.runs import LiveRun
from agentrun.core.errors import ErrorClass
from agentrun.core.events import Usage
from agentrun.models.ask import ask
from agentrun.models.port import ModelAdapter, ModelReply, ModelRequest, Target
from agentrun.models.pricing import cost_micro_usd
from agentrun.models.registry import adapter_for
from agentrun.outbound.dial import client
from agentrun.outbound.policy import DialPolicy

MakeClient = Callable[[DialPolicy], httpx2.AsyncClient]


@dataclass(frozen=True)
class ModelChoice:
    """The model that a template names, as its class describes it."""

    model: Model
    agent_class: AgentClassSpec

    def cost(self, usage: Usage | None) -> int | None:
        """Micro US dollars; None where usage or price is unknown."""
        return None if usage is None or self.model.price is None else cost_micro_usd(usage, self.model.price)


def choose(run: LiveRun) -> ModelChoice:
    """The model of a run. Raises Refused (Denied) naming what the class or the template would have to say."""
    wanted = run.template.model_name
    model = next((model for model in run.agent_class.models if model.name == wanted), None)
    if model is None:
        offered = ", ".join(model.name for model in run.agent_class.models) or "none"
        raise Refused(ErrorClass.DENIED, f"the run's class has no model {wanted} (it has: {offered})")
    if model.price is None and _money_is_limited(run):
        message = f"model {wanted} has no price in its class, so it cannot be used under a money limit: state one"
        raise Refused(ErrorClass.DENIED, message)
    return ModelChoice(model, run.agent_class)


def _money_is_limited(run: LiveRun) -> bool:
    limits = (run.spec.budget, run.agent_class.budget.default, run.agent_class.budget.max)
    return any(limit is not None and limit.cost_micro_usd is not None for limit in limits)


class ModelCalls:
    """Calls models; holds the connections to their endpoints."""

    def __init__(self, credentials: Credentials, make_client: MakeClient = client) -> None:
        self._credentials = credentials
        self._make_client = make_client
        self._clients: dict[DialPolicy, httpx2.AsyncClient] = {}

    def adapter(self, choice: ModelChoice) -> ModelAdapter:
        """The adapter for the model. Raises ModelError if this installation has none."""
        policy = _policy(choice.agent_class)
        return adapter_for(choice.model.provider, lambda _endpoint: self._client(policy))

    async def ask(
        self, adapter: ModelAdapter, choice: ModelChoice, run: LiveRun, request: ModelRequest, now: int
    ) -> ModelReply:
        """The reply. Raises ModelError, Refused; cancelling ends the provider's request."""
        model = choice.model
        most = request.max_output_tokens
        bounded = min(most, model.max_output_tokens or most)
        target = Target(
            model.model_id or model.name,
            model.endpoint or "",
            run.template.model_parameters or {},
            await self._key(model),
        )
        return await ask(adapter, msgspec.structs.replace(request, max_output_tokens=bounded), target, now)

    async def close(self) -> None:
        """Close every connection."""
        for http in self._clients.values():
            await http.aclose()

    async def _key(self, model: Model) -> str | None:
        if model.provider is Provider.SCRIPTED or model.credential_ref is None:
            return None
        return await self._credentials.key_for(model.credential_ref.name, model.endpoint or "")

    def _client(self, policy: DialPolicy) -> httpx2.AsyncClient:
        if policy not in self._clients:
            self._clients[policy] = self._make_client(policy)
        return self._clients[policy]


def _policy(agent_class: AgentClassSpec) -> DialPolicy:
    """Endpoints are the platform's, so private addresses are open; what is closed by nature opens by `egress.allow`."""
    allow: Iterable[str] = (rule.cidr for rule in agent_class.egress.allow if rule.cidr is not None)
    return DialPolicy.of(allow, (), private=True)
