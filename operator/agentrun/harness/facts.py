"""What a run was started with, read from the content store: its frozen template and its input."""

from collections import OrderedDict
from typing import Any

import msgspec

from agentrun.core.digest import sha256_digest
from agentrun.core.errors import CorruptHistory
from agentrun.core.ids import Tenant
from agentrun.core.state import State
from agentrun.journal.port import Journal
from agentrun.tools.catalogue import Catalogue

CACHED_BYTES = 32 * 1024 * 1024


class Blobs:
    """One tenant's content, with what was read or written lately kept in memory."""

    def __init__(self, journal: Journal, tenant: Tenant) -> None:
        self._journal = journal
        self._tenant = tenant
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    async def get(self, digest: str) -> bytes:
        """The bytes. Raises CorruptHistory where they are missing or not what the digest says."""
        kept = self._kept.get(digest)
        if kept is not None:
            self._kept.move_to_end(digest)
            return kept
        data = await self._journal.get_blob(self._tenant, digest)
        if data is None:
            raise CorruptHistory(f"content {digest} is missing in the store of tenant {self._tenant.key}")
        if sha256_digest(data) != digest:
            raise CorruptHistory(f"content {digest} of tenant {self._tenant.key} is not what its digest says")
        self.keep(digest, data)
        return data

    def keep(self, digest: str, data: bytes) -> None:
        """Remember content that was just written or read."""
        if digest in self._kept or len(data) > CACHED_BYTES // 4:
            return
        self._kept[digest] = data
        self._size += len(data)
        while self._size > CACHED_BYTES:
            self._size -= len(self._kept.popitem(last=False)[1])


class RunFacts(msgspec.Struct, frozen=True):
    """`template` and `input` as JSON, `catalogue` made of the template."""

    template_digest: str
    template: dict[str, Any]
    input: dict[str, Any]
    catalogue: Catalogue


async def load_facts(blobs: Blobs, state: State) -> RunFacts:
    """Raises CorruptHistory if template or input cannot be read."""
    template = _object(await blobs.get(state.template_digest), "template")
    given = _object(await blobs.get(state.input_digest), "input")
    return RunFacts(state.template_digest, template, given, Catalogue(template))


def _object(raw: bytes, what: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise CorruptHistory(f"the stored {what} is no JSON object: {error}") from None
