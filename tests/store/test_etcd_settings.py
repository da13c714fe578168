"""Where etcd is, from what people write."""

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
def test_addresses(written: str, servers: tuple[str, ...], tls: bool) -> None:
    settings = etcd_settings(written)
    assert (settings.servers, settings.tls) == (servers, tls)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        pytest.param("127.0.0.1:2379", "as http://HOST:PORT", id="no scheme"),
        pytest.param("unix:///tmp/etcd", "as http://HOST:PORT", id="another scheme"),
        pytest.param("http://a:1,", "as http://HOST:PORT", id="a comma too many"),
        pytest.param("http://a:1/v3", "as http://HOST:PORT", id="a path"),
        pytest.param("http://u:p@a:1", "as http://HOST:PORT", id="a password"),
        pytest.param("http://a:one", "Port could not be cast", id="no port"),
        pytest.param("http://a:1,https://b:1", "in the same way", id="both ways"),
    ],
)
def test_addresses_that_cannot_be(written: str, complaint: str) -> None:
    with pytest.raises(BadSettings, match=complaint):
        etcd_settings(written)


def test_certificates_are_for_tls_and_come_in_pairs() -> None:
    file = Path("a.pem")
    with pytest.raises(BadSettings, match="write https:// for http://"):
        etcd_settings("http://a", authority=file)
    with pytest.raises(BadSettings, match="a certificate needs its key"):
        etcd_settings("https://a", certificate=file)


@pytest.mark.parametrize("written", ["/mooring", "mooring", "/mooring/"])
def test_a_prefix_is_a_folder(written: str) -> None:
    assert etcd_settings("http://a", prefix=written).prefix == "/mooring/"


def test_all_of_etcd_cannot_be_ours() -> None:
    with pytest.raises(BadSettings, match="must have a name"):
        etcd_settings("http://a", prefix="/")
