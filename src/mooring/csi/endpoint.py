"""Where a CSI driver listens: a Unix socket, written in any of the ways CSI tools write it.

Pure parsing; nothing here looks at the file system.
"""

from pathlib import Path
from typing import Final

#: `sun_path` holds 108 bytes on Linux, the last one is zero.
PATH_BYTES: Final = 107


class BadEndpoint(ValueError):
    """A sentence for whoever wrote the address."""


def socket_path(endpoint: str) -> Path:
    """`unix:///run/csi.sock`, `unix:/run/csi.sock` or `/run/csi.sock`; relative paths are taken from here."""
    scheme, colon, rest = endpoint.partition("://")
    if colon and scheme != "unix":
        raise BadEndpoint(f"{endpoint} is not a Unix socket: CSI endpoints here are unix:///path/to/csi.sock")
    text = rest if colon else endpoint.removeprefix("unix:")
    if not text:
        raise BadEndpoint(f"{endpoint!r} names no socket: write unix:///path/to/csi.sock")
    path = Path(text).absolute()
    if len(str(path).encode()) > PATH_BYTES:
        raise BadEndpoint(f"{path} is longer than the {PATH_BYTES} bytes a Unix socket's path may have")
    return path
