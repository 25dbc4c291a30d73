"""Arguments of operations: typed, bounded, and refused with the name of the field and the fix."""

import json

from agentrun_sandbox.errors import StepError

MAX_ARGV = 256
MAX_ARGV_BYTES = 128 * 1024
MAX_ENV = 64


class Arguments:
    """Members of a JSON object; what nobody asked for is refused by `done`."""

    def __init__(self, given: object, where: str) -> None:
        if not isinstance(given, dict):
            raise StepError("InvalidArguments", f"{where or 'the body'} must be a JSON object")
        self._given: dict[str, object] = dict(given)
        self._where = where + "." if where else ""

    def text(self, name: str, default: "str | None" = None, most: int = 1 << 22) -> str:
        """A text; without a default it must be given."""
        value = self._take(name, default)
        if not isinstance(value, str) or len(value) > most:
            raise self._wrong(name, f"a text of at most {most} characters")
        return value

    def integer(self, name: str, default: int, least: int, most: int) -> int:
        """An integer in a range."""
        value = self._take(name, default)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(name, f"an integer from {least} to {most}")
        return value

    def flag(self, name: str) -> "bool | None":
        """true, false or absent."""
        value = self._given.pop(name, None)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def argv(self, name: str) -> "list[str]":
        """Program and arguments: never a shell string."""
        value = self._take(name, None)
        if not isinstance(value, list) or not 0 < len(value) <= MAX_ARGV or not all(map(_passable, value)):
            raise self._wrong(
                name, f"a list of 1 to {MAX_ARGV} texts without NUL (no shell string: program, arguments)"
            )
        if not value[0] or sum(len(item) for item in value) > MAX_ARGV_BYTES:
            raise self._wrong(name, f"a program and arguments of at most {MAX_ARGV_BYTES} characters together")
        return [str(item) for item in value]

    def environment(self, name: str) -> "dict[str, str]":
        """Variables for one command."""
        value = self._given.pop(name, {})
        if not isinstance(value, dict) or len(value) > MAX_ENV:
            raise self._wrong(name, f"an object of at most {MAX_ENV} texts")
        if not all(_passable(key) and key and "=" not in key and _passable(item) for key, item in value.items()):
            raise self._wrong(name, "an object of texts without NUL, names without =")
        return {str(key): str(item) for key, item in value.items()}

    def inner(self, name: str) -> "Arguments":
        """The object in a member."""
        return Arguments(self._given.pop(name, None), self._where + name)

    def has(self, name: str) -> bool:
        """Whether the member is given and not null."""
        return self._given.get(name) is not None

    def done(self) -> None:
        """Refuse what is left over: a misspelt option would otherwise be silently no option."""
        left = [name for name, value in self._given.items() if value is not None]
        if left:
            raise StepError("InvalidArguments", f"{self._where}{min(left)[:64]} is no argument of this operation")

    def _take(self, name: str, default: "str | int | None") -> object:
        value = self._given.pop(name, None)
        value = default if value is None else value
        if value is None:
            raise StepError("InvalidArguments", f"{self._where}{name} is missing")
        return value

    def _wrong(self, name: str, wanted: str) -> StepError:
        return StepError("InvalidArguments", f"{self._where}{name} must be {wanted}")


def _passable(value: object) -> bool:
    """Whether the kernel can take it: a text without NUL and without lone surrogates."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def parse(body: bytes) -> "dict[str, object]":
    """The body's JSON object. Raises StepError (InvalidArguments)."""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_once)
    except RecursionError:
        raise StepError("InvalidArguments", "the body is nested too deeply") from None
    except ValueError as error:
        raise StepError("InvalidArguments", f"the body is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise StepError("InvalidArguments", "the body must be a JSON object")
    return value


def _once(pairs: "list[tuple[str, object]]") -> "dict[str, object]":
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name is given twice")
    return result


def raw_member(body: bytes, wanted: str) -> bytes:
    """The bytes of a member's value exactly as they stand in a body that `parse` accepted."""
    text = body.decode("utf-8")
    decoder = json.JSONDecoder()
    at = text.index("{") + 1
    while True:
        at = _skip(text, at)
        name, at = decoder.raw_decode(text, at)
        begin = _skip(text, text.index(":", at) + 1)
        _, at = decoder.raw_decode(text, begin)
        if name == wanted:
            return text[begin:at].encode("utf-8")
        at = _skip(text, at) + 1  # the comma


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
