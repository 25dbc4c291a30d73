"""The diff of a run is what `git apply` makes of it (R19, C36)."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrun.harness.patch import patch
from agentrun.tools.workspace import Entry, Workspace


def lay_out(root: Path, workspace: Workspace) -> None:
    """Write the files."""
    for path, entry in workspace.files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.link:
            target.symlink_to(entry.link)
        else:
            target.write_bytes(entry.data)
            target.chmod(0o755 if entry.executable else 0o644)


def found(root: Path) -> dict[str, Entry]:
    """Read them back."""
    files = [path for path in root.rglob("*") if path.is_symlink() or path.is_file()]
    return {
        str(path.relative_to(root)): Entry(link=str(path.readlink()))
        if path.is_symlink()
        else Entry(path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in files
    }


def applied(root: Path, before: Workspace, diff: bytes) -> dict[str, Entry]:
    """What git makes of the diff."""
    lay_out(root, before)
    subprocess.run(
        ["git", "apply", "--unsafe-paths", "--whitespace=nowarn", "-"], cwd=root, input=diff, check=True,
        env={"GIT_CEILING_DIRECTORIES": str(root.parent), "PATH": "/usr/bin:/bin"}, capture_output=True,
    )  # fmt: skip
    return found(root)


CASES = {
    "changed": ({"a.py": Entry(b"1\n2\n3\n")}, {"a.py": Entry(b"1\nX\n3\n")}),
    "added": ({}, {"d/new file.txt": Entry(b"x\n")}),
    "deleted": ({"a": Entry(b"x\n"), "b": Entry(b"")}, {"b": Entry(b"")}),
    "mode": ({"a": Entry(b"x\n")}, {"a": Entry(b"x\n", executable=True)}),
    "no newline": ({"a": Entry(b"x\ny")}, {"a": Entry(b"x\nz")}),
    "newline gone": ({"a": Entry(b"x\ny\n")}, {"a": Entry(b"x\ny")}),
    "far apart": (
        {"a": Entry(b"".join(b"%d\n" % i for i in range(100)))},
        {"a": Entry(b"".join(b"%d\n" % (-1 if i in (2, 50, 57, 99) else i) for i in range(100)))},
    ),
    "odd names": ({'tab\t"q"': Entry(b"1\n")}, {'tab\t"q"': Entry(b"2\n"), "é": Entry(b"x\n")}),
    "any bytes": ({"a": Entry(b"\xff\xfe\r\n\x0b\xe2\x80\xa8x\n")}, {"a": Entry(b"\xff\r\n\x0cy\n")}),
    "link": ({"l": Entry(link="a")}, {"l": Entry(link="b")}),
    "link instead of file": ({"l": Entry(b"x\n")}, {"l": Entry(link="b")}),
    "huge": (
        {"a": Entry(b"".join(b"%d\n" % i for i in range(9000)))},
        {"a": Entry(b"".join(b"%d\n" % (i * 7 % 9001) for i in range(9000)))},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_git_makes_the_new_workspace_of_the_old_one_and_the_diff(name: str, tmp_path: Path) -> None:
    before, after = (Workspace(files) for files in CASES[name])
    assert applied(tmp_path, before, patch(before, after)) == after.files


_lines = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"\xff"]), max_size=40).map(b"\n".join)


@given(old=_lines, new=_lines)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_two_texts_are_carried_over(old: bytes, new: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    before, after = Workspace({"f": Entry(old)}), Workspace({"f": Entry(new)})
    diff = patch(before, after)
    if old != new:
        assert applied(tmp_path_factory.mktemp("git"), before, diff) == after.files
    else:
        assert diff == b""


def test_binary_files_are_named_only() -> None:
    diff = patch(Workspace({"a": Entry(b"\0old")}), Workspace({"a": Entry(b"\0new"), "n": Entry(b"\0")}))
    assert b"Binary files a/a and b/a differ\n" in diff
    assert b"Binary files /dev/null and b/n differ\n" in diff
    assert b"\0" not in diff


def test_the_diff_is_bounded_and_says_what_it_leaves_out_C36() -> None:
    files = {f"f{i}": Entry(b"x" * 1000 + b"\n") for i in range(10)}
    diff = patch(Workspace(), Workspace(files), max_bytes=3000)
    assert len(diff) < 4000
    assert diff.count(b"not shown, the diff is full") == 8
    assert all(name.encode() in diff for name in files)
