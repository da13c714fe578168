"""Which proxy leads to a server: what the kubeconfig says, else what the environment says, as kubectl reads both.

`HTTPS_PROXY` is for https servers and `HTTP_PROXY` for http ones, in capitals or not; `NO_PROXY` and this machine
itself are reached directly. Pure: no socket is opened, no name looked up.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

#: What aiohttp can go through.
SCHEMES: Final = ("http", "https")
_PORTS: Final = {"http": 80, "https": 443}

Address = IPv4Address | IPv6Address


class ProxyError(ValueError):
    """A proxy that cannot be used. The text says why, not where it was named; it quotes no password."""


def checked(address: str) -> str:
    """The address of a proxy, once it has proved to be one that can be used. Raises ProxyError."""
    try:
        url = urlsplit(address)
        usable = url.scheme in SCHEMES and bool(url.hostname) and url.port != 0
    except ValueError as error:
        raise ProxyError("is not an address: write it like http://host:3128") from error
    if url.scheme.startswith("socks"):
        raise ProxyError(f"is a SOCKS proxy ({url.scheme}), which Mooring cannot use: name an http or https proxy")
    if not usable:
        raise ProxyError("is not the address of an http or https proxy: write it like http://host:3128")
    return address


def from_environment(server: str, environ: Mapping[str, str]) -> str:
    """The proxy the environment wants for this server, or an empty string. Raises ProxyError."""
    url = urlsplit(server)
    variable = f"{url.scheme}_proxy"
    address = _either(environ, variable)
    if not address or _is_direct(url, _either(environ, "no_proxy")):
        return ""
    # As everywhere in the Unix world, `host:port` alone means http.
    try:
        return checked(address if "://" in address else f"http://{address}")
    except ProxyError as error:
        raise ProxyError(f"{variable.upper()} {error}") from error


def _either(environ: Mapping[str, str], variable: str) -> str:
    return environ.get(variable.upper()) or environ.get(variable) or ""


def _is_direct(url: SplitResult, exceptions: str) -> bool:
    host = (url.hostname or "").rstrip(".")
    port = url.port or _PORTS[url.scheme]
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    rules = (rule.strip().lower() for rule in exceptions.split(","))
    return any(_excepts(rule, host, address, port) for rule in rules if rule)


def _excepts(rule: str, host: str, address: Address | None, port: int) -> bool:
    """Whether one entry of `NO_PROXY` is about this host: an address, a network, a domain, each perhaps with a port."""
    if rule == "*":
        return True
    if "/" in rule:
        try:
            return address is not None and address in ip_network(rule, strict=False)
        except ValueError:
            return False
    name, wanted_port = _split_port(rule)
    if wanted_port and wanted_port != str(port):
        return False
    if (wanted := _address(name)) is not None:
        return wanted == address
    # `.example.com` and `*.example.com` are what is below a domain, `example.com` is the domain as well.
    below = name.removeprefix("*").removeprefix(".")
    return bool(below) and (host.endswith(f".{below}") or (host == below and name == below))


def _split_port(rule: str) -> tuple[str, str]:
    if rule.startswith("["):
        name, _, rest = rule[1:].partition("]")
        return name, rest.removeprefix(":")
    if rule.count(":") == 1:
        name, _, port = rule.partition(":")
        return name, port
    return rule, ""


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
