"""The operator's own cache: what kopf's watches have shown, by kind. Level-triggered code reads it and nothing else."""

import time
from collections.abc import Iterable
from typing import Any

from agentrun.controller.names import DEFINITION_LABEL
from agentrun.kube.reading import member, members

Object = dict[str, Any]
KINDS = (
    "agentruns",
    "agentdefinitions",
    "agentclasses",
    "toolgrants",
    "toolapprovals",
    "controllerrevisions",
    "pods",
    "nodes",
)


class Kind:
    """Objects of one kind by UID, and by (namespace, name)."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Object] = {}
        self._by_name: dict[tuple[str, str], str] = {}
        self._touched: set[str] | None = None  # UIDs the watch spoke of while a list is on its way
        self.seen_at = time.monotonic()

    def put(self, found: Object) -> None:
        """An object as last seen."""
        meta = found["metadata"]
        meta.pop("managedFields", None)  # a third of the object, and nothing here reads it
        self._touch(meta["uid"])
        self._by_uid[meta["uid"]] = found
        self._by_name[(meta.get("namespace", ""), meta["name"])] = meta["uid"]
        self.seen_at = time.monotonic()

    def drop(self, found: Object) -> None:
        """The object is gone; one of the same name with another UID stays."""
        meta = found["metadata"]
        self._touch(meta["uid"])
        self._by_uid.pop(meta["uid"], None)
        key = (meta.get("namespace", ""), meta["name"])
        if self._by_name.get(key) == meta["uid"]:
            del self._by_name[key]
        self.seen_at = time.monotonic()

    def begin_list(self) -> None:
        """A full list is about to be asked for: what the watch says from here on is at least as new as the list."""
        self._touched = set()

    def replace(self, items: Iterable[Object]) -> list[Object]:
        """A full list: what it lacks is gone (a lost DELETED event would live on as a ghost); returns what was lost.

        An object that came or went while the list was on its way is left as the watch has it: taking a run that was
        made meanwhile for a deleted one would cancel it.
        """
        touched, self._touched = self._touched or set(), None
        given = {item["metadata"]["uid"]: item for item in items}
        lost = [found for uid, found in self._by_uid.items() if uid not in given and uid not in touched]
        for found in lost:
            self.drop(found)
        for uid, item in given.items():
            if uid not in touched:
                self.put(item)
        return lost

    def _touch(self, uid: str) -> None:
        if self._touched is not None:
            self._touched.add(uid)

    def uid(self, uid: str) -> Object | None:
        """By UID."""
        return self._by_uid.get(uid)

    def name(self, namespace: str, name: str) -> Object | None:
        """By name."""
        uid = self._by_name.get((namespace, name))
        return self._by_uid.get(uid) if uid else None

    def items(self) -> list[Object]:
        """All."""
        return list(self._by_uid.values())


class World:
    """Everything the operator sees of the API server."""

    def __init__(self) -> None:
        self._kinds = {plural: Kind() for plural in KINDS}
        self._pods_of: dict[str, dict[str, Object]] = {}

    def kind(self, plural: str) -> Kind:
        """Objects of a kind."""
        return self._kinds[plural]

    @property
    def runs(self) -> Kind:
        """AgentRuns."""
        return self._kinds["agentruns"]

    def take(self, plural: str, event: str | None, found: Object) -> None:
        """One watch event."""
        kind = self._kinds[plural]
        (kind.drop if event == "DELETED" else kind.put)(found)
        if plural == "pods":
            self._index_pod(found, gone=event == "DELETED")

    def begin_list(self, plural: str) -> None:
        """Before a full list of a kind is asked for."""
        self._kinds[plural].begin_list()

    def replace(self, plural: str, items: Iterable[Object]) -> list[Object]:
        """A full list of a kind, after `begin_list`; returns what is gone."""
        lost = self._kinds[plural].replace(items)
        if plural == "pods":
            self._pods_of.clear()
            for pod in self._kinds["pods"].items():
                self._index_pod(pod, gone=False)
        return lost

    def pods_of(self, run_uid: str) -> list[Object]:
        """Pods of a run: by the owner's UID, never by name or label (C1)."""
        return list(self._pods_of.get(run_uid, {}).values())

    def _index_pod(self, pod: Object, *, gone: bool) -> None:
        run = owning_run(pod)
        if run is None:
            return
        pods = self._pods_of.setdefault(run, {})
        if gone:
            pods.pop(pod["metadata"]["uid"], None)
        else:
            pods[pod["metadata"]["uid"]] = pod
        if not pods:
            self._pods_of.pop(run, None)


def owned_by(found: Object, uid: str) -> bool:
    """Whether that very object is the owner."""
    return any(owner["uid"] == uid for owner in members(found["metadata"], "ownerReferences"))


def owning_run(found: Object) -> str | None:
    """UID of the AgentRun that owns it; labels can be changed by anybody who may change the object."""
    owners = members(found["metadata"], "ownerReferences")
    return next((str(owner["uid"]) for owner in owners if owner.get("kind") == "AgentRun"), None)


def run_key_of(plural: str, found: Object) -> str | None:
    """The run an object bears on directly."""
    if plural == "agentruns":
        return str(found["metadata"]["uid"])
    if plural == "pods":
        return owning_run(found)
    return None


def definition_of(revision: Object) -> str:
    """The definition a ControllerRevision belongs to."""
    return str(member(revision["metadata"], "labels").get(DEFINITION_LABEL, ""))
