"""The cluster's certificates: one authority, a certificate per component, valid for a week."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey
DAY = dt.timedelta(days=1)


def write_key(path: Path, key: Key) -> None:
    """Private key as PEM, readable by its owner only."""
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))


def key_pair(folder: Path, name: str) -> None:
    """A bare key pair: `<name>.key` and `<name>.pub` (service account tokens)."""
    key = ec.generate_private_key(ec.SECP256R1())
    write_key(folder / f"{name}.key", key)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub").write_bytes(public)


class Authority:
    """A certificate authority whose files are `<name>.crt` and `<name>.key`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"agentrun-test-{name}")])
        builder = self._builder(self._subject, self._key).add_extension(
            x509.BasicConstraints(True, None), critical=True
        )
        write_key(folder / f"{name}.key", self._key)
        self.certificate = folder / f"{name}.crt"
        self.certificate.write_bytes(self._sign(builder))

    def issue(self, name: str, common_name: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Path:
        """`<name>.crt` and `<name>.key` for client and server use; returns the certificate's path."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        builder = self._builder(subject, key).add_extension(usage, critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
        write_key(self._folder / f"{name}.key", key)
        path = self._folder / f"{name}.crt"
        path.write_bytes(self._sign(builder))
        return path

    def _builder(self, subject: x509.Name, key: Key) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + 7 * DAY)
        )

    def _sign(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
