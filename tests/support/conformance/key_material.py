"""A trust anchor and a pod's certificate request, valid for kube-apiserver."""

from base64 import b64encode
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from support.conformance.server_pair import Json

_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_POD_UID: Final = "0f0f0f0f-0000-4000-8000-000000000001"
_BEGINNING: Final = datetime(2026, 1, 1)  # certificates have times without a zone


def trust_anchor() -> str:
    """The PEM of an authority's certificate."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "anchor")])
    builder = x509.CertificateBuilder(name, name, _KEY.public_key(), 1, _BEGINNING, _BEGINNING + timedelta(days=3650))
    signed = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(_KEY, None)
    return signed.public_bytes(Encoding.PEM).decode()


def certificate_request() -> Json:
    """The spec of a PodCertificateRequest."""
    stub = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(_KEY, None)
    return {
        "signerName": "example.com/signer",
        "podName": "p",
        "podUID": _POD_UID,
        "serviceAccountName": "default",
        "serviceAccountUID": "a",
        "nodeName": "n",
        "nodeUID": "b",
        "stubPKCS10Request": b64encode(stub.public_bytes(Encoding.DER)).decode(),
    }
