"""Freezing a run's input: files from text and ConfigMaps into one tar, everything by digest (design 4)."""

from typing import Any

import rfc8785

from agentrun.api.conditions import AcceptedReason
from agentrun.controller.intake import Refusal, Waiting, input_document
from agentrun.core.digest import canonical, sha256_digest
from agentrun.core.ids import Tenant
from agentrun.journal.port import Blob, Journal
from agentrun.kube import KubeClient, NotFound
from agentrun.kube.reading import member, members
from agentrun.kube.resources import CONFIG_MAPS
from agentrun.tools.workspace import Entry, Workspace, parents, write

Object = dict[str, Any]


class Frozen:
    """A run's input as stored: its own digest, the workspace's, the blobs to keep, and why it can never be used."""

    def __init__(self, digest: str, workspace: str | None, blobs: list[Blob], refusal: Refusal | None = None) -> None:
        self.digest = digest
        self.workspace = workspace
        self.blobs = blobs
        self.refusal = refusal


async def freeze(run: Object, tenant: Tenant, kube: KubeClient, journal: Journal) -> Frozen | Waiting:
    """Read every file the run names; what is not there (yet) is said by its path."""
    listed = members(member(run["spec"], "input"), "files")
    contents: dict[str, bytes] = {}
    for item in listed:
        data = await _content(item, run["metadata"]["namespace"], tenant, kube, journal)
        if isinstance(data, Waiting):
            return data
        contents[item["path"]] = data
    try:
        document = _document(run, contents)
    except (rfc8785.CanonicalizationError, ValueError) as error:
        return _refused(f"spec.input can never be used: {error}")
    blobs = [Blob(sha256_digest(document), document)]
    workspace = None
    if listed:
        entries = {item["path"]: Entry(contents[item["path"]], bool(item.get("executable"))) for item in listed}
        tar = write(Workspace(entries))
        workspace = sha256_digest(tar)
        blobs.append(Blob(workspace, tar))
    return Frozen(blobs[0].digest, workspace, blobs)


def _document(run: Object, contents: dict[str, bytes]) -> bytes:
    """Raises ValueError for files that cannot lie in one workspace."""
    for path in contents:
        for parent in parents(path):
            if parent in contents:
                raise ValueError(f"file {path} lies below {parent}, which is a file too")
    return canonical(input_document(run, {path: sha256_digest(data) for path, data in contents.items()}))


def _refused(message: str) -> Frozen:
    """An input is immutable: what is wrong with it is wrong for good, and the history says so."""
    document = canonical({"invalid": message})
    refusal = Refusal(AcceptedReason.INVALID_INPUT, message)
    return Frozen(sha256_digest(document), None, [Blob(sha256_digest(document), document)], refusal)


async def _content(item: Object, namespace: str, tenant: Tenant, kube: KubeClient, journal: Journal) -> bytes | Waiting:
    if "text" in item:
        return str(item["text"]).encode()
    if "configMapKeyRef" in item:
        return await _from_config_map(item, namespace, kube)
    digest = item["artifactRef"]["digest"]
    data = await journal.get_blob(tenant, digest)
    if data is None:
        return _missing(f"file {item['path']}: this namespace has no artifact {digest}")
    return data


async def _from_config_map(item: Object, namespace: str, kube: KubeClient) -> bytes | Waiting:
    ref = item["configMapKeyRef"]
    try:
        found = await kube.get(CONFIG_MAPS, ref["name"], namespace)
    except NotFound:
        return _missing(f"file {item['path']}: there is no ConfigMap {ref['name']}; the run waits")
    if ref["key"] in member(found, "data"):
        return str(found["data"][ref["key"]]).encode()
    if ref["key"] in member(found, "binaryData"):
        import base64  # noqa: PLC0415 - rarely needed

        return base64.b64decode(found["binaryData"][ref["key"]])
    return _missing(f"file {item['path']}: ConfigMap {ref['name']} has no key {ref['key']}; the run waits")


def _missing(message: str) -> Waiting:
    return Waiting(AcceptedReason.INPUT_NOT_FOUND, message)
