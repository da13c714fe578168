"""The locked packages as files, so that every way to install Mooring gets exactly these, from a folder and no index.

pip downloads them once, as it is configured on this machine, and verifies their hashes; they lie in Mooring's cache
beside the binaries of Kubernetes (`MOORING_CACHE`). Another lock file is another folder.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
#: What Mooring needs, and the tools that install it.
LOCKS: Final = (ROOT / "requirements.lock", ROOT / "conformance" / "installers" / "requirements.lock")
DOWNLOAD_SECONDS: Final = 300


def wheelhouse() -> Path:
    """The folder of packages, downloaded if it is missing. Raises LookupError with pip's last line."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("MOORING_CACHE") or caches / "mooring")
    # Wheels with compiled parts depend on the interpreter.
    locks = b"".join(lock.read_bytes() for lock in LOCKS) + (sysconfig.get_config_var("EXT_SUFFIX") or "").encode()
    folder = cache / "wheels" / hashlib.sha256(locks).hexdigest()[:16]
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = tempfile.mkdtemp(dir=folder.parent, prefix=".partial-")
    try:
        for lock in LOCKS:
            _download(lock, partial)
        # Another test process may have been faster.
        if not folder.exists():
            os.chmod(partial, 0o755)
            Path(partial).rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _download(lock: Path, folder: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "-q", "--require-hashes", "-r", str(lock), "-d", folder]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        raise LookupError(str(error.stderr).strip().rpartition("\n")[2]) from error
    except subprocess.TimeoutExpired as error:
        raise LookupError(f"no download within {DOWNLOAD_SECONDS} s") from error
