"""Reversible tool names: one badly named tool must not make every request fail (C40)."""

import hashlib
import re
from collections.abc import Iterable

from agentrun.models.port import NameLimits


class ToolNames:
    """Names of one request as the provider accepts them, and back. Deterministic: the same names, the same mapping.

    A name within the limits is left as it is; another is cut, its bad characters replaced, and given a hash of the
    whole name, so that two that look alike after the cut stay two.
    """

    def __init__(self, names: Iterable[str], limits: NameLimits) -> None:
        self._limits = limits
        self._bad = re.compile(f"[^{limits.allowed}]")
        wanted = list(dict.fromkeys(names))
        self._wire = {name: name for name in wanted if self._fits(name)}
        self._plain = dict(self._wire)
        for name in wanted:
            if name not in self._wire:
                wire = self._renamed(name)
                self._wire[name] = wire
                self._plain[wire] = name

    def wire(self, name: str) -> str:
        """The name that is sent."""
        return self._wire[name]

    def plain(self, wire: str) -> str:
        """The name that was meant; one that was never sent comes back as it is (the catalogue answers NotFound)."""
        return self._plain.get(wire, wire)

    def _fits(self, name: str) -> bool:
        return 0 < len(name) <= self._limits.max_length and not self._bad.search(name)

    def _renamed(self, name: str) -> str:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        for length in range(8, len(digest)):
            tail = "_" + digest[:length]
            wire = self._bad.sub("_", name)[: self._limits.max_length - len(tail)] + tail
            if wire not in self._plain:
                return wire
        raise AssertionError("two names share a SHA-256")
