"""Where the broker's keys live: made at the first start, whoever starts first (design 2)."""

import base64
from datetime import UTC, datetime
from typing import Any, Protocol

from agentrun.broker.authority import Object
from agentrun.broker.keys import Keys, from_secret, new_keys, public_facts, to_secret

SECRET = "agentrun-broker-keys"  # noqa: S105
CONFIG_MAP = "agentrun-broker"
FIELD_MANAGER = "agentrun-broker"
_LABELS = {"app.kubernetes.io/name": "agentrun-broker", "app.kubernetes.io/managed-by": "agentrun-broker"}


class KeyObjects(Protocol):
    """The two objects, as the API server has them."""

    async def secret(self, name: str) -> Object | None:
        """The Secret, None if there is none."""
        ...

    async def create_secret(self, secret: Object) -> bool:
        """Whether it was made; False if one of that name was there."""
        ...

    async def apply_config_map(self, config_map: Object, field_manager: str) -> None:
        """Server-side apply."""
        ...


async def keys_of(objects: KeyObjects, namespace: str) -> Keys:
    """The keys of this installation: found, or made and then read back, so that two first starts agree.

    Raises: KeysUnusable for a Secret that holds something else.
    """
    found = await objects.secret(SECRET)
    if found is None:
        await objects.create_secret(_secret(namespace, new_keys(datetime.now(UTC))))
        found = await objects.secret(SECRET)
    data: dict[str, Any] = (found or {}).get("data") or {}
    keys = from_secret({name: base64.b64decode(value) for name, value in data.items()})
    await objects.apply_config_map(_config_map(namespace, keys), FIELD_MANAGER)
    return keys


def _secret(namespace: str, keys: Keys) -> Object:
    data = {name: base64.b64encode(value).decode() for name, value in to_secret(keys).items()}
    metadata = {"name": SECRET, "namespace": namespace, "labels": _LABELS}
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": data}


def _config_map(namespace: str, keys: Keys) -> Object:
    metadata = {"name": CONFIG_MAP, "namespace": namespace, "labels": _LABELS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": public_facts(keys)}
