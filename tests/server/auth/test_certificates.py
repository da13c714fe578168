"""The authority, the server's certificate, and TLS with both over a real connection."""

import os
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import ClientConnectorCertificateError, ClientError, ClientSession, TCPConnector, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from structlog.testing import capture_logs

from mooring.clock import SystemClock
from mooring.server.auth.authenticator import Authenticator, StaticTokens
from mooring.server.auth.certificates import Certificates, KeyPair, ensure_certificates
from mooring.server.contract import User
from mooring.server.http.listener import listen

DAY = 86_400.0


class FixedClock(SystemClock):
    """The real time, some days on."""

    def __init__(self, days: float = 0) -> None:
        self._days = days

    def now(self) -> float:
        return super().now() + self._days * DAY


def pair(directory: Path, name: str) -> KeyPair:
    return KeyPair.from_pem((directory / f"{name}.crt").read_bytes(), (directory / f"{name}.key").read_bytes())


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "certificates"
    ensure_certificates(directory, clock=FixedClock())
    assert sorted(contents(directory)) == ["ca.crt", "ca.key", "server.crt", "server.key"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_the_certificate_is_good_for_this_machine(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, clock=FixedClock())
    server = pair(tmp_path, "server").certificate
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    key = server.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)


@pytest.mark.parametrize(
    ("days", "authority_stays", "server_stays"),
    [
        pytest.param(0, True, True, id="at once"),
        pytest.param(334, True, True, id="31 days before the end"),
        pytest.param(336, True, False, id="29 days before the end of the server's"),
        pytest.param(3630, False, False, id="20 days before the end of the authority"),
        pytest.param(-1, False, False, id="a clock that went back"),
    ],
)
def test_certificates_are_kept_or_renewed(
    tmp_path: Path, days: float, authority_stays: bool, server_stays: bool
) -> None:
    ensure_certificates(tmp_path, clock=FixedClock())
    before = contents(tmp_path)
    ensure_certificates(tmp_path, clock=FixedClock(days))
    after = contents(tmp_path)
    assert (before["ca.crt"] == after["ca.crt"]) is authority_stays
    assert (before["server.crt"] == after["server.crt"]) is server_stays


def test_a_server_certificate_never_outlives_its_authority(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, clock=FixedClock())
    ensure_certificates(tmp_path, clock=FixedClock(3500))
    authority, server = pair(tmp_path, "ca").certificate, pair(tmp_path, "server").certificate
    assert server.not_valid_after_utc == authority.not_valid_after_utc


def test_other_names_need_another_certificate(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, clock=FixedClock())
    before = contents(tmp_path)
    ensure_certificates(tmp_path, clock=FixedClock(), names=("localhost", "mooring.example"))
    after = contents(tmp_path)
    assert (before["ca.crt"] == after["ca.crt"], before["server.crt"] == after["server.crt"]) == (True, False)


@pytest.mark.parametrize(
    ("broken", "content"),
    [
        pytest.param("ca.crt", b"", id="empty authority"),
        pytest.param("ca.key", b"nonsense", id="unreadable key of the authority"),
        pytest.param("server.crt", b"nonsense", id="unreadable certificate"),
        pytest.param("server.key", None, id="key of another certificate"),
    ],
)
async def test_broken_certificate_is_replaced_and_logged(tmp_path: Path, broken: str, content: bytes | None) -> None:
    ensure_certificates(tmp_path, clock=FixedClock())
    (tmp_path / broken).write_bytes((tmp_path / "ca.key").read_bytes() if content is None else content)
    with capture_logs() as logs:
        files = ensure_certificates(tmp_path, clock=FixedClock())
    assert [line["event"] for line in logs] == ["unusable certificate replaced"]
    assert await greeting(files, "localhost") == "hello, alice"


def test_missing_file_is_recreated(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, clock=FixedClock())
    (tmp_path / "server.key").unlink()
    ensure_certificates(tmp_path, clock=FixedClock())
    assert pair(tmp_path, "server").serves(("localhost", "127.0.0.1", "::1"), pair(tmp_path, "ca"))


async def greeting(files: Certificates, host: str, client: ssl.SSLContext | None = None) -> str:
    """What a TLS server with these certificates says to a client that trusts their authority."""
    authenticator = Authenticator(StaticTokens({"t": User("alice")}))

    async def hello(request: web.BaseRequest) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "")
        user = await authenticator.authenticate(shown, request.get_extra_info("peercert"))
        assert user is not None
        return web.Response(text=", ".join(["hello", user.name, *user.groups[:-1]]))

    listener = await listen(hello, "127.0.0.1" if host != "::1" else host, 0, files.tls_context())
    context = client or ssl.create_default_context(cafile=str(files.authority))
    address = f"https://[{host}]:{listener.port}" if ":" in host else f"https://{host}:{listener.port}"
    try:
        async with (
            ClientSession(connector=TCPConnector(ssl=context), headers={"Authorization": "Bearer t"}) as session,
            session.get(address) as answer,
        ):
            return await answer.text()
    finally:
        await listener.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
async def test_clients_verify_the_server(tmp_path: Path, host: str) -> None:
    files = ensure_certificates(tmp_path, clock=FixedClock())
    assert await greeting(files, host) == "hello, alice"


async def test_clients_of_another_authority_do_not(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path / "ours", clock=FixedClock())
    others = ensure_certificates(tmp_path / "others", clock=FixedClock())
    with pytest.raises(ClientConnectorCertificateError):
        await greeting(files, "localhost", ssl.create_default_context(cafile=str(others.authority)))


def client_context(files: Certificates, directory: Path, *, signed_by: KeyPair) -> ssl.SSLContext:
    """A client that trusts `files` and shows a certificate of O=system:masters, O=dev, CN=alice."""
    key = ec.generate_private_key(ec.SECP256R1())
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in ("system:masters", "dev")]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, "alice")]))
        .issuer_name(signed_by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signed_by.key, hashes.SHA256())
    )
    shown = KeyPair(certificate, key)
    file = directory / "client.pem"
    file.write_bytes(shown.key_pem() + shown.certificate_pem())
    context = ssl.create_default_context(cafile=str(files.authority))
    context.load_cert_chain(file)
    return context


async def test_a_client_certificate_is_an_identity(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, clock=FixedClock())
    context = client_context(files, tmp_path, signed_by=pair(tmp_path, "ca"))
    assert await greeting(files, "localhost", context) == "hello, alice, system:masters, dev"


async def test_client_certificate_of_other_authority_is_rejected(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path / "ours", clock=FixedClock())
    ensure_certificates(tmp_path / "others", clock=FixedClock())
    context = client_context(files, tmp_path, signed_by=pair(tmp_path / "others", "ca"))
    with pytest.raises((ClientError, OSError)):
        await greeting(files, "localhost", context)


def test_cryptography_is_imported_on_use_only() -> None:
    modules = "mooring.cluster.api_server, mooring.server.http.handler, mooring.server.http.listener"
    program = f"import sys, {modules}; sys.exit('cryptography' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)
