"""What a run changed: a unified diff in git's format between two workspaces, bounded in size and in time (C36)."""

import difflib
from collections.abc import Iterator

from agentrun.tools.workspace import Entry, Workspace

MAX_PATCH_BYTES = 1_048_576
MAX_COMPARED_LINES = 3_000  # beyond, the changed middle is shown as removed and added: still a correct diff
_CONTEXT = 3
_BINARY_PROBE = 8_000
_NO_NEWLINE = b"\\ No newline at end of file\n"


def patch(before: Workspace, after: Workspace, max_bytes: int = MAX_PATCH_BYTES) -> bytes:
    """The diff; files beyond `max_bytes` are named only, binary files always."""
    parts: list[bytes] = []
    left = max_bytes
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old == new:
            continue
        part = _file(path, old, new)
        if len(part) > left:
            part = b"# not shown, the diff is full: " + _quoted("", path) + b"\n"
        left -= len(part)
        parts.append(part)
    return b"".join(parts)


def _file(path: str, old: Entry | None, new: Entry | None) -> bytes:
    a, b = _quoted("a/", path), _quoted("b/", path)
    if old is not None and new is not None and bool(old.link) != bool(new.link):
        return _file(path, old, None) + _file(path, None, new)  # git's form of a change of kind
    head = b"diff --git %s %s\n" % (a, b) + _modes(old, new)
    before, after = _content(old), _content(new)
    if before == after:
        return head
    if _is_binary(before) or _is_binary(after):
        return head + b"Binary files %s and %s differ\n" % (a if old else b"/dev/null", b if new else b"/dev/null")
    tab = b"\t" if b" " in a and not a.startswith(b'"') else b""
    names = b"--- %s\n+++ %s\n" % (a + tab if old else b"/dev/null", b + tab if new else b"/dev/null")
    return head + names + b"".join(_hunks(_lines(before), _lines(after)))


def _modes(old: Entry | None, new: Entry | None) -> bytes:
    if old is None and new is not None:
        return b"new file mode %s\n" % _mode(new)
    if new is None and old is not None:
        return b"deleted file mode %s\n" % _mode(old)
    if old is not None and new is not None and _mode(old) != _mode(new):
        return b"old mode %s\nnew mode %s\n" % (_mode(old), _mode(new))
    return b""


def _mode(entry: Entry) -> bytes:
    if entry.link:
        return b"120000"
    return b"100755" if entry.executable else b"100644"


def _content(entry: Entry | None) -> bytes:
    if entry is None:
        return b""
    return entry.link.encode("utf-8", "surrogateescape") if entry.link else entry.data


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_BINARY_PROBE]


def _quoted(prefix: str, path: str) -> bytes:
    """The name as git writes it: with C escapes between quotes where it holds anything unusual."""
    raw = (prefix + path).encode("utf-8", "surrogateescape")
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in raw):
        return raw
    return b'"' + b"".join(_escaped(byte) for byte in raw) + b'"'


def _escaped(byte: int) -> bytes:
    if byte in b'"\\':
        return b"\\" + bytes([byte])
    return bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    for group in _groups(old, new):
        first, last = group[0], group[-1]
        yield b"@@ -%s +%s @@\n" % (_range(first[1], last[2]), _range(first[3], last[4]))
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                yield from _marked(b" ", old[a1:a2])
            else:
                yield from _marked(b"-", old[a1:a2])
                yield from _marked(b"+", new[b1:b2])


def _marked(mark: bytes, lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark + line if line.endswith(b"\n") else mark + line + b"\n" + _NO_NEWLINE


def _range(start: int, stop: int) -> bytes:
    length = stop - start
    if length == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if length else start, length)


def _groups(old: list[bytes], new: list[bytes]) -> Iterator[list[tuple[str, int, int, int, int]]]:
    head, tail = _common(old, new)
    middle = (old[head : len(old) - tail], new[head : len(new) - tail])
    if max(map(len, middle)) <= MAX_COMPARED_LINES:
        matcher = difflib.SequenceMatcher(None, *middle, autojunk=True)
        inner = [(tag, a1 + head, a2 + head, b1 + head, b2 + head) for tag, a1, a2, b1, b2 in matcher.get_opcodes()]
    else:
        inner = [("replace", head, len(old) - tail, head, len(new) - tail)]
    before = [("equal", 0, head, 0, head)] if head else []
    after = [("equal", len(old) - tail, len(old), len(new) - tail, len(new))] if tail else []
    return _grouped([*before, *inner, *after])


def _common(old: list[bytes], new: list[bytes]) -> tuple[int, int]:
    """How many lines are the same at both ends."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = shorter - head
    tail = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    return head, tail


def _grouped(codes: list[tuple[str, int, int, int, int]]) -> Iterator[list[tuple[str, int, int, int, int]]]:
    """Changes with three lines around them (as difflib groups them; it only takes its own codes)."""
    group: list[tuple[str, int, int, int, int]] = []
    for index, (tag, a1, a2, b1, b2) in enumerate(codes):
        if tag != "equal":
            group.append((tag, a1, a2, b1, b2))
            continue
        first, last = index == 0, index == len(codes) - 1
        if not first:
            keep = min(_CONTEXT, a2 - a1)
            if not last and a2 - a1 <= 2 * _CONTEXT:
                group.append((tag, a1, a2, b1, b2))
                continue
            group.append((tag, a1, a1 + keep, b1, b1 + keep))
            yield group
        keep = min(_CONTEXT, a2 - a1)
        group = [] if last else [(tag, a2 - keep, a2, b2 - keep, b2)]
    if any(code[0] != "equal" for code in group):
        yield group
