"""How a volume gets to a pod's path: a bind mount where the process may mount, else a symbolic link.

A link serves programs on the same machine and needs no rights, but cannot be read-only and is seen as a link; a bind
mount is what a kubelet expects. `withdraw` takes either away, whichever it finds.
"""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final, Protocol

MOUNTS: Final = Path("/proc/self/mountinfo")
#: Field of a line of mountinfo that holds the mount point, counted from 0.
MOUNT_POINT: Final = 4
SECONDS: Final = 30.0


class Publisher(Protocol):
    def publish(self, source: Path, target: Path, *, read_only: bool) -> None: ...


class Links:
    def publish(self, source: Path, target: Path, *, read_only: bool) -> None:
        if target.is_symlink() and target.readlink() == source:
            return
        if target.is_dir() and not target.is_symlink():
            # Some callers make the folder themselves; one with something in it is not ours to remove.
            target.rmdir()
        target.symlink_to(source)


class BindMounts:
    def publish(self, source: Path, target: Path, *, read_only: bool) -> None:
        if mounted(target):
            return
        if source.is_dir():
            target.mkdir(exist_ok=True)
        else:
            target.touch()
        try:
            _run("mount", "--bind", "--", str(source), str(target))
            if read_only:
                _run("mount", "-o", "remount,bind,ro", "--", str(target))
        except OSError:
            withdraw(target)
            raise


def withdraw(target: Path) -> None:
    if target.is_symlink():
        target.unlink()
        return
    if mounted(target):
        _run("umount", "--", str(target))
    if target.is_dir():
        target.rmdir()
    else:
        target.unlink(missing_ok=True)


def mounted(target: Path) -> bool:
    """`os.path.ismount` does not see a bind mount from the same file system."""
    point = os.fsencode(target.parent.resolve() / target.name)
    return any(_unescaped(line.split()[MOUNT_POINT]) == point for line in MOUNTS.read_bytes().splitlines())


def can_mount() -> bool:
    """Tried, not guessed: root in a container often may not."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.mkdir()
        try:
            BindMounts().publish(source, target, read_only=True)
            withdraw(target)
        except OSError:
            return False
    return True


def _unescaped(field: bytes) -> bytes:
    """mountinfo writes blanks and backslashes as octal numbers."""
    for escaped, character in ((rb"\040", b" "), (rb"\011", b"\t"), (rb"\012", b"\n"), (rb"\134", b"\\")):
        field = field.replace(escaped, character)
    return field


def _run(*command: str) -> None:
    """Raises OSError with what the command complained about."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]} did not end within {SECONDS:g} s") from error
    if done.returncode != 0:
        raise OSError(done.stderr.strip() or f"{command[0]} ended with {done.returncode}")


_contracts: tuple[Publisher, ...] = (Links(), BindMounts())
