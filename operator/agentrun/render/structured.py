"""JSON and YAML that stay harmless when a person looks at them: the same data, escaped by the format's own rules."""

import json
from typing import Any

from agentrun.render.text import unsafe


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """JSON text; readable letters stay, whatever a terminal could act on is a `\\u` escape."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return "".join(_escaped(char) for char in text) if _suspicious(text) else text


def yaml_text(value: Any) -> str:
    """YAML text, with the same care: ASCII escapes throughout where one letter needs it."""
    text = _yaml(value, readable=True)
    return _yaml(value, readable=False) if _suspicious(text) else text


def _yaml(value: Any, *, readable: bool) -> str:
    import yaml  # noqa: PLC0415 - not needed by other outputs

    dump: Any = yaml.safe_dump  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return str(dump(value, sort_keys=False, allow_unicode=readable, width=120))


def _suspicious(text: str) -> bool:
    return any(unsafe(char) and char != "\n" for char in text)


def _escaped(char: str) -> str:
    if char == "\n" or not unsafe(char):
        return char
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
