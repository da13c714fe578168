"""Where volumes are mounted and mounts are remembered: folders of this machine, or nothing but memory.

A kubelet finds what it had mounted in its own folders after a restart; so does the agent. What is remembered is
written before a driver is asked and forgotten after it has answered, so that nothing is mounted that nobody knows of.
"""

from pathlib import Path
from typing import Final, Protocol

import msgspec

from mooring.nodeagent.csi_mounts import Mount

_SUFFIX: Final = ".json"


class Ground(Protocol):
    root: str

    def remembered(self) -> list[Mount]: ...

    def remember(self, mount: Mount) -> None: ...

    def forget(self, mount: Mount) -> None: ...


class Memory:
    """For nodes whose drivers touch no files: what was mounted is gone with the process."""

    root = "/played"

    def remembered(self) -> list[Mount]:
        return []

    def remember(self, mount: Mount) -> None: ...

    def forget(self, mount: Mount) -> None: ...


class Folders:
    """Below `folder`: `<node>/…` for volumes, `mounts/` for what is mounted."""

    def __init__(self, folder: Path) -> None:
        self.root = str(folder.absolute())
        self._notes = folder / "mounts"
        self._notes.mkdir(mode=0o700, parents=True, exist_ok=True)

    def remembered(self) -> list[Mount]:
        notes = sorted(self._notes.glob(f"*{_SUFFIX}"))
        return [msgspec.json.decode(note.read_bytes(), type=Mount) for note in notes]

    def remember(self, mount: Mount) -> None:
        """Also makes the folders that a driver may expect to be there."""
        Path(mount.target).parent.mkdir(parents=True, exist_ok=True)
        if mount.staging:
            Path(mount.staging).mkdir(parents=True, exist_ok=True)
        note = self._note(mount)
        new = note.with_suffix(".new")
        # Not synced: this outlives the process, and a machine that goes down takes its mounts along.
        new.write_bytes(msgspec.json.encode(mount))
        new.replace(note)

    def forget(self, mount: Mount) -> None:
        self._note(mount).unlink(missing_ok=True)

    def _note(self, mount: Mount) -> Path:
        return self._notes / f"{mount.pod}.{mount.name}{_SUFFIX}"
