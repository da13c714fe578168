"""Where an API server is and how to show it who one is.

What `kubeconfig` finds out and `http` uses: an address and the way to it, what to trust, and one or more ways to
prove who asks. Plain data, plus the TLS context that is made from it.
"""

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from mooring.client.exec_plugin import PluginCommand


@dataclass(frozen=True)
class Impersonation:
    """Whom to act as, for those who may."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


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
    #: Where the server is reached through; empty for directly. May carry a password.
    proxy: str = field(default="", repr=False)
    #: Whether the server may compress what it sends.
    compression: bool = True
    #: PEM; both or none.
    certificate: str = ""
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    #: Wins over `token`, and is read again when it changes.
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    #: Asked where there is neither certificate nor token nor username.
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
            # The ssl module takes the pair from files only; this one lives no longer than it takes.
            with tempfile.NamedTemporaryFile("w", prefix="mooring-", suffix=".pem") as pair:
                pair.write(f"{self.certificate}\n{self.key}\n")
                pair.flush()
                # The empty password makes an encrypted key an error; without it OpenSSL would ask the terminal.
                context.load_cert_chain(pair.name, password="")
        return context
