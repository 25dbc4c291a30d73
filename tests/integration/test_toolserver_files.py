"""File operations in a real server: exact, bounded, and never outside the workspace (R20, R15)."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.toolserver.kit import Sandbox, call, digest

Make = Callable[[Path, Path], None]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Sandbox]:
    """A running server."""
    with Sandbox(tmp_path, limits={"fileBytes": 100_000}) as running:
        yield running


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside the workspace that nothing may show or change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("canary\n")
    return folder


ESCAPES: dict[str, tuple[str, Make]] = {
    "dots": ("../outside/secret", lambda _ws, _out: None),
    "dots behind a folder": ("sub/../../outside/secret", lambda ws, _out: (ws / "sub").mkdir()),
    "absolute": ("/etc/passwd", lambda _ws, _out: None),
    "a sibling with the same beginning": ("{ws}-other/secret", lambda _ws, _out: None),
    "absolute link": ("link", lambda ws, out: (ws / "link").symlink_to(out / "secret")),
    "relative link": ("link", lambda ws, _out: (ws / "link").symlink_to("../outside/secret")),
    "link to a folder": ("link/secret", lambda ws, out: (ws / "link").symlink_to(out)),
    "link to the root": ("link/etc/passwd", lambda ws, _out: (ws / "link").symlink_to("/")),
    "link through a link": (
        "one/secret",
        lambda ws, _out: ((ws / "two").symlink_to(".."), (ws / "one").symlink_to("two/outside"))[0],
    ),
    "dots behind a link": (
        "deep/../../outside/secret",
        lambda ws, _out: ((ws / "a").mkdir(), (ws / "deep").symlink_to("a"))[0],  # type: ignore[func-returns-value]
    ),
    "itself by proc": ("link", lambda ws, _out: (ws / "link").symlink_to("/proc/self/environ")),
}
OPERATIONS: dict[str, dict[str, Any]] = {
    "read": {}, "write": {"content": "stolen"}, "edit": {"old": "canary", "new": "stolen"}, "search": {"pattern": "c"},
}  # fmt: skip


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("case", ESCAPES)
def test_no_path_leads_out_of_the_workspace_R20(box: Sandbox, secret: Path, case: str, op: str) -> None:
    path, make = ESCAPES[case]
    make(box.workspace, secret)
    result = box.failed(op, call(path=path.replace("{ws}", str(box.workspace)), **OPERATIONS[op]))
    assert result["errorClass"] == "PathEscape"
    assert "canary" not in str(result)
    assert (secret / "secret").read_text() == "canary\n"
    assert sorted(path.name for path in secret.iterdir()) == ["secret"]


def test_listing_and_searching_follow_no_link_out_R20(box: Sandbox, secret: Path) -> None:
    (box.workspace / "link").symlink_to(secret)
    (box.workspace / "file").symlink_to(secret / "secret")
    entries = box.ok("list", call(depth=5))["entries"]
    assert [(entry["path"], entry["type"]) for entry in entries] == [("file", "Link"), ("link", "Link")]
    assert box.ok("search", call(pattern="canary"))["matches"] == []
    assert box.failed("list", call(path="link"))["errorClass"] == "PathEscape"


def test_links_inside_are_followed_R20(box: Sandbox) -> None:
    (box.workspace / "a").mkdir()
    (box.workspace / "a" / "file").write_text("x")
    (box.workspace / "relative").symlink_to("a/../a/file")
    (box.workspace / "absolute").symlink_to(box.workspace / "a")
    assert box.ok("read", call(path="relative"))["content"] == "x"
    assert box.ok("read", call(path="absolute/file"))["content"] == "x"
    box.ok("write", call(path="relative", content="new"))
    assert (box.workspace / "a" / "file").read_text() == "new"
    assert (box.workspace / "relative").is_symlink()


def test_links_in_a_circle_end_R20(box: Sandbox) -> None:
    (box.workspace / "a").symlink_to("b")
    (box.workspace / "b").symlink_to("a")
    assert box.failed("read", call(path="a"))["errorClass"] == "InvalidArguments"


@pytest.mark.parametrize("op", ["read", "write", "edit", "search"])
@pytest.mark.parametrize("kind", ["device", "pipe", "socket", "folder"])
def test_only_regular_files_are_opened_R20(box: Sandbox, op: str, kind: str) -> None:
    path = box.workspace / "thing"
    if kind == "folder":
        path.mkdir()
    elif kind == "device":
        if os.geteuid() != 0:
            pytest.skip("a device can only be made by root")
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: endless
    else:
        os.mknod(path, (0o010000 if kind == "pipe" else 0o140000) | 0o600)
    if (op, kind) == ("search", "folder"):
        return  # that is a search below it
    result = box.failed(op, call(path="thing", **OPERATIONS[op]))
    assert result["errorClass"] in ("NotAFile", "NotReadable")
    assert path.exists()


def test_write_makes_folders_and_keeps_modes_R15(box: Sandbox) -> None:
    first = box.ok("write", call(path="a/b/run.sh", content="#!/bin/sh\n", executable=True))
    assert (first["created"], first["bytesTotal"], first["digest"]) == (True, 10, digest(b"#!/bin/sh\n"))
    second = box.ok("write", call(path="a/b/run.sh", content="#!/bin/sh\necho x\n"))
    assert second["created"] is False
    assert (box.workspace / "a/b/run.sh").stat().st_mode & 0o777 == 0o755
    box.ok("write", call(path="a/b/run.sh", content="x", executable=False))
    assert (box.workspace / "a/b/run.sh").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in (box.workspace / "a/b").iterdir()) == ["run.sh"]  # nothing half-made is left


def test_any_bytes_can_be_written_and_read_C64(box: Sandbox) -> None:
    box.ok("write", call(path="bytes", contentBase64="AP/+2AA="))
    assert (box.workspace / "bytes").read_bytes() == b"\x00\xff\xfe\xd8\x00"
    assert box.ok("read", call(path="bytes"))["contentBase64"] == "AP/+2AA="
    box.ok("write", call(path="text", content="a\0\u20ac"))
    assert box.ok("read", call(path="text"))["content"] == "a\0\u20ac"


@pytest.mark.parametrize(
    ("op", "arguments", "kind", "told"),
    [
        ("read", {"path": "none"}, "NotFound", "none"),
        ("read", {"path": "none/deeper"}, "NotFound", "none"),
        ("read", {"path": "file/deeper"}, "NotADirectory", "file"),
        ("read", {"path": ""}, "InvalidArguments", "path"),
        ("read", {"path": "a\0b"}, "InvalidArguments", "NUL"),
        ("read", {"path": "\ud800"}, "InvalidArguments", "surrogate"),
        ("read", {"path": "x" * 5000}, "InvalidArguments", "4096"),
        ("read", {"path": "x" * 300}, "NotReadable", "name too long"),
        ("read", {"path": "file", "offset": 0}, "InvalidArguments", "arguments.offset"),
        ("read", {"path": "file", "lines": 3}, "InvalidArguments", "arguments.lines"),
        ("read", {"path": "big"}, "TooLarge", "100000"),
        ("read", {}, "InvalidArguments", "arguments.path is missing"),
        ("write", {"path": "new"}, "InvalidArguments", "exactly one"),
        ("write", {"path": "new", "content": "", "contentBase64": ""}, "InvalidArguments", "exactly one"),
        ("write", {"path": "new", "contentBase64": "?"}, "InvalidArguments", "contentBase64"),
        ("write", {"path": "new", "content": "\ud800"}, "InvalidArguments", "contentBase64"),
        ("write", {"path": "new", "content": "x" * 100_001}, "TooLarge", "100001"),
        ("write", {"path": ".", "content": "x"}, "NotAFile", "folder"),
        ("write", {"path": "file/new", "content": "x"}, "NotADirectory", "file"),
        ("edit", {"path": "file", "old": "", "new": "x"}, "InvalidArguments", "arguments.old"),
        ("edit", {"path": "file", "old": "one", "new": "one"}, "InvalidArguments", "nothing would change"),
        ("edit", {"path": "file", "old": "three", "new": "x"}, "Conflict", "does not occur"),
        ("edit", {"path": "file", "old": "one  two", "new": "x"}, "Conflict", "white space"),
        ("edit", {"path": "crlf", "old": "a\nb", "new": "x"}, "Conflict", "CR LF"),
        ("edit", {"path": "file", "old": "o", "new": "x"}, "Conflict", "occurs 4 times in file (lines 1, 1, 2, 2)"),
        ("edit", {"path": "file", "old": "one", "new": "x", "count": 3}, "Conflict", "count is 3"),
        ("list", {"path": "none"}, "NotFound", "none"),
        ("list", {"path": "file"}, "NotADirectory", "file"),
        ("list", {"depth": 65}, "InvalidArguments", "arguments.depth"),
        ("search", {"pattern": "("}, "InvalidArguments", "arguments.pattern"),
        ("search", {"pattern": "x" * 1001}, "InvalidArguments", "1000"),
        ("search", {"pattern": "x", "path": "none"}, "NotFound", "none"),
    ],
)
def test_wrong_input_is_told_with_the_field_R15(
    box: Sandbox, op: str, arguments: dict[str, Any], kind: str, told: str
) -> None:
    (box.workspace / "file").write_text("one two\none two\n")
    (box.workspace / "crlf").write_bytes(b"a\r\nb\r\n")
    (box.workspace / "big").write_bytes(b"x" * 100_001)
    result = box.failed(op, call(**arguments))
    assert (result["errorClass"], told in result["message"]) == (kind, True), result["message"]
    assert not (box.workspace / "new").exists()
    assert (box.workspace / "file").read_text() == "one two\none two\n"


def test_read_gives_whole_lines_and_tells_what_is_left_R15(box: Sandbox) -> None:
    (box.workspace / "file").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    part = box.ok("read", call(path="file", offset=99, limit=5))
    assert (part["content"], part["startLine"], part["linesTotal"]) == ("line 99\nline 100\n", 99, 100)
    assert part["truncated"] is False
    assert box.ok("read", call(path="file", offset=101))["content"] == ""
    absolute = box.ok("read", call(path=f"{box.workspace}/file", limit=1))
    assert absolute["content"] == "line 1\n"


def test_cut_text_is_still_text_C64(box: Sandbox) -> None:
    (box.workspace / "file").write_text("\u20ac" * 100)
    cut = box.ok("read", {**call(path="file"), "maxOutputBytes": 100})
    assert (cut["content"], cut["truncated"]) == ("\u20ac" * 33, True)


def test_carriage_returns_are_no_lines_of_their_own_C64(box: Sandbox) -> None:
    (box.workspace / "file").write_bytes(b"a\r\nb\rc\nd")
    assert box.ok("read", call(path="file", offset=2, limit=1))["content"] == "b\rc\n"
    assert box.ok("read", call(path="file"))["linesTotal"] == 3


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_only_newlines_make_lines_C64(box: Sandbox, separator: str) -> None:
    """What `read` counts is what `search` counts."""
    (box.workspace / "file").write_text(f"a{separator}b\nc\n")
    assert box.ok("read", call(path="file", offset=2))["content"] == "c\n"
    assert [match["line"] for match in box.ok("search", call(pattern="c"))["matches"]] == [2]


def test_edit_replaces_exactly_what_was_counted_R15(box: Sandbox) -> None:
    (box.workspace / "file").write_bytes(b"one two\none\xff\n")
    result = box.ok("edit", call(path="file", old="one", new="1", count=2))
    assert (result["replacements"], result["lines"]) == (2, [1, 2])
    assert (box.workspace / "file").read_bytes() == b"1 two\n1\xff\n"


def test_list_is_sorted_bounded_and_says_so_R15(box: Sandbox) -> None:
    for number in range(2100):
        (box.workspace / f"f{number:04}").touch()
    listed = box.ok("list", call())
    assert len(listed["entries"]) == 2000
    assert listed["truncated"] is True
    assert [entry["path"] for entry in listed["entries"]] == [f"f{number:04}" for number in range(2000)]
    assert box.ok("list", {**call(), "maxOutputBytes": 50})["truncated"] is True


def test_names_that_are_no_text_are_shown_escaped_C64(box: Sandbox) -> None:
    (Path(os.fsdecode(bytes(box.workspace) + b"/caf\xe9"))).touch()
    assert [entry["path"] for entry in box.ok("list", call())["entries"]] == ["caf\\xe9"]


def test_search_leaves_out_binary_files_and_git_R15(box: Sandbox) -> None:
    for name, content in (("a.txt", b"needle 1\nx\nneedle 2\n"), ("b.bin", b"\0needle"), (".git/c", b"needle")):
        (box.workspace / name).parent.mkdir(exist_ok=True)
        (box.workspace / name).write_bytes(content)
    found = box.ok("search", call(pattern=r"needle \d"))
    assert [(match["path"], match["line"]) for match in found["matches"]] == [("a.txt", 1), ("a.txt", 3)]
    assert (found["filesSearched"], found["filesSkipped"]) == (1, 1)
    one = box.ok("search", call(pattern="needle", path="a.txt", maxMatches=1))
    assert (len(one["matches"]), one["truncated"], one["matches"][0]["path"]) == (1, True, "a.txt")


def test_expression_that_never_ends_costs_its_own_step_only_C37(box: Sandbox) -> None:
    (box.workspace / "file").write_text("a" * 60 + "!")
    begun = time.monotonic()
    result = box.failed("search", {**call(pattern="(a+)+$"), "timeoutSeconds": 1})
    assert result["errorClass"] == "Timeout"
    assert time.monotonic() - begun < 15
    assert box.ok("run", call(argv=["true"]))["exitCode"] == 0
    assert box.ok("ps")["processes"] == []
