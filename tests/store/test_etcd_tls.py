"""etcd over TLS: server and client certificates, and errors for mismatches."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.clock import SystemClock
from mooring.server.auth.certificates import KeyPair, new_authority, new_server_certificate
from mooring.store.contract import ABSENT, StoreUnusable
from mooring.store.etcd.settings import EtcdSettings, etcd_settings
from mooring.store.etcd.store import EtcdStore
from store.conftest import quick_directory
from support.store.etcd_process import HOST, EtcdProcess

NOW = datetime.now(UTC)


def client_certificate(authority: KeyPair) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mooring")]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    )
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def save(folder: Path, name: str, pair: KeyPair) -> None:
    (folder / f"{name}.crt").write_bytes(pair.certificate_pem())
    (folder / f"{name}.key").write_bytes(pair.key_pem())


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with quick_directory() as directory:
        folder = Path(directory)
        authority = new_authority(NOW)
        save(folder, "ca", authority)
        # gRPC trusts any of several with the same name; this one has another, as another cluster's would.
        save(folder, "other-ca", new_authority(NOW))
        save(folder, "server", new_server_certificate(authority, [HOST], NOW))
        save(folder, "client", client_certificate(authority))
        yield folder


@pytest.fixture(scope="module")
def trusting(etcd_binary: Path, folder: Path) -> Iterator[EtcdSettings]:
    """Settings with a valid client certificate."""
    options = [
        f"--cert-file={folder / 'server.crt'}",
        f"--key-file={folder / 'server.key'}",
        f"--trusted-ca-file={folder / 'ca.crt'}",
        "--client-cert-auth",
    ]
    etcd = EtcdProcess(etcd_binary, folder, options=options, scheme="https")
    etcd.start()
    settings = etcd_settings(
        etcd.url,
        authority=folder / "ca.crt",
        certificate=folder / "client.crt",
        key=folder / "client.key",
    )
    yield msgspec.structs.replace(settings, request_timeout=5.0)
    etcd.stop()


async def test_mutual_tls_connects(trusting: EtcdSettings) -> None:
    store = await EtcdStore.open(trusting, SystemClock())
    change = await store.write("/a", b"1", expect=ABSENT)
    assert await store.get("/a") == change.after
    await store.close()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        pytest.param({"authority": "other-ca.crt"}, "CERTIFICATE_VERIFY_FAILED", id="another authority"),
        pytest.param({"certificate": None, "key": None}, "did not answer within", id="no certificate"),
        pytest.param({"authority": "none.crt"}, "none.crt cannot be read: No such file", id="no such file"),
    ],
)
async def test_tls_mismatch_is_reported(
    trusting: EtcdSettings, folder: Path, changes: dict[str, str | None], complaint: str
) -> None:
    wrong = {name: folder / file if file else None for name, file in changes.items()}
    with pytest.raises(StoreUnusable, match=complaint):
        await EtcdStore.open(msgspec.structs.replace(trusting, **wrong, request_timeout=1.0), SystemClock())


async def test_plain_connection_to_tls_server_fails(trusting: EtcdSettings) -> None:
    with pytest.raises(StoreUnusable, match="did not answer within"):
        await EtcdStore.open(EtcdSettings(trusting.servers, request_timeout=0.5), SystemClock())
