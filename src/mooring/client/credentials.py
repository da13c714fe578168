"""What to show with a request so that the server knows who asks, now and after it said it does not.

Three sources that may change while a process runs, a token file, a credential plugin and nothing at all, behind one
question. Nothing is shown over plain HTTP: like kubectl, never tell a secret to whoever listens.
"""

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.client.access import Access
from mooring.client.exec_plugin import Credential, ExecPlugin
from mooring.clock import Clock

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: How old a token read from a file may get; client-go's figure. A change is noticed before that, where the file
#: system tells.
TOKEN_AGE: Final = 60.0

NONE: Final = Credential()


@dataclass(frozen=True)
class Shown:
    """What one request shows of us, besides the certificate of the `Access`."""

    authorization: str = field(default="", repr=False)
    #: Where a plugin was asked: its answer, perhaps with a certificate.
    credential: Credential = NONE

    @property
    def proof(self) -> tuple[str, str]:
        """What the server judges."""
        return self.authorization, self.credential.certificate


class Credentials:
    """Those of one client. `plugin` is the one the access names, ready to run."""

    def __init__(self, access: Access, clock: Clock, plugin: ExecPlugin | None = None) -> None:
        self._file: TokenFile | None = None
        self._plugin: ExecPlugin | None = None
        self._fixed = Shown()
        if not access.encrypted:
            return
        if access.token_file is not None:
            self._file = TokenFile(access.token_file, clock)
        elif access.token:
            self._fixed = Shown(_bearer(access.token))
        elif access.username:
            pair = f"{access.username}:{access.password}".encode()
            self._fixed = Shown(f"Basic {base64.b64encode(pair).decode()}")
        elif access.plugin is not None and not access.certificate:
            self._plugin = plugin or ExecPlugin(access.plugin, clock)

    async def current(self) -> Shown:
        """Raises PluginFailed."""
        if self._plugin is not None:
            return _shown(await self._plugin.credential())
        return self._fixed if self._file is None else Shown(_bearer(self._file.current()))

    async def instead_of(self, refused: Shown) -> Shown | None:
        """What else to show after the server did not know who asks; None where there is nothing else.

        Raises PluginFailed.
        """
        if self._plugin is not None:
            other = _shown(await self._plugin.instead_of(refused.credential))
        elif self._file is not None:
            other = Shown(_bearer(self._file.read_again()))
        else:
            return None
        return None if other.proof == refused.proof else other

    async def close(self) -> None:
        if self._plugin is not None:
            await self._plugin.close()


class TokenFile:
    """The token in a file that somebody else renews."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at = float("-inf")
        self._seen: tuple[int, ...] = ()

    def current(self) -> str:
        """The token, as new as a glance at the file tells."""
        if self._clock.monotonic() - self._read_at >= TOKEN_AGE or self._look() != self._seen:
            return self.read_again()
        return self._token

    def read_again(self) -> str:
        self._read_at = self._clock.monotonic()
        self._seen = self._look()
        try:
            self._token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            log.warning("cannot read the token again, using the last one", file=str(self._path), why=str(error))
        return self._token

    def _look(self) -> tuple[int, ...]:
        """What tells one content of the file from another without reading it; Kubernetes swaps a link above it."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size


def _bearer(token: str) -> str:
    return f"Bearer {token}" if token else ""


def _shown(credential: Credential) -> Shown:
    return Shown(_bearer(credential.token), credential)
