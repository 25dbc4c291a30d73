"""A tar from a sandbox is an attacker's: bounded, inside, or refused (design 1, 8)."""

import contextlib
import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrun.tools.workspace import BadWorkspace, Entry, Workspace, read, restored, write

MAX = 1_000_000


def tar(*members: tuple[str, bytes | str, bytes]) -> bytes:
    """A tar as anyone may write it: (name, content or link target, type)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if isinstance(content, str):
                info.linkname = content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "a/../../evil", "a/./../..", "x" * 5000])
def test_a_path_that_leads_out_is_refused_R20(name: str) -> None:
    with pytest.raises(BadWorkspace, match="leads out"):
        read(tar((name, b"x", tarfile.REGTYPE)), MAX)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "a/../../../x", ""])
def test_a_link_that_leads_out_is_dropped_and_named_R20(target: str) -> None:
    workspace = read(tar(("d/link", target, tarfile.SYMTYPE), ("ok", b"1", tarfile.REGTYPE)), MAX)
    assert workspace.dropped == ("d/link",)
    assert set(workspace.files) == {"ok"}


def test_devices_pipes_and_hard_links_are_dropped_and_named_R20() -> None:
    kinds = {"dev": tarfile.CHRTYPE, "pipe": tarfile.FIFOTYPE, "hard": tarfile.LNKTYPE}
    workspace = read(tar(*((name, "x", kind) for name, kind in kinds.items())), MAX)
    assert set(workspace.dropped) == set(kinds)
    assert not workspace.files


def test_content_beyond_the_limit_is_refused_at_its_entry() -> None:
    with pytest.raises(BadWorkspace, match="'b'"):
        read(tar(("a", b"x" * 600, tarfile.REGTYPE), ("b", b"x" * 600, tarfile.REGTYPE)), 1000)


def test_a_sparse_file_that_claims_a_terabyte_takes_no_memory() -> None:
    info = tarfile.TarInfo("big")
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,1",
                        "GNU.sparse.size": str(1 << 40), "GNU.sparse.name": "big"}  # fmt: skip
    info.size = 1
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(b"x"))
    workspace = read(buffer.getvalue(), MAX)
    assert workspace.files == {}
    assert workspace.dropped == ("big",)


def test_a_cut_tar_and_a_file_below_a_file_are_refused() -> None:
    whole = tar(("a", b"x" * 2000, tarfile.REGTYPE))
    with pytest.raises(BadWorkspace):
        read(whole[:1500], MAX)
    with pytest.raises(BadWorkspace, match="no directory"):
        read(tar(("a", "b", tarfile.SYMTYPE), ("a/x", b"1", tarfile.REGTYPE)), MAX)


@given(st.binary(max_size=3000))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_a_workspace_or_refused_C64(raw: bytes) -> None:
    with contextlib.suppress(BadWorkspace):
        read(raw, MAX)


_paths = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda part: part not in (".", "..")), min_size=1, max_size=3).map("/".join)  # fmt: skip
_files = st.dictionaries(_paths, st.builds(Entry, data=st.binary(max_size=300), executable=st.booleans()), max_size=6)


def _free_of_conflicts(files: dict[str, Entry]) -> dict[str, Entry]:
    return {p: e for p, e in files.items() if not any(o != p and p.startswith(o + "/") for o in files)}


@given(_files.map(_free_of_conflicts))
@settings(deadline=None)
def test_the_same_content_is_the_same_tar_and_comes_back_C64(files: dict[str, Entry]) -> None:
    data = write(Workspace(files))
    back = read(data, MAX)
    assert dict(back.files) == files
    assert write(back) == data


def test_protected_paths_are_as_they_were_whatever_was_done_to_them_C63() -> None:
    original = Workspace({"tests/test_a.py": Entry(b"assert f() == 1"), "src/a.py": Entry(b"bug")})
    work = Workspace(
        {
            "src/a.py": Entry(b"fixed"),
            "tests/conftest.py": Entry(b"skip everything"),
            "report.xml": Entry(b"<testsuite/>"),
        },
        directories=("tests/x",),
    )
    judged = restored(work, original, ["tests"], removed=["report.xml"])
    assert dict(judged.files) == {"tests/test_a.py": Entry(b"assert f() == 1"), "src/a.py": Entry(b"fixed")}


def test_a_link_in_the_way_of_a_protected_path_goes_C63() -> None:
    original = Workspace({"tests/test_a.py": Entry(b"real")})
    for trick in ({"tests": Entry(link="other"), "other/test_a.py": Entry(b"easy")}, {"tests": Entry(b"a file")}):
        for protected in ("tests", "tests/test_a.py"):
            judged = restored(Workspace(trick), original, [protected])
            assert judged.files["tests/test_a.py"] == Entry(b"real")
            assert "tests" not in judged.files
            assert read(write(judged), MAX).files == judged.files
