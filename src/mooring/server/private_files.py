"""Files only their owner may read: keys, tokens, kubeconfigs."""

import errno
import os
import tempfile
from pathlib import Path


def private_folder(path: Path) -> None:
    """Make the folder, if it is missing, and see that it is for its owner alone. Raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(path))
    path.chmod(0o700)


def write_private(path: Path, content: bytes) -> None:
    """Replace the file in one step with one of mode 0600: readers see the old content or the new, never a part.

    Missing folders are made for the owner alone.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file with mode 0600 from the start, so there is no moment at which others could open it.
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
