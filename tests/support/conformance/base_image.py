"""The root of a base image with this Python, for builders that cannot reach a registry of images.

It has what `python:3.11-slim` gives to the Containerfile: `python` on the PATH with its standard library, a shell, and
the shared libraries of both and of compiled wheels. Nothing else of this machine is in it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

SHELL: Final = Path("/bin/sh")
#: Libraries that compiled wheels may expect on every Linux (manylinux), besides those of Python.
_OF_WHEELS: Final = ("libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1")
_LEFT_OUT: Final = ("site-packages", "dist-packages", "test", "__pycache__", "config-*", "*.a")


def write_root(root: Path) -> None:
    """Fill an empty folder."""
    python, library = Path(sys.executable).resolve(), Path(os.__file__).resolve().parent
    shutil.copytree(library, _inside(root, library), ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
    programs = [python, SHELL, *library.glob("lib-dynload/*.so")]
    for file in {python, SHELL, *_libraries(programs), *_libraries_of_wheels()}:
        _inside(root, file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, _inside(root, file))
    (root / "usr/local/bin").mkdir(parents=True)
    (root / "usr/local/bin/python").symlink_to(python)
    # The interpreter may lie in a folder that only its owner can enter; the image's user is another.
    for folder in (each for each in root.rglob("*") if each.is_dir() and not each.is_symlink()):
        folder.chmod(0o755)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _libraries(programs: Iterable[Path]) -> Iterator[Path]:
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    return map(Path, re.findall(r"(/\S+) \(0x", listed))


def _libraries_of_wheels() -> Iterator[Path]:
    """From the loader's cache, with what they need themselves."""
    cached = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for name in _OF_WHEELS:
        if (found := re.search(rf"\s{re.escape(name)} .* => (\S+)", cached)) is not None:
            yield Path(found[1])
            yield from _libraries([Path(found[1])])
