"""Untrusted text made safe for a terminal: nothing in it moves the cursor, hides, reorders or colours (C50).

What cannot be printed is shown as an escape (`\\x1b`, `\\u202e`), never dropped: a reader sees that it was there.
"""

import unicodedata

# Letters and marks that draw nothing: they hide text from the eye, not from whoever takes it up again.
_BLANK = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xE0100, 0xE01F0)]
)
_EMOJI_STYLE = frozenset("\ufe0e\ufe0f")
_VARIATIONS = frozenset(chr(code) for code in range(0xFE00, 0xFE10))
_SPACES = "Zs"


def line(text: object) -> str:
    """One line: line breaks and tabs are escaped as well, so that no value can forge a second line."""
    return _escaped(str(text), keep="")


def block(text: object) -> str:
    """Text of several lines: line feeds and tabs stay, carriage returns do not."""
    return _escaped(str(text), keep="\n\t")


def unsafe(char: str) -> bool:
    """Whether a character must not reach a terminal: controls, bidi marks, zero width, unassigned, surrogates."""
    if ord(char) in _BLANK or char in _VARIATIONS:
        return True
    return not char.isprintable() and unicodedata.category(char) != _SPACES


def escape(char: str) -> str:
    r"""`\x1b`, `\u202e`, `\U000e0001`; the common ones by their names."""
    named = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(char)
    code = ord(char)
    return named or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def _escaped(text: str, keep: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    before = ""
    for char in text:
        styled = char in _EMOJI_STYLE and before != "" and unicodedata.category(before) == "So"
        shown.append(char if char in keep or styled or not unsafe(char) else escape(char))
        before = char
    return "".join(shown)


def shortened(text: object, limit: int) -> str:
    """One line of at most about `limit` characters; says how much it leaves out, so that no tail hides."""
    whole = line(text)
    return whole if len(whole) <= limit else f"{whole[:limit]}… (+{len(whole) - limit} characters)"


def width(text: str) -> int:
    """Columns that text already made safe takes on a terminal."""
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or char in _VARIATIONS:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
