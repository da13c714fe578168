"""Archives that depend on the contents of their files only: sorted, of one time, owned by root."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: Begins a file that is executable.
SHEBANG: Final = b"#!"


def write_archive(path: Path, files: Mapping[str, bytes], time: int) -> None:
    """Write a compressed tar archive of the files, given by name."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mtime = time
            entry.mode = 0o755 if content.startswith(SHEBANG) else 0o644
            archive.addfile(entry, io.BytesIO(content))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=time))
