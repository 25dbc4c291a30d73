"""Bytes in JSON: text where they are UTF-8, base64 where not, so that every byte string survives (C64)."""

import binascii


def base64url_decode(text: str) -> bytes:
    """Unpadded base64url (RFC 7515 appendix C). Raises ValueError on anything else."""
    raw = text.encode("ascii")
    if any(byte in b"+/=" for byte in raw):
        raise ValueError("no unpadded base64url")
    standard = raw.replace(b"-", b"+").replace(b"_", b"/")
    return binascii.a2b_base64(standard + b"=" * (-len(raw) % 4), strict_mode=True)


def base64_decode(text: str) -> bytes:
    """Padded standard base64. Raises ValueError."""
    return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)


def base64_encode(data: bytes) -> str:
    """Padded standard base64 on one line."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def put_bytes(result: "dict[str, object]", name: str, data: bytes) -> None:
    """Set `<name>` to the text if the bytes are UTF-8, else `<name>Base64`."""
    try:
        result[name] = data.decode("utf-8")
    except UnicodeDecodeError:
        result[name + "Base64"] = base64_encode(data)


def shown(raw: bytes) -> str:
    r"""A file name or a command line for people: what is not UTF-8 becomes `\xNN`, never a lone surrogate."""
    return raw.decode("utf-8", "backslashreplace")
