"""The dispatch token: compact JWS (RFC 7515), EdDSA over Ed25519 (RFC 8037); formats of decision 0001."""

import json

from agentrun_sandbox.encoding import base64url_decode
from agentrun_sandbox.errors import Refused
from agentrun_sandbox.sodium import verify

MAX_TOKEN_BYTES = 8192
LEEWAY_SECONDS = 30  # clocks of nodes differ; a replay is answered from step memory anyway
_TEXTS = ("aud", "run", "step", "op", "bodyDigest")
_NUMBERS = ("attempt", "fence", "minFence", "iat", "exp")


class Claims:
    """What the broker signed. `fence` and `min_fence` are the run lease's, times in seconds."""

    __slots__ = ("attempt", "aud", "body_digest", "call", "exp", "fence", "iat", "min_fence", "op", "run", "step")

    def __init__(self, given: "dict[str, object]") -> None:
        for name in _TEXTS:
            if not isinstance(given.get(name), str) or not given[name]:
                raise Refused(400, "BadClaims", f"claim {name} must be a text that is not empty")
        self.aud, self.run, self.step = str(given["aud"]), str(given["run"]), str(given["step"])
        self.op, self.body_digest = str(given["op"]), str(given["bodyDigest"])
        self.call = str(given.get("call") or "")
        self.attempt, self.fence, self.min_fence, self.iat, self.exp = (_number(given, name) for name in _NUMBERS)


def _number(given: "dict[str, object]", name: str) -> int:
    value = given.get(name)
    if type(value) is not int or value < 0:
        raise Refused(400, "BadClaims", f"claim {name} must be an integer from 0 on")
    return value


def open_token(token: str, keys: "dict[str, bytes]") -> Claims:
    """The claims of a token that one of `keys` signed. Raises Refused: 400 or 401."""
    if not token:
        raise Refused(401, "Unsigned", "header Agentrun-Dispatch is missing: the broker signs every dispatch")
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_TOKEN_BYTES:
        raise Refused(401, "BadSignature", "header Agentrun-Dispatch is no compact JWS")
    try:
        header, payload = _part(parts[0]), _part(parts[1])
        signature = base64url_decode(parts[2])
    except (ValueError, RecursionError):
        raise Refused(401, "BadSignature", "header Agentrun-Dispatch is no compact JWS") from None
    if header.get("alg") != "EdDSA" or "crit" in header:
        raise Refused(401, "BadSignature", "the algorithm must be EdDSA")
    key = keys.get(str(header.get("kid")))
    if key is None:
        raise Refused(401, "UnknownKey", f"this Pod does not know the key {str(header.get('kid'))[:64]!r}")
    if not verify(key, f"{parts[0]}.{parts[1]}".encode("ascii"), signature):
        raise Refused(401, "BadSignature", "the signature does not hold")
    return Claims(payload)


def _part(text: str) -> "dict[str, object]":
    value = json.loads(base64url_decode(text))
    if isinstance(value, dict):
        return value
    raise ValueError("no object")


def check_claims(claims: Claims, pod_uid: str, run: str, now: float) -> None:
    """Whether the token is for this Pod, this run and this hour. Raises Refused: 403."""
    if claims.aud != pod_uid:
        raise Refused(403, "WrongAudience", f"the dispatch is for Pod {claims.aud[:64]}, this is {pod_uid}")
    if claims.run != run:
        raise Refused(403, "WrongRun", f"the dispatch is for run {claims.run[:64]}, this Pod serves {run}")
    if now > claims.exp + LEEWAY_SECONDS:
        raise Refused(403, "Expired", f"the dispatch expired {int(now - claims.exp)} s ago: have it signed again")
    if now < claims.iat - LEEWAY_SECONDS:
        raise Refused(
            403, "NotYetValid", f"the dispatch is from the future by {int(claims.iat - now)} s: set the clocks"
        )
