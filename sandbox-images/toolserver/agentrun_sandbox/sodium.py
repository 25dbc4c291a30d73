"""Ed25519 (RFC 8032) and SHA-256 from libsodium: the only cryptography here, none of it our own.

Through ctypes, because a Python binding costs ten times the start-up time of the one function that is needed.
"""

import ctypes

_lib = ctypes.CDLL("libsodium.so.23")
_lib.sodium_init.restype = ctypes.c_int
_lib.crypto_sign_verify_detached.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulonglong, ctypes.c_char_p)
_lib.crypto_hash_sha256_statebytes.restype = ctypes.c_size_t
_lib.crypto_hash_sha256_update.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulonglong)
if _lib.sodium_init() < 0:
    raise ImportError("libsodium cannot be initialised")

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is this key's over exactly this message."""
    if len(public_key) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    return bool(_lib.crypto_sign_verify_detached(signature, message, len(message), public_key) == 0)


class SHA256:
    """Incremental SHA-256 (FIPS 180-4)."""

    def __init__(self) -> None:
        self._state = ctypes.create_string_buffer(_lib.crypto_hash_sha256_statebytes())
        _lib.crypto_hash_sha256_init(self._state)

    def update(self, data: bytes) -> None:
        """Add bytes."""
        _lib.crypto_hash_sha256_update(self._state, data, len(data))

    def digest(self) -> str:
        """`sha256:<hex>`; ends the use of this object."""
        out = ctypes.create_string_buffer(32)
        _lib.crypto_hash_sha256_final(self._state, out)
        return "sha256:" + out.raw.hex()


def sha256_digest(data: bytes) -> str:
    """`sha256:<hex>` of the bytes."""
    state = SHA256()
    state.update(data)
    return state.digest()
