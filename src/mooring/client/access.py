"""How to reach and authenticate to an API server: address, TLS, proxy, and credentials that may change at run time.

No credentials are sent over plain HTTP, as in kubectl. Proxy rules (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`, loopback)
are kubectl's too.
"""

import base64
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.client.exec_plugin import Credential, ExecPlugin, PluginCommand
from mooring.clock import Clock


@dataclass(frozen=True)
class Impersonation:
    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Access:
    """One server, one identity. Its repr contains no secrets."""

    #: `https://host:port`, optionally with a path before `/api`.
    server: str
    #: Default namespace of commands.
    namespace: str = "default"
    #: PEM; empty for the machine's trust store.
    authority: str = ""
    #: Name in the server's certificate if it differs from the address.
    server_name: str = ""
    #: Skip verification of the server's certificate.
    insecure: bool = False
    #: Proxy URL, may contain a password; empty without a proxy.
    proxy: str = field(default="", repr=False)
    #: Whether the server may compress responses.
    compression: bool = True
    #: PEM; both or none.
    certificate: str = ""
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    #: Has precedence over `token`; re-read when it changes.
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    #: Used without certificate, token and username only.
    plugin: PluginCommand | None = None
    impersonation: Impersonation | None = None

    @property
    def encrypted(self) -> bool:
        return self.server.startswith("https://")

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context, or None for plain HTTP. Raises ssl.SSLError or ValueError for broken certificates."""
        if not self.encrypted:
            return None
        context = ssl.create_default_context(cadata=self.authority or None)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            # The ssl module reads the pair from files only.
            with tempfile.NamedTemporaryFile("w", prefix="mooring-", suffix=".pem") as pair:
                pair.write(f"{self.certificate}\n{self.key}\n")
                pair.flush()
                # The empty password makes an encrypted key an error; without it OpenSSL would ask the terminal.
                context.load_cert_chain(pair.name, password="")
        return context


log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Maximum age of a token read from a file, as client-go. Changes of the file's metadata are noticed before.
TOKEN_AGE: Final = 60.0

NONE: Final = Credential()


@dataclass(frozen=True)
class RequestCredentials:
    """Credentials of one request, in addition to the certificate of the `Access`."""

    authorization: str = field(default="", repr=False)
    #: Of the credential plugin, if any; may contain a certificate.
    credential: Credential = NONE

    @property
    def fingerprint(self) -> tuple[str, str]:
        return self.authorization, self.credential.certificate


class Credentials:
    """Credentials of one client. `plugin` replaces the one built from `access.plugin`."""

    def __init__(self, access: Access, clock: Clock, plugin: ExecPlugin | None = None) -> None:
        self._file: TokenFile | None = None
        self._plugin: ExecPlugin | None = None
        self._fixed = RequestCredentials()
        if not access.encrypted:
            return
        if access.token_file is not None:
            self._file = TokenFile(access.token_file, clock)
        elif access.token:
            self._fixed = RequestCredentials(_bearer(access.token))
        elif access.username:
            pair = f"{access.username}:{access.password}".encode()
            self._fixed = RequestCredentials(f"Basic {base64.b64encode(pair).decode()}")
        elif access.plugin is not None and not access.certificate:
            self._plugin = plugin or ExecPlugin(access.plugin, clock)

    async def current(self) -> RequestCredentials:
        """Raises PluginFailed."""
        if self._plugin is not None:
            return _shown(await self._plugin.credential())
        return self._fixed if self._file is None else RequestCredentials(_bearer(self._file.current()))

    async def refresh_after_unauthorized(self, refused: RequestCredentials) -> RequestCredentials | None:
        """Credentials to retry with after 401; None if there are no others. Raises PluginFailed."""
        if self._plugin is not None:
            other = _shown(await self._plugin.refresh_after_unauthorized(refused.credential))
        elif self._file is not None:
            other = RequestCredentials(_bearer(self._file.read_again()))
        else:
            return None
        return None if other.fingerprint == refused.fingerprint else other

    async def close(self) -> None:
        if self._plugin is not None:
            await self._plugin.close()


class TokenFile:
    """A token in a file that another process renews."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at = float("-inf")
        self._seen: tuple[int, ...] = ()

    def current(self) -> str:
        """The token, re-read if the file's metadata changed."""
        if self._clock.monotonic() - self._read_at >= TOKEN_AGE or self._stat() != self._seen:
            return self.read_again()
        return self._token

    def read_again(self) -> str:
        self._read_at = self._clock.monotonic()
        self._seen = self._stat()
        try:
            self._token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            log.warning("token file not readable; using the previous token", file=str(self._path), error=str(error))
        return self._token

    def _stat(self) -> tuple[int, ...]:
        """Identifies the file's content; Kubernetes replaces a symbolic link above it."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size


def _bearer(token: str) -> str:
    return f"Bearer {token}" if token else ""


def _shown(credential: Credential) -> RequestCredentials:
    return RequestCredentials(_bearer(credential.token), credential)


#: Proxy schemes that aiohttp supports.
SCHEMES: Final = ("http", "https")
_PORTS: Final = {"http": 80, "https": 443}

Address = IPv4Address | IPv6Address


class ProxyError(ValueError):
    """Unusable proxy. The text completes a sentence about its origin and contains no password."""


def checked_proxy(address: str) -> str:
    """The address, validated. Raises ProxyError."""
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


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str:
    """The proxy of the environment for this server, or "". Raises ProxyError."""
    url = urlsplit(server)
    variable = f"{url.scheme}_proxy"
    address = _either(environ, variable)
    if not address or _is_direct(url, _either(environ, "no_proxy")):
        return ""
    # `host:port` without a scheme means http, as in other Unix tools.
    try:
        return checked_proxy(address if "://" in address else f"http://{address}")
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
    """Whether an entry of `NO_PROXY` (address, network or domain, optionally with a port) matches this host."""
    if rule == "*":
        return True
    if "/" in rule:
        try:
            return address is not None and address in ip_network(rule, strict=False)
        except ValueError:
            return False
    name, rule_port = _split_port(rule)
    if rule_port and rule_port != str(port):
        return False
    if (rule_address := _address(name)) is not None:
        return rule_address == address
    # `.example.com` and `*.example.com` match subdomains, `example.com` the domain too.
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
