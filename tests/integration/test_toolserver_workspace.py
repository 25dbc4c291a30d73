"""The workspace into and out of a real server: one deterministic tar, checked before it is written (R19, R20)."""

import base64
import contextlib
import hashlib
import http.client
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.toolserver.kit import Json, Sandbox, call, digest, until

CHUNK = 1 << 20


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Sandbox]:
    """A running server."""
    with Sandbox(tmp_path, limits={"workspaceBytes": 16 << 20}) as running:
        yield running


def packed(*entries: tuple[str, bytes | None, dict[str, Any]]) -> bytes:
    """A tar of (name, content, other members of its header)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, others in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content or b"")
            for member, value in others.items():
                setattr(info, member, value)
            tar.addfile(info, io.BytesIO(content or b""))
    return buffer.getvalue()


def chunks(tar: bytes, announced: str = "") -> list[Json]:
    """Bodies of the dispatches that bring a tar in."""
    parts = [tar[at : at + CHUNK] for at in range(0, len(tar), CHUNK)] or [b""]
    return [
        {"index": index, "count": len(parts), "digest": announced or digest(tar), "sizeBytes": len(tar),
         "chunkBase64": base64.b64encode(part).decode()}
        for index, part in enumerate(parts)
    ]  # fmt: skip


def put(box: Sandbox, tar: bytes, step: str = "put1") -> Json:
    """The answer to the last chunk."""
    result: Json = {}
    for body in chunks(tar):
        result = box.result("put", body, step)
    return result


def get(box: Sandbox, step: str) -> tuple[bytes, Json]:
    """The whole tar, and the first answer."""
    first = box.ok("get", {"index": 0}, step)
    rest = [box.ok("get", {"index": index}, step) for index in range(1, first["count"])]
    data = b"".join(base64.b64decode(part["chunkBase64"]) for part in (first, *rest))
    assert (digest(data), len(data)) == (first["digest"], first["sizeBytes"])
    return data, first


def tree(folder: Path) -> dict[str, tuple[str, object]]:
    """Everything below a folder that a tar carries."""
    found: dict[str, tuple[str, object]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder", None)
        else:
            found[name] = ("file", (path.read_bytes(), bool(path.stat().st_mode & 0o111)))
    return found


def fill(folder: Path) -> None:
    """A workspace with one of each thing."""
    (folder / "src/deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "src/deep/data.bin").write_bytes(os.urandom(2_500_000))
    (folder / "src/run.sh").write_text("#!/bin/sh\n")
    (folder / "src/run.sh").chmod(0o750)
    (folder / "src/caf\u00e9 \U0001f600").write_text("x")
    Path(os.fsdecode(bytes(folder) + b"/src/\xff\xfe")).write_bytes(b"name that is no text")
    (folder / "src/link").symlink_to("../empty")
    (folder / "zero").touch()
    (folder / ("n" * 200)).write_text("long name")


def test_workspace_comes_back_as_it_went_in_R19(box: Sandbox, tmp_path: Path) -> None:
    fill(box.workspace)
    wanted = tree(box.workspace)
    tar, first = get(box, "get1")
    assert (first["skipped"], first["count"]) == ([], 3)
    other = tmp_path / "other"
    other.mkdir()
    with Sandbox(other) as second:
        assert put(second, tar)["complete"] is True
        assert tree(second.workspace) == wanted
        assert get(second, "get1")[0] == tar  # the same tree gives the same bytes


def test_tar_tells_nothing_but_the_tree_R19(box: Sandbox) -> None:
    fill(box.workspace)
    with tarfile.open(fileobj=io.BytesIO(get(box, "get1")[0])) as tar:
        members = tar.getmembers()
    names = [member.name.split("/") for member in members]
    assert names == sorted(names, key=lambda parts: [os.fsencode(part) for part in parts])
    for member in members:
        assert (member.mtime, member.uid, member.gid, member.uname, member.gname) == (0, 0, 0, "", "")
        assert member.mode == (0o644 if member.isreg() and not member.name.endswith(".sh") else 0o755)


def test_times_and_order_of_making_change_nothing_R19(box: Sandbox) -> None:
    for name in ("b", "a"):
        (box.workspace / name).write_text(name)
    first, _ = get(box, "get1")
    (box.workspace / "b").unlink()
    (box.workspace / "b").write_text("b")
    os.utime(box.workspace / "a", (1, 1))
    assert get(box, "get2")[0] == first


def test_chunks_of_one_get_are_of_one_moment_R19(box: Sandbox) -> None:
    (box.workspace / "big").write_bytes(b"1" * (2 * CHUNK))
    first = box.ok("get", {"index": 0}, "get1")
    (box.workspace / "big").write_bytes(b"2" * (2 * CHUNK))
    parts = [first, *(box.ok("get", {"index": index}, "get1") for index in range(1, first["count"]))]
    assert digest(b"".join(base64.b64decode(part["chunkBase64"]) for part in parts)) == first["digest"]
    assert box.ok("get", {"index": 0}, "get1")["digest"] == first["digest"]
    assert box.ok("get", {"index": 0}, "get2")["digest"] != first["digest"]
    assert box.failed("get", {"index": 1}, "get1")["errorClass"] == "NotFound"  # only the newest is kept
    assert len(list((box.state / "get").glob("*.tar"))) == 1


def test_snapshot_outlives_the_process_C58(box: Sandbox) -> None:
    (box.workspace / "big").write_bytes(os.urandom(CHUNK))
    first = box.ok("get", {"index": 0}, "get1")
    box.restart()
    second = box.ok("get", {"index": 1}, "get1")
    parts = (first, second)
    assert digest(b"".join(base64.b64decode(part["chunkBase64"]) for part in parts)) == first["digest"]


def test_what_cannot_be_taken_out_is_told_R19(box: Sandbox) -> None:
    (box.workspace / "out").symlink_to("/etc/passwd")
    (box.workspace / "up").symlink_to("../state")
    (box.workspace / "sly").symlink_to("up/..")
    os.mkfifo(box.workspace / "pipe")
    (box.workspace / "file").write_text("x")
    tar, first = get(box, "get1")
    assert (sorted(first["skipped"]), first["skippedTotal"]) == (["out", "pipe", "sly", "up"], 4)
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        assert opened.getnames() == ["file"]


def test_workspace_over_its_limit_is_refused_R20(box: Sandbox) -> None:
    with (box.workspace / "sparse").open("wb") as file:
        file.truncate(17 << 20)
    assert box.failed("get", {"index": 0})["errorClass"] == "TooLarge"
    assert not list((box.state / "get").iterdir())


def test_chunks_may_come_in_any_order_and_more_than_once_R19(box: Sandbox) -> None:
    tar = packed(("big", os.urandom(3 * CHUNK), {}), ("small", b"x", {}))
    bodies = chunks(tar)
    assert box.ok("put", bodies[2], "put1")["missing"] == [0, 1, 3]
    box.restart()
    assert box.ok("put", bodies[0], "put1")["complete"] is False
    assert box.send("put", bodies[2], "put1").headers["Agentrun-Replayed"] == "1"
    assert box.ok("put", bodies[3], "put1")["missing"] == [1]
    assert not list(box.workspace.iterdir())
    done = box.ok("put", bodies[1], "put1")
    assert (done["complete"], done["entries"]) == (True, 2)
    assert sorted(path.name for path in box.workspace.iterdir()) == ["big", "small"]
    assert sorted(path.name for path in (box.state / "put").rglob("*") if path.is_file()) == ["unpacked"]
    (box.workspace / "small").write_text("changed since")
    assert box.ok("put", bodies[1], "put1") == done  # answered from memory, not unpacked again
    assert (box.workspace / "small").read_text() == "changed since"


def test_put_cut_off_while_it_unpacks_is_carried_out_again_C58(box: Sandbox) -> None:
    """Whatever moment the container dies at: the harness sends the last chunk again, and the workspace is whole."""
    files = [(f"f{number:03}", os.urandom(20_000), {}) for number in range(150)]
    bodies = chunks(packed(*files))
    for body in bodies[:-1]:
        box.ok("put", body, "put1")
    thread = threading.Thread(target=lambda: _swallow(box, bodies[-1]))
    thread.start()
    until(lambda: len(list(box.workspace.iterdir())) > 5)
    box.restart()
    thread.join(20)
    result = box.ok("put", bodies[-1], "put1", attempt=2)
    assert (result["complete"], result["entries"]) == (True, 150)
    assert {path.name: path.read_bytes() for path in box.workspace.iterdir()} == {name: data for name, data, _ in files}


def _swallow(box: Sandbox, body: Json) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        box.send("put", body, "put1")


def test_put_replaces_files_and_leaves_the_others_R19(box: Sandbox) -> None:
    for name in ("kept", "replaced"):
        (box.workspace / name).write_text("old")
    put(box, packed(("replaced", b"new", {"mode": 0o755})))
    assert (box.workspace / "kept").read_text() == "old"
    assert (box.workspace / "replaced").read_text() == "new"
    assert (box.workspace / "replaced").stat().st_mode & 0o777 == 0o755


def test_put_writes_through_no_link_R20(box: Sandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("canary")
    (box.workspace / "file").symlink_to(outside / "file")
    (box.workspace / "folder").symlink_to(outside)
    put(box, packed(("file", b"new", {})))
    assert not (box.workspace / "file").is_symlink()
    assert put(box, packed(("folder/file", b"new", {})), "put2")["errorClass"] == "Conflict"
    assert (outside / "file").read_text() == "canary"


def test_set_uid_and_owners_are_dropped_R20(box: Sandbox) -> None:
    put(box, packed(("file", b"x", {"mode": 0o6777, "uid": 12345})))
    status = (box.workspace / "file").stat()
    assert (status.st_mode & 0o7777, status.st_uid) == (0o755, os.geteuid())


REFUSED: dict[str, tuple[tuple[tuple[str, bytes | None, dict[str, Any]], ...], str]] = {
    "absolute": ((("/etc/x", b"x", {}),), "PathEscape"),
    "dots": ((("../x", b"x", {}),), "PathEscape"),
    "dots inside": ((("a/../../x", b"x", {}),), "PathEscape"),
    "a dot": ((("./x", b"x", {}),), "PathEscape"),
    "no name": ((("a//x", b"x", {}),), "PathEscape"),
    "absolute link": ((("l", None, {"type": tarfile.SYMTYPE, "linkname": "/etc"}),), "PathEscape"),
    "link out": ((("a/l", None, {"type": tarfile.SYMTYPE, "linkname": "../../x"}),), "PathEscape"),
    "link with dots behind a name": ((("l", None, {"type": tarfile.SYMTYPE, "linkname": "a/../b"}),), "PathEscape"),
    "hard link": (
        (("f", b"x", {}), ("h", None, {"type": tarfile.LNKTYPE, "linkname": "f"})),
        "InvalidArguments",
    ),
    "device": ((("d", None, {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}),), "InvalidArguments"),
    "pipe": ((("p", None, {"type": tarfile.FIFOTYPE}),), "InvalidArguments"),
    "twice": ((("f", b"1", {}), ("f", b"2", {})), "InvalidArguments"),
    "a file as a folder": ((("f", b"1", {}), ("f/g", b"2", {})), "InvalidArguments"),
    "a folder as a file": ((("f/g", b"1", {}), ("f", b"2", {})), "InvalidArguments"),
    "through a link of its own": (
        (("l", None, {"type": tarfile.SYMTYPE, "linkname": "a"}), ("l/f", b"2", {})),
        "InvalidArguments",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tar_with_anything_else_is_refused_before_it_writes_R20(box: Sandbox, case: str) -> None:
    entries, kind = REFUSED[case]
    result = put(box, packed(("good", b"x", {}), *entries))
    assert (result["status"], result["errorClass"]) == ("error", kind)
    assert not list(box.workspace.iterdir())


def test_chunks_that_are_not_what_was_announced_change_nothing_R19(box: Sandbox) -> None:
    tar = packed(("file", b"x", {}))
    (body,) = chunks(tar, announced=digest(b"something else"))
    assert box.failed("put", body)["errorClass"] == "DigestMismatch"
    assert not list(box.workspace.iterdir())
    assert not list((box.state / "put").iterdir())


@pytest.mark.parametrize("noise", [b"no tar at all" * 100, b"", os.urandom(2048)], ids=["text", "empty", "random"])
def test_bytes_that_are_no_tar_are_told_so_R19(box: Sandbox, noise: bytes) -> None:
    result = put(box, noise)
    assert result["errorClass"] == "InvalidArguments"
    assert "no tar" in result["message"]


@pytest.mark.parametrize(
    "changes",
    [
        {"index": 1}, {"count": 2}, {"sizeBytes": 9}, {"chunkBase64": "?"}, {"chunkBase64": ""}, {"sizeBytes": 1 << 30},
        {"index": -1}, {"digest": None}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_chunk_that_does_not_fit_is_refused_R19(box: Sandbox, changes: Json) -> None:
    (body,) = chunks(packed(("file", b"x", {})))
    result = box.failed("put", {**body, **changes})
    assert result["errorClass"] in ("InvalidArguments", "TooLarge")
    assert not list(box.workspace.iterdir())


def test_what_a_command_made_is_in_the_tar_R19(box: Sandbox) -> None:
    box.ok("run", call(argv=["sh", "-c", "mkdir -p d && echo hi > d/f && chmod 700 d/f"]))
    tar, _ = get(box, "get1")
    expected = hashlib.sha256(tar).hexdigest()
    assert get(box, "get2")[1]["digest"] == f"sha256:{expected}"
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        assert opened.getnames() == ["d", "d/f"]
