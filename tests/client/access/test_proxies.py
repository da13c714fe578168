import pytest

from mooring.client.access import ProxyError, checked_proxy, proxy_from_environment

SERVER = "https://api.example.com:6443"
PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environ", "want"),
    [
        pytest.param(SERVER, {}, "", id="nothing said"),
        pytest.param(SERVER, {"HTTPS_PROXY": PROXY}, PROXY, id="for https"),
        pytest.param(SERVER, {"https_proxy": PROXY}, PROXY, id="in small letters"),
        pytest.param(SERVER, {"HTTPS_PROXY": PROXY, "https_proxy": "http://other"}, PROXY, id="capitals first"),
        pytest.param(SERVER, {"HTTPS_PROXY": "", "https_proxy": PROXY}, PROXY, id="empty is not said"),
        pytest.param(SERVER, {"HTTP_PROXY": PROXY}, "", id="https does not use that for http"),
        pytest.param("http://api", {"HTTP_PROXY": PROXY, "HTTPS_PROXY": "http://other"}, PROXY, id="for http"),
        pytest.param(SERVER, {"ALL_PROXY": PROXY}, "", id="kubectl does not know this one"),
        pytest.param(SERVER, {"HTTPS_PROXY": "proxy:3128"}, PROXY, id="without a scheme"),
        pytest.param(SERVER, {"HTTPS_PROXY": "https://me:pw@proxy"}, "https://me:pw@proxy", id="with a password"),
        pytest.param("https://localhost:6443", {"HTTPS_PROXY": PROXY}, "", id="this machine by name"),
        pytest.param("https://127.0.0.5", {"HTTPS_PROXY": PROXY}, "", id="this machine by address"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, "", id="this machine by IPv6 address"),
    ],
)
def test_what_the_environment_says(server: str, environ: dict[str, str], want: str) -> None:
    assert proxy_from_environment(server, environ) == want


@pytest.mark.parametrize(
    ("server", "exceptions", "direct"),
    [
        pytest.param(SERVER, "*", True, id="everything"),
        pytest.param(SERVER, "api.example.com", True, id="the host"),
        pytest.param(SERVER, "API.Example.Com", True, id="the host in capitals"),
        pytest.param("https://API.example.com.", "api.example.com", True, id="a host with a final dot"),
        pytest.param(SERVER, "example.com", True, id="its domain"),
        pytest.param(SERVER, ".example.com", True, id="below its domain"),
        pytest.param(SERVER, "*.example.com", True, id="below its domain with a star"),
        pytest.param("https://example.com", "example.com", True, id="a domain itself"),
        pytest.param("https://example.com", ".example.com", False, id="below is not the domain itself"),
        pytest.param("https://badexample.com", "example.com", False, id="another domain that ends alike"),
        pytest.param(SERVER, "api.example.com:6443", True, id="host and port"),
        pytest.param(SERVER, "api.example.com:443", False, id="another port"),
        pytest.param("https://api.example.com", "api.example.com:443", True, id="the port of https"),
        pytest.param(SERVER, " other , example.com ", True, id="one of several"),
        pytest.param(SERVER, ",,", False, id="nothing in it"),
        pytest.param(SERVER, ".", False, id="a dot alone"),
        pytest.param("https://10.1.2.3", "10.1.2.3", True, id="an address"),
        pytest.param("https://10.1.2.3", "10.0.0.0/8", True, id="a network"),
        pytest.param("https://10.1.2.3", "192.168.0.0/16", False, id="another network"),
        pytest.param(SERVER, "10.0.0.0/8", False, id="a network and a name"),
        pytest.param("https://10.1.2.3", "10.0.0.0/99", False, id="no network at all"),
        pytest.param("https://[fd00::1]:6443", "fd00::/8", True, id="an IPv6 network"),
        pytest.param("https://[fd00::1]:6443", "[fd00::1]:6443", True, id="an IPv6 address with a port"),
        pytest.param("https://[fd00::1]:6443", "fd00:0::1", True, id="an IPv6 address written otherwise"),
    ],
)
def test_what_is_reached_directly(server: str, exceptions: str, direct: bool) -> None:
    found = proxy_from_environment(server, {"HTTPS_PROXY": PROXY, "no_proxy": exceptions})
    assert found == ("" if direct else PROXY)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        pytest.param("socks5://p:1", r"is a SOCKS proxy \(socks5\)", id="socks"),
        pytest.param("socks5h://p:1", r"is a SOCKS proxy \(socks5h\)", id="socks with names"),
        pytest.param("ftp://p", "not the address of an http or https proxy", id="another scheme"),
        pytest.param("http://", "not the address", id="no host"),
        pytest.param("http://me:secret@p:port", "is not an address", id="no port"),
        pytest.param("http://[::1", "is not an address", id="half an address"),
    ],
)
def test_what_cannot_be_used(address: str, text: str) -> None:
    with pytest.raises(ProxyError, match=text) as error:
        checked_proxy(address)
    assert "secret" not in str(error.value)
    with pytest.raises(ProxyError, match=f"HTTPS_PROXY .*{text}"):
        proxy_from_environment(SERVER, {"HTTPS_PROXY": address})
