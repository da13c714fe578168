"""What people choose about etcd: where it is, whom to trust, which part of it is ours.

No gRPC here, so that it costs nothing to read flags.
"""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

#: Not kube-apiserver's `/registry`: both can live in one etcd.
DEFAULT_PREFIX: Final = "/mooring"
#: Seconds; kube-apiserver's.
COMPACTION: Final = 300.0
#: Seconds until a call that etcd does not answer fails. Long enough for an election or a restart, and shorter than
#: what clients of the API wait.
PATIENCE: Final = 10.0


class BadSettings(ValueError):
    """A flag that cannot be right; the text says which and why."""


class EtcdSettings(msgspec.Struct, frozen=True):
    #: host:port of each member.
    servers: tuple[str, ...]
    #: Whether the members are spoken to over TLS; without an authority of one's own, those of gRPC are trusted.
    tls: bool = False
    authority: Path | None = None
    #: What is shown to etcd, where it asks for certificates.
    certificate: Path | None = None
    key: Path | None = None
    #: What every key of ours begins with; begins and ends with a slash.
    prefix: str = f"{DEFAULT_PREFIX}/"
    #: Seconds between two compactions, 0 to leave that to others.
    compaction: float = COMPACTION
    patience: float = PATIENCE


def etcd_settings(
    servers: str,
    *,
    authority: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    prefix: str = DEFAULT_PREFIX,
    compaction: float = COMPACTION,
) -> EtcdSettings:
    """From what the flags say. Raises BadSettings."""
    parts = [urlsplit(server.strip()) for server in servers.split(",")]
    addresses = tuple(_address(part.netloc, part.geturl()) for part in parts)
    schemes = {part.scheme for part in parts}
    if not schemes <= {"http", "https"} or any(part.path.strip("/") or part.query for part in parts):
        raise BadSettings(f"{servers}: say where etcd is as http://HOST:PORT or https://HOST:PORT, with commas between")
    if len(schemes) > 1:
        raise BadSettings(f"{servers}: all members must be spoken to in the same way, http or https")
    tls = schemes == {"https"}
    if not tls and (authority or certificate or key):
        raise BadSettings("certificates are for etcd over TLS: write https:// for http://, or leave them out")
    if (certificate is None) != (key is None):
        raise BadSettings("a certificate needs its key, and a key its certificate")
    if not prefix.strip("/"):
        raise BadSettings("the prefix must have a name, such as /mooring: all of etcd cannot be ours")
    return EtcdSettings(addresses, tls, authority, certificate, key, f"/{prefix.strip('/')}/", compaction)


def _address(netloc: str, text: str) -> str:
    try:
        parts = urlsplit(f"//{netloc}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadSettings(f"{text}: {error}") from error
    if not host or parts.username is not None:
        raise BadSettings(f"{text}: say where etcd is as http://HOST:PORT or https://HOST:PORT, with commas between")
    # etcd's port for clients.
    return f"{f'[{host}]' if ':' in host else host}:{port or 2379}"
