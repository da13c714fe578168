"""Files only their owner may read: keys, tokens, kubeconfigs."""

import os
import tempfile
from pathlib import Path


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
