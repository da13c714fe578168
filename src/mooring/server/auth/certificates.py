"""Certificates of the embedded server: a CA and a server certificate signed by it, with EC P-256 keys, and their files.

Certificates are reused at the next start, so that kubeconfigs stay valid: the CA while it is valid, the server
certificate until it nears its expiry or the host names change. Client certificates are verified, not issued. Imports
`cryptography`, so import this module only where it is needed.
"""

import ipaddress
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.clock import Clock
from mooring.server.auth.server_files import LOCAL_NAMES, write_private

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
#: Some TLS stacks reject server certificates valid for more than 398 days.
SERVER_LIFETIME: Final = timedelta(days=365)
#: Certificates are valid before their creation, because clocks of two machines differ.
BACKDATED: Final = timedelta(minutes=5)

_SERVER_NAME: Final = "mooring-apiserver"
_AUTHORITY_NAME: Final = "mooring-ca"


class CertificateUnusable(ValueError):
    """The PEM data is not a certificate and its key."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def from_pem(cls, certificate: bytes, key: bytes) -> "KeyPair":
        """Raises CertificateUnusable."""
        try:
            loaded = x509.load_pem_x509_certificate(certificate)
            private = serialization.load_pem_private_key(key, password=None)
        except (ValueError, TypeError) as error:
            raise CertificateUnusable(str(error)) from error
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != loaded.public_key():
            raise CertificateUnusable("the key does not belong to the certificate")
        return cls(loaded, private)

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())

    def is_good(self, now: datetime, *, remaining: timedelta) -> bool:
        """Valid now, and for longer than `remaining`."""
        began, ends = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        return began <= now and ends - now > remaining

    def serves(self, names: Sequence[str], authority: "KeyPair") -> bool:
        """Signed by this authority, and for exactly these names."""
        try:
            self.certificate.verify_directly_issued_by(authority.certificate)
            found = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return False
        return set(found.value) == {_alternative_name(name) for name in names}


def new_authority(now: datetime) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named(_AUTHORITY_NAME)
    builder = (
        _builder(name, key, issuer=name, now=now, until=now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def new_server_certificate(authority: KeyPair, names: Sequence[str], now: datetime) -> KeyPair:
    """For these host names and addresses; not valid longer than the authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    until = min(now + SERVER_LIFETIME, issuer.not_valid_after_utc)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(_named(_SERVER_NAME), key, issuer=issuer.subject, now=now, until=until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(signer, critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative_name(name) for name in names]), critical=False)
    )
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, issuer: x509.Name, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


#: Certificates that expire within this time are replaced at start: a server may run for weeks.
REMAINING: Final = timedelta(days=30)

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Certificates:
    """Paths of the certificates; each key is beside its certificate."""

    directory: Path

    @property
    def authority(self) -> Path:
        """The CA of the server and of client certificates."""
        return self.directory / "ca.crt"

    @property
    def server(self) -> Path:
        return self.directory / "server.crt"

    def tls_context(self) -> ssl.SSLContext:
        """For the listener; client certificates are optional, and verified."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server, _key_of(self.server))
        context.load_verify_locations(self.authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def ensure_certificates(directory: Path, *, clock: Clock, names: Sequence[str] = LOCAL_NAMES) -> Certificates:
    """The valid certificates of the folder; missing or invalid ones are created."""
    files = Certificates(directory)
    now = datetime.fromtimestamp(clock.now(), UTC)
    authority = _kept(
        files.authority, is_good=lambda pair: pair.is_good(now, remaining=REMAINING), make=lambda: new_authority(now)
    )
    _kept(
        files.server,
        is_good=lambda pair: pair.is_good(now, remaining=REMAINING) and pair.serves(names, authority),
        make=lambda: new_server_certificate(authority, names, now),
    )
    return files


def _kept(file: Path, *, is_good: Callable[[KeyPair], bool], make: Callable[[], KeyPair]) -> KeyPair:
    """The pair of the file if it is good, else a new one, saved."""
    pair = _load(file)
    if pair is None or not is_good(pair):
        pair = make()
        write_private(_key_of(file), pair.key_pem())
        write_private(file, pair.certificate_pem())
    return pair


def _load(file: Path) -> KeyPair | None:
    try:
        return KeyPair.from_pem(file.read_bytes(), _key_of(file).read_bytes())
    except FileNotFoundError:
        return None
    except CertificateUnusable as error:
        # Also after a start that was interrupted between the two files.
        _log.warning("unusable certificate replaced", file=str(file), error=str(error))
        return None


def _key_of(file: Path) -> Path:
    return file.with_suffix(".key")
