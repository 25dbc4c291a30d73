"""Digests of bytes and of JSON objects (docs/decisions/0001-formats.md)."""

import hashlib
from typing import Any

import rfc8785

PREFIX = "sha256:"


def sha256_digest(data: bytes) -> str:
    """`sha256:<hex>` of exactly these bytes."""
    return PREFIX + hashlib.sha256(data).hexdigest()


def canonical(value: Any) -> bytes:
    """RFC 8785 form of a JSON value.

    Raises rfc8785.CanonicalizationError for integers beyond 2^53 and for lone surrogates.
    """
    return rfc8785.dumps(value)


def digest_json(value: Any) -> str:
    """Digest of the RFC 8785 form of a JSON value."""
    return sha256_digest(canonical(value))
