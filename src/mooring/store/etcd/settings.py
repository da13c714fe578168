"""Settings of the etcd store: endpoints, TLS files, key prefix. Without gRPC, so that parsing flags stays cheap."""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

#: Not kube-apiserver's `/registry`: both can share one etcd.
DEFAULT_PREFIX: Final = "/mooring"
#: kube-apiserver's.
COMPACTION_SECONDS: Final = 300.0
#: Longer than a leader election or a restart of etcd, shorter than the timeouts of API clients.
REQUEST_TIMEOUT_SECONDS: Final = 10.0


class BadSettings(ValueError):
    """An invalid flag; the text names it."""


class EtcdSettings(msgspec.Struct, frozen=True):
    #: host:port of each member.
    servers: tuple[str, ...]
    tls: bool = False
    #: CA certificates; None trusts those of gRPC.
    authority: Path | None = None
    #: Client certificate.
    certificate: Path | None = None
    key: Path | None = None
    #: Begins and ends with a slash.
    prefix: str = f"{DEFAULT_PREFIX}/"
    #: Seconds between two compactions, 0 to leave compaction to another process.
    compaction: float = COMPACTION_SECONDS
    request_timeout: float = REQUEST_TIMEOUT_SECONDS


def etcd_settings(
    servers: str,
    *,
    authority: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    prefix: str = DEFAULT_PREFIX,
    compaction: float = COMPACTION_SECONDS,
) -> EtcdSettings:
    """Settings from the values of the flags. Raises BadSettings."""
    parts = [urlsplit(server.strip()) for server in servers.split(",")]
    addresses = tuple(_address(part.netloc, part.geturl()) for part in parts)
    schemes = {part.scheme for part in parts}
    if not schemes <= {"http", "https"} or any(part.path.strip("/") or part.query for part in parts):
        raise BadSettings(_expected_format(servers))
    if len(schemes) > 1:
        raise BadSettings(f"{servers}: all members must use the same scheme, http or https")
    tls = schemes == {"https"}
    if not tls and (authority or certificate or key):
        raise BadSettings("certificates require TLS: use https:// addresses, or omit the certificates")
    if (certificate is None) != (key is None):
        raise BadSettings("the client certificate and its key must be set together")
    if not prefix.strip("/"):
        raise BadSettings("the prefix must not be empty or /: use a name such as /mooring")
    return EtcdSettings(addresses, tls, authority, certificate, key, f"/{prefix.strip('/')}/", compaction)


def _address(netloc: str, text: str) -> str:
    try:
        parts = urlsplit(f"//{netloc}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadSettings(f"{text}: {error}") from error
    if not host or parts.username is not None:
        raise BadSettings(_expected_format(text))
    # etcd's port for clients.
    return f"{f'[{host}]' if ':' in host else host}:{port or 2379}"


def _expected_format(text: str) -> str:
    return f"{text}: expected http://HOST:PORT or https://HOST:PORT, comma-separated"
