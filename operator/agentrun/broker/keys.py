"""The broker's keys: a certificate authority for its own TLS, and Ed25519 keys by kid. Pure but for randomness."""

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agentrun.core.errors import AgentrunError

CA_VALID = timedelta(days=3650)
SERVER_VALID = timedelta(days=1825)  # made anew with each start of a broker
_BACKDATED = timedelta(hours=1)  # for nodes whose clocks are behind


class KeysUnusable(AgentrunError):
    """The Secret does not hold what it should; the message names the key and the fix, never a value."""


@dataclass(frozen=True)
class SigningKey:
    """An Ed25519 key. `not_after`: RFC 3339, None while it is in use."""

    kid: str
    key: Ed25519PrivateKey
    not_after: str | None = None

    @property
    def public(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return self.key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


@dataclass(frozen=True)
class Keys:
    """What the Secret holds. The first signing key without an end signs."""

    ca: x509.Certificate
    ca_key: ec.EllipticCurvePrivateKey
    signing: tuple[SigningKey, ...]

    @property
    def ca_pem(self) -> str:
        """The authority's certificate."""
        return self.ca.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def current(self) -> SigningKey:
        """The key that signs."""
        return next(key for key in self.signing if key.not_after is None)


def new_keys(now: datetime) -> Keys:
    """Fresh keys."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agentrun broker CA")])
    usage = _key_usage(signs_certificates=True)
    ca = (
        _certificate(name, name, ca_key, now, CA_VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return Keys(ca, ca_key, (new_signing_key(),))


def new_signing_key() -> SigningKey:
    """A fresh key; its kid is derived from the public half, so that no two keys ever share one."""
    unnamed = SigningKey("", Ed25519PrivateKey.generate())
    return SigningKey(hashlib.sha256(unnamed.public).hexdigest()[:16], unnamed.key)


def server_certificate(keys: Keys, names: tuple[str, ...], now: datetime) -> tuple[bytes, bytes]:
    """PEM of a certificate for these host names or addresses and of its own new key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    certificate = (
        _certificate(subject, keys.ca.subject, key, now, min(SERVER_VALID, keys.ca.not_valid_after_utc - now))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(keys.ca_key.public_key()), critical=False)
        .sign(keys.ca_key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, valid: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + valid)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def to_secret(keys: Keys) -> dict[str, bytes]:
    """The Secret's data, before Kubernetes' base64."""
    signing = [
        {
            "kid": key.kid,
            "privateKey": base64.b64encode(key.key.private_bytes_raw()).decode(),
            "notAfter": key.not_after,
        }
        for key in keys.signing
    ]
    return {
        "ca.crt": keys.ca_pem.encode(),
        "ca.key": _private_pem(keys.ca_key),
        "signing.json": json.dumps(signing).encode(),
    }


def from_secret(data: dict[str, bytes]) -> Keys:
    """The keys of a Secret. Raises KeysUnusable."""
    try:
        ca_key = serialization.load_pem_private_key(data["ca.key"], None)
        ca = x509.load_pem_x509_certificate(data["ca.crt"])
        signing = tuple(_signing_key(entry) for entry in json.loads(data["signing.json"]))
    except KeyError as error:
        raise _unusable(f"has no {error}") from None
    except (ValueError, TypeError, binascii.Error):
        raise _unusable("holds a value that is no key") from None
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey) or ca_key.public_key() != ca.public_key():
        raise _unusable("holds a ca.key that does not belong to ca.crt")
    if all(key.not_after is not None for key in signing):
        raise _unusable("holds no signing key that is in use")
    return Keys(ca, ca_key, signing)


def _signing_key(entry: dict[str, Any]) -> SigningKey:
    raw = base64.b64decode(entry["privateKey"], validate=True)
    return SigningKey(entry["kid"], Ed25519PrivateKey.from_private_bytes(raw), entry.get("notAfter"))


def _unusable(what: str) -> KeysUnusable:
    return KeysUnusable(f"Secret agentrun-broker-keys {what}: restore it, or delete it and restart the broker")


def _base64url(raw: bytes) -> str:
    """Unpadded, as in a JWK (RFC 8037): the form that sandboxes take."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def public_facts(keys: Keys) -> dict[str, str]:
    """The ConfigMap's data: what the other processes and the sandboxes may know."""
    public = [{"kid": key.kid, "publicKey": _base64url(key.public), "notAfter": key.not_after} for key in keys.signing]
    return {"ca.crt": keys.ca_pem, "keys.json": json.dumps(public)}
