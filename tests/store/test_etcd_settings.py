"""Parsing of the etcd flags."""

from pathlib import Path

import pytest

from mooring.store.etcd.settings import BadSettings, etcd_settings


@pytest.mark.parametrize(
    ("written", "servers", "tls"),
    [
        pytest.param("http://127.0.0.1:2379", ("127.0.0.1:2379",), False, id="one"),
        pytest.param("http://etcd", ("etcd:2379",), False, id="etcd's own port"),
        pytest.param("https://a:1, https://b:2/", ("a:1", "b:2"), True, id="several, over TLS"),
        pytest.param("http://[::1]:2379", ("[::1]:2379",), False, id="IPv6"),
    ],
)
def test_server_addresses_are_parsed(written: str, servers: tuple[str, ...], tls: bool) -> None:
    settings = etcd_settings(written)
    assert (settings.servers, settings.tls) == (servers, tls)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        pytest.param("127.0.0.1:2379", "expected http://HOST:PORT", id="no scheme"),
        pytest.param("unix:///tmp/etcd", "expected http://HOST:PORT", id="another scheme"),
        pytest.param("http://a:1,", "expected http://HOST:PORT", id="a comma too many"),
        pytest.param("http://a:1/v3", "expected http://HOST:PORT", id="a path"),
        pytest.param("http://u:p@a:1", "expected http://HOST:PORT", id="a password"),
        pytest.param("http://a:one", "Port could not be cast", id="no port"),
        pytest.param("http://a:1,https://b:1", "must use the same scheme", id="both ways"),
    ],
)
def test_invalid_server_addresses_are_rejected(written: str, complaint: str) -> None:
    with pytest.raises(BadSettings, match=complaint):
        etcd_settings(written)


def test_certificate_flags_require_tls_and_key() -> None:
    file = Path("a.pem")
    with pytest.raises(BadSettings, match="use https:// addresses"):
        etcd_settings("http://a", authority=file)
    with pytest.raises(BadSettings, match="must be set together"):
        etcd_settings("https://a", certificate=file)


@pytest.mark.parametrize("written", ["/mooring", "mooring", "/mooring/"])
def test_prefix_is_normalized(written: str) -> None:
    assert etcd_settings("http://a", prefix=written).prefix == "/mooring/"


def test_empty_prefix_is_rejected() -> None:
    with pytest.raises(BadSettings, match="must not be empty"):
        etcd_settings("http://a", prefix="/")
