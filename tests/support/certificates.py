"""Certificates for tests."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOOPBACK = x509.IPAddress(IPv4Address("127.0.0.1"))


class Pair(NamedTuple):
    """A self-signed certificate and its key, as PEM."""

    certificate: str
    key: str


def a_pair(
    *,
    name: str = "mooring test",
    hosts: Sequence[x509.GeneralName] = (LOOPBACK,),
    begins: timedelta = timedelta(hours=-1),
    ends: timedelta = timedelta(hours=1),
) -> Pair:
    """For 127.0.0.1 and currently valid, unless given otherwise."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


def server_tls(folder: Path, pair: Pair, *, trusting: Pair | None = None, required: bool = False) -> ssl.SSLContext:
    """A server context with the pair, which requests client certificates of the trusted authorities."""
    file = folder / "server.pem"
    file.write_text(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    if trusting is not None:
        context.load_verify_locations(cadata=trusting.certificate)
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context
