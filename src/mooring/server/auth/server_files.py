"""Files of the embedded server that need no `cryptography`: its kubeconfig, and files readable by their owner only."""

import errno
import os
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any, Final

import yaml

#: Host names of the server for clients on this machine.
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
#: Of cluster, user and context.
NAME: Final = "mooring"


def kubeconfig(*, server: str, authority: bytes, token: str) -> dict[str, Any]:
    """`server` is the URL, `authority` the CA certificate (PEM)."""
    cluster = {"server": server, "certificate-authority-data": b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }


def kubeconfig_text(config: dict[str, Any]) -> str:
    return yaml.dump(config, Dumper=yaml.CSafeDumper, sort_keys=False)


def private_folder(path: Path) -> None:
    """Create a missing folder and restrict it to its owner. Raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(path))
    path.chmod(0o700)


def write_private(path: Path, content: bytes) -> None:
    """Replace the file atomically with one of mode 0600. Missing folders are created with mode 0700."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp creates the file with mode 0600: other users can never open it.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
