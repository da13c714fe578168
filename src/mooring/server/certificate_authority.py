"""Making and judging certificates: an authority of our own, and server certificates signed by it.

EC P-256, which every TLS stack takes. Pure but for the keys themselves; files and reuse are `certificates`. Imports
`cryptography`, so import it where it is needed and not before.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
#: Some TLS stacks refuse server certificates that live longer than 398 days.
SERVER_LIFETIME: Final = timedelta(days=365)
#: Clocks of two machines rarely agree: a certificate is valid a little before it was made.
BACKDATED: Final = timedelta(minutes=5)

_SERVER_NAME: Final = "mooring-apiserver"
_AUTHORITY_NAME: Final = "mooring-ca"


class Unusable(ValueError):
    """The PEM texts are not a certificate and its key."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and the private key it belongs to."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def from_pem(cls, certificate: bytes, key: bytes) -> "KeyPair":
        """Raises Unusable."""
        try:
            loaded = x509.load_pem_x509_certificate(certificate)
            private = serialization.load_pem_private_key(key, password=None)
        except (ValueError, TypeError) as error:
            raise Unusable(str(error)) from error
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != loaded.public_key():
            raise Unusable("the key does not belong to the certificate")
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
        return set(found.value) == set(_alternative_names(names))


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
    """Good for these host names and addresses; never longer than the authority itself."""
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
        .add_extension(x509.SubjectAlternativeName(_alternative_names(names)), critical=False)
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


def _alternative_names(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_alternative_name(name) for name in names]


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
