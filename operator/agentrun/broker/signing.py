"""Signs dispatches and verdicts: compact JWS, EdDSA over Ed25519 (RFC 7515, RFC 8037), formats of decision 0001."""

from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agentrun.broker.wire import SignCall

DISPATCH_SECONDS = 60  # how long a sandbox takes a dispatch, from its signature on
MICRO = 1_000_000


@dataclass(frozen=True)
class Signer:
    """The key that signs now."""

    kid: str
    key: Ed25519PrivateKey

    def dispatch(self, call: SignCall, now: int) -> str:
        """Header `Agentrun-Dispatch`; `now` in microseconds UTC, claims in seconds."""
        iat = now // MICRO
        return self._sign(
            {
                "aud": call.pod_uid,
                "run": call.run.uid,
                "step": call.step,
                "call": call.call,
                "attempt": call.attempt,
                "op": call.op,
                "fence": call.fence,
                "minFence": call.min_fence,
                "bodyDigest": call.body_digest,
                "iat": iat,
                "exp": iat + DISPATCH_SECONDS,
            }
        )

    def verdict(self, claims: dict[str, Any], now: int) -> str:
        """A decision, to be journalled with the result it allowed."""
        return self._sign({**claims, "iat": now // MICRO})

    def _sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, algorithm="EdDSA", headers={"kid": self.kid})
