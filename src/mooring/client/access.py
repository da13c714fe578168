"""Where an API server is and how to show it who one is.

What `kubeconfig` finds out and `http` uses: an address, what to trust, and a client certificate or a bearer token.
Plain data plus the two things that must be made from it, a TLS context and the current token.
"""

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.clock import Clock

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: How old a token read from a file may get; client-go's figure. Kubernetes renews them every hour or so.
TOKEN_AGE: Final = 60.0


@dataclass(frozen=True)
class Access:
    """One server, one identity. Secrets stay out of its repr."""

    #: `https://host:port`, perhaps with a path before `/api`.
    server: str
    #: The namespace commands use when none is named.
    namespace: str = "default"
    #: PEM; empty means what the machine trusts.
    authority: str = ""
    #: The name the server's certificate must carry, if not the address.
    server_name: str = ""
    #: Whether to talk to a server whose certificate was not checked.
    insecure: bool = False
    #: PEM; both or none.
    certificate: str = ""
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    #: Wins over `token`, and is read again and again.
    token_file: Path | None = None

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context, or None for plain HTTP. Raises ssl.SSLError or ValueError for broken certificates."""
        if not self.server.startswith("https://"):
            return None
        context = ssl.create_default_context(cadata=self.authority or None)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            # The ssl module takes the pair from files only; this one lives no longer than it takes.
            with tempfile.NamedTemporaryFile("w", prefix="mooring-", suffix=".pem") as pair:
                pair.write(f"{self.certificate}\n{self.key}\n")
                pair.flush()
                # The empty password makes an encrypted key an error; without it OpenSSL would ask the terminal.
                context.load_cert_chain(pair.name, password="")
        return context


class Token:
    """The bearer token to send right now.

    None over plain HTTP: like kubectl, never show a secret to whoever listens.
    """

    def __init__(self, access: Access, clock: Clock) -> None:
        self._clock = clock
        self._text = access.token
        self._file = access.token_file
        self._sent = access.server.startswith("https://")
        self._read_at: float | None = None

    def current(self) -> str:
        """The token, or an empty string when there is none to send."""
        if not self._sent:
            return ""
        now = self._clock.monotonic()
        if self._file is not None and (self._read_at is None or now - self._read_at >= TOKEN_AGE):
            self._read_at = now
            try:
                self._text = self._file.read_text().strip()
            except OSError as error:
                log.warning("cannot read the token again, using the last one", file=str(self._file), why=str(error))
        return self._text
