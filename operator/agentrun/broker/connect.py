"""A BrokerClient as the other processes make it: certificate from the ConfigMap, token from file or TokenRequest."""

import json
from typing import Any

from agentrun.broker.client import BrokerClient, BrokerError, Text, cached_text, file_text
from agentrun.broker.keystore import CONFIG_MAP
from agentrun.broker.wire import AUDIENCE, Refusal
from agentrun.core.errors import ErrorClass, Retry
from agentrun.kube import KubeClient, KubeError
from agentrun.kube.resources import CONFIG_MAPS
from agentrun.settings import Settings

TOKEN_SECONDS = 600
EMBEDDED_ACCOUNT = "agentrun-operator"


def broker_client(settings: Settings, kube: KubeClient) -> BrokerClient:
    """Connects with the first call; the broker need not run yet."""
    return BrokerClient(
        settings.broker_url, ca=_authority(kube, settings.operator_namespace), token=_token(settings, kube)
    )


async def public_keys(kube: KubeClient, namespace: str) -> list[dict[str, Any]]:
    """`keys.json`: [{kid, publicKey, notAfter}]. Raises BrokerError (AuthorityUnavailable) before the first start."""
    keys: list[dict[str, Any]] = json.loads(await _fact(kube, namespace, "keys.json"))
    return keys


def _authority(kube: KubeClient, namespace: str) -> Text:
    async def read() -> str:
        return await _fact(kube, namespace, "ca.crt")

    return read


def _token(settings: Settings, kube: KubeClient) -> Text:
    if settings.broker_token_path is not None:
        return file_text(settings.broker_token_path)

    async def request() -> str:
        try:
            return await kube.token_request(EMBEDDED_ACCOUNT, settings.operator_namespace, AUDIENCE, TOKEN_SECONDS)
        except KubeError as error:
            raise _unavailable(f"no token for {EMBEDDED_ACCOUNT}: {error}") from None

    return cached_text(request, TOKEN_SECONDS * 0.7)


async def _fact(kube: KubeClient, namespace: str, name: str) -> str:
    try:
        found = await kube.find(CONFIG_MAPS, CONFIG_MAP, namespace)
    except KubeError as error:
        raise _unavailable(f"ConfigMap {namespace}/{CONFIG_MAP} cannot be read: {error}") from None
    if found is None or name not in (found.get("data") or {}):
        raise _unavailable(f"ConfigMap {namespace}/{CONFIG_MAP} has no {name}: the broker has not started yet")
    return str(found["data"][name])


def _unavailable(message: str) -> BrokerError:
    return BrokerError(Refusal(ErrorClass.AUTHORITY_UNAVAILABLE, message, Retry.REPEAT))
