"""Freezing an input: everything by digest, what is missing waited for by name, what can never be is said (R7, C47)."""

import base64
import json
from typing import Any

import pytest
from tests.unit.controller.bench import RUN_PATH, Bench
from tests.unit.controller.objects import run

from agentrun.api.conditions import AcceptedReason as Reason
from agentrun.controller.inputs import Frozen, freeze
from agentrun.controller.intake import Waiting
from agentrun.core.digest import sha256_digest
from agentrun.core.ids import Tenant
from agentrun.journal.port import Blob
from agentrun.tools.workspace import Entry, read

Object = dict[str, Any]
TENANT = Tenant("c1", "ns-1")
ARTIFACT = b"\x00\xff from another run"


def file(path: str, **source: Any) -> Object:
    return {"path": path, **(source or {"text": "x"})}


async def frozen(one: Bench, *files: Object, **given: Any) -> Frozen:
    found = await freeze(run(input={"text": "go", "files": list(files), **given}), TENANT, one.kube, one.journal)
    assert isinstance(found, Frozen), found
    return found


async def waits(one: Bench, *files: Object) -> str:
    found = await freeze(run(input={"files": list(files)}), TENANT, one.kube, one.journal)
    assert isinstance(found, Waiting), found
    assert (found.reason, found.final) == (Reason.INPUT_NOT_FOUND, False)
    return found.message


def config_map(one: Bench) -> None:
    binary = {"logo": base64.b64encode(b"\x89\xff\x00").decode()}
    found = {"metadata": {"name": "files"}, "data": {"a.py": "héllo\n"}, "binaryData": binary}
    one.api.put("/api/v1/namespaces/team/configmaps/files", found)


def workspace(found: Frozen) -> dict[str, Entry]:
    (tar,) = [blob for blob in found.blobs if blob.digest == found.workspace]
    return dict(read(tar.data, 1 << 20).files)


async def test_files_of_every_source_lie_in_one_workspace_byte_for_byte(one: Bench) -> None:
    config_map(one)
    await one.journal.put_blobs(TENANT, [Blob(sha256_digest(ARTIFACT), ARTIFACT)])
    found = await frozen(
        one,
        file("run.sh", text="#!/bin/sh\n", executable=True),
        file("src/a.py", configMapKeyRef={"name": "files", "key": "a.py"}),
        file("logo.png", configMapKeyRef={"name": "files", "key": "logo"}),
        file("old.bin", artifactRef={"digest": sha256_digest(ARTIFACT)}),
        file("empty", text=""),
    )
    assert workspace(found) == {
        "run.sh": Entry(b"#!/bin/sh\n", executable=True),
        "src/a.py": Entry("héllo\n".encode()),
        "logo.png": Entry(b"\x89\xff\x00"),
        "old.bin": Entry(ARTIFACT),
        "empty": Entry(b""),
    }
    assert all(blob.digest == sha256_digest(blob.data) for blob in found.blobs)


async def test_the_same_input_has_the_same_digest_and_any_change_another(one: Bench) -> None:
    base = (await frozen(one, file("a"))).digest
    assert (await frozen(one, file("a"))).digest == base
    changes = [
        await frozen(one, file("b")),
        await frozen(one, file("a", text="y")),
        await frozen(one, file("a", text="x", executable=True)),
        await frozen(one, file("a"), text="other"),
        await frozen(one, file("a"), parameters={"n": 1}),
        await frozen(one),
    ]
    assert len({base, *(found.digest for found in changes)}) == 7


async def test_without_files_there_is_no_workspace(one: Bench) -> None:
    found = await frozen(one)
    assert found.workspace is None
    assert [json.loads(blob.data) for blob in found.blobs] == [{"text": "go", "parameters": {}, "files": []}]


async def test_what_is_not_there_is_named_by_path_and_object(one: Bench) -> None:
    config_map(one)
    ref = {"name": "files", "key": "nothing"}
    assert await waits(one, file("b", configMapKeyRef={"name": "none", "key": "x"})) == (
        "file b: there is no ConfigMap none; the run waits"
    )
    assert "ConfigMap files has no key nothing" in await waits(one, file("a"), file("b", configMapKeyRef=ref))
    assert "no artifact" in await waits(one, file("b", artifactRef={"digest": sha256_digest(b"no")}))


async def test_an_artifact_of_another_tenant_is_not_there(one: Bench) -> None:
    await one.journal.put_blobs(Tenant("c1", "another"), [Blob(sha256_digest(ARTIFACT), ARTIFACT)])
    assert "no artifact" in await waits(one, file("b", artifactRef={"digest": sha256_digest(ARTIFACT)}))


@pytest.mark.parametrize(
    ("files", "given", "word"),
    [
        ([file("a"), file("a/b")], {}, "file a/b lies below a"),
        ([file("a/b/c"), file("a")], {}, "file a/b/c lies below a"),
        ([], {"parameters": {"n": 2**60}}, "can never be used"),
    ],
)
async def test_an_input_that_can_never_be_used_ends_the_run_for_good_and_says_why_C47(
    one: Bench, files: list[Object], given: Object, word: str
) -> None:
    found = await frozen(one, *files, **given)
    assert found.refusal is not None
    assert (found.refusal.reason, found.workspace) == (Reason.INVALID_INPUT, None)
    assert word in found.refusal.message
    one.api.objects[RUN_PATH]["spec"]["input"] = {"files": files, **given}
    await one.turns()
    assert one.status()["reason"] == "InvalidInput"
    assert word in one.status()["message"]
    assert one.conditions()["Finished"] == ("True", "Failed")
    assert one.conditions()["Accepted"] == ("False", "InvalidInput")
    assert not one.pods()


async def test_a_run_waits_for_its_config_map_and_goes_on_when_it_is_there(one: Bench) -> None:
    files = [file("a.py", configMapKeyRef={"name": "files", "key": "a.py"})]
    one.api.objects[RUN_PATH]["spec"]["input"] = {"files": files}
    one.see()
    assert await one.turn() == 3.0
    assert one.conditions()["Accepted"] == ("False", "InputNotFound")
    config_map(one)
    await one.turns()
    assert one.conditions()["Admitted"] == ("True", "Admitted")
    assert (await one.state()).workspace is not None
