"""The certificates of an embedded server, kept in a folder.

Taken up again at the next start, so that kubeconfigs stay good: the authority as long as it is valid, the server's
own certificate until it nears its end or no longer fits. Clients may show certificates signed by the same authority
(common name = user, organisations = groups); issuing those is not done here.
"""

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from mooring.clock import Clock
from mooring.server.private_files import write_private

if TYPE_CHECKING:
    from mooring.server.certificate_authority import KeyPair

#: How clients on this machine name the server.
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")

#: A certificate this close to its end is replaced at start: a server may run for weeks.
REMAINING: Final = timedelta(days=30)

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Certificates:
    """Where they lie, each with its key beside it."""

    directory: Path

    @property
    def authority(self) -> Path:
        """What clients check the server against, and the server its clients."""
        return self.directory / "ca.crt"

    @property
    def server(self) -> Path:
        return self.directory / "server.crt"

    def tls_context(self) -> ssl.SSLContext:
        """For the listener: shows our certificate, and checks those of clients that show one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server, _key_of(self.server))
        context.load_verify_locations(self.authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def ensure_certificates(directory: Path, *, clock: Clock, names: Sequence[str] = LOCAL_NAMES) -> Certificates:
    """What is in the folder where it is still good, newly made where not."""
    # Here and not above: it brings in `cryptography`, which most commands do without.
    from mooring.server.certificate_authority import new_authority, new_server_certificate

    files = Certificates(directory)
    now = datetime.fromtimestamp(clock.now(), UTC)
    authority = _kept(
        files.authority,
        is_good=lambda pair: pair.is_good(now, remaining=REMAINING),
        make=lambda: new_authority(now),
    )
    _kept(
        files.server,
        is_good=lambda pair: pair.is_good(now, remaining=REMAINING) and pair.serves(names, authority),
        make=lambda: new_server_certificate(authority, names, now),
    )
    return files


def _kept(file: Path, *, is_good: Callable[["KeyPair"], bool], make: Callable[[], "KeyPair"]) -> "KeyPair":
    """The pair in the file if it is good, else a new one, saved."""
    pair = _load(file)
    if pair is None or not is_good(pair):
        pair = make()
        write_private(_key_of(file), pair.key_pem())
        write_private(file, pair.certificate_pem())
    return pair


def _load(file: Path) -> "KeyPair | None":
    from mooring.server.certificate_authority import KeyPair, Unusable

    try:
        return KeyPair.from_pem(file.read_bytes(), _key_of(file).read_bytes())
    except FileNotFoundError:
        return None
    except Unusable as error:
        # Also what a start leaves behind that was interrupted between writing the two files.
        _log.warning("replacing an unusable certificate", file=str(file), why=str(error))
        return None


def _key_of(file: Path) -> Path:
    return file.with_suffix(".key")
