"""Who the extender is to kube-scheduler, and whom it takes for kube-scheduler: certificates in files.

Read for `extender_door` when it opens, and again when they were renewed. Making them is not done here.
"""

import contextlib
import ssl
from dataclasses import dataclass
from pathlib import Path

#: Of each file when it was written, and which one it is.
Stamps = list[tuple[int, int]]


class Unusable(ValueError):
    """Certificates that cannot be used, or an address nobody may listen on with those; one sentence."""


@dataclass(frozen=True)
class Credentials:
    """Who we are, and whose word we take for who a caller is; all of it PEM files."""

    certificate: Path
    key: Path
    #: Callers must show a certificate of this authority. None lets everybody in, which is for loopback only.
    client_authority: Path | None = None
    #: Common names callers may have; empty for any that the authority gave out.
    client_names: frozenset[str] = frozenset()

    def context(self) -> ssl.SSLContext:
        """Raises Unusable."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """For whoever connects from now on. Authorities are added to those it has. Raises Unusable."""
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            raise Unusable(f"{self.certificate} and {self.key} are not a certificate and its key: {error}.") from error
        if self.client_authority is not None:
            try:
                context.load_verify_locations(self.client_authority)
            except (OSError, ValueError) as error:
                raise Unusable(f"{self.client_authority} holds no certificates: {error}.") from error
            context.verify_mode = ssl.CERT_REQUIRED

    def stamps(self) -> Stamps:
        """Which say whether files have changed; a file that cannot be looked at has none."""
        found: Stamps = []
        for file in (self.certificate, self.key, self.client_authority):
            with contextlib.suppress(OSError):
                if file is not None:
                    status = file.stat()
                    found.append((status.st_mtime_ns, status.st_ino))
        return found
