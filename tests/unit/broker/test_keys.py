"""Keys of the broker: made once, read back, never half (design 2)."""

import base64
import json
from datetime import UTC, datetime

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from tests.unit.broker.objects import NOW, POD_UID, RUN, RUN_UID

from agentrun.broker.keys import KeysUnusable, from_secret, new_keys, public_facts, server_certificate, to_secret
from agentrun.broker.signing import DISPATCH_SECONDS, Signer
from agentrun.broker.wire import SignCall
from agentrun.core.digest import sha256_digest

START = datetime(2026, 12, 1, tzinfo=UTC)
CLAIMS = {"aud", "run", "step", "call", "attempt", "op", "fence", "minFence", "bodyDigest", "iat", "exp"}


def test_the_secret_gives_the_same_keys_back() -> None:
    keys = new_keys(START)
    again = from_secret(to_secret(keys))
    assert again.ca == keys.ca
    assert again.ca_key.private_numbers() == keys.ca_key.private_numbers()
    assert [(key.kid, key.public) for key in again.signing] == [(key.kid, key.public) for key in keys.signing]


def test_the_config_map_holds_public_halves_only_C31() -> None:
    keys = new_keys(START)
    facts = public_facts(keys)
    text = json.dumps(facts)
    assert "PRIVATE" not in text
    assert base64.b64encode(keys.current.key.private_bytes_raw()).decode() not in text
    (entry,) = json.loads(facts["keys.json"])
    assert entry == {
        "kid": keys.current.kid,
        "publicKey": base64.urlsafe_b64encode(keys.current.public).decode().removesuffix("="),
        "notAfter": None,
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"ca.key": None}, "ca.key"),
        ({"ca.crt": b"CANARY"}, "no key"),
        ({"signing.json": b"[]"}, "no signing key"),
        ({"signing.json": b'[{"kid": "a", "privateKey": "Q0FOQVJZ"}]'}, "no key"),
        ({"ca.key": to_secret(new_keys(START))["ca.key"]}, "does not belong"),
    ],
)
def test_a_broken_secret_is_named_without_its_values_C31(change: dict[str, bytes | None], told: str) -> None:
    data = {name: value for name, value in (to_secret(new_keys(START)) | change).items() if value is not None}
    with pytest.raises(KeysUnusable, match=told) as caught:
        from_secret(data)
    assert "CANARY" not in str(caught.value)
    assert "Q0FOQVJZ" not in str(caught.value)


def test_the_server_certificate_never_outlives_its_authority() -> None:
    keys = new_keys(START)
    late = datetime(2036, 11, 1, tzinfo=UTC)
    certificate = x509.load_pem_x509_certificate(server_certificate(keys, ("broker.ns.svc", "127.0.0.1"), late)[0])
    assert certificate.not_valid_after_utc <= keys.ca.not_valid_after_utc
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["broker.ns.svc"]


def test_a_dispatch_has_exactly_the_claims_of_decision_0001() -> None:
    keys = new_keys(START)
    signer = Signer(keys.current.kid, keys.current.key)
    body = b'{"a":1}'
    call = SignCall(RUN, 3, "t1c0", 2, "d", "run", "pod", POD_UID, 1, sha256_digest(body), body, "t1c0", "run")
    token = signer.dispatch(call, NOW)
    public = Ed25519PublicKey.from_public_bytes(keys.current.public)
    claims = jwt.decode(
        token, public, algorithms=["EdDSA"], audience=POD_UID, options={"verify_exp": False, "verify_iat": False}
    )
    assert set(claims) == CLAIMS
    assert jwt.get_unverified_header(token)["kid"] == keys.current.kid
    assert (claims["run"], claims["fence"], claims["minFence"], claims["attempt"]) == (RUN_UID, 3, 1, 2)
    assert (claims["iat"], claims["exp"]) == (NOW // 10**6, NOW // 10**6 + DISPATCH_SECONDS)
    assert claims["bodyDigest"] == sha256_digest(body)
