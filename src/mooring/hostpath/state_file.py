"""The ledger in one JSON file that is always whole: written beside, synced, renamed, and the folder synced.

The file is rewritten on every change, which is right for the thousands of volumes one machine has, and readable for
whoever must repair it by hand. A lock keeps a second driver off the same folder.
"""

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final

import msgspec

from mooring.hostpath.durability import sync_folder
from mooring.hostpath.ledger import Kept

NAME: Final = "state.json"


class StateUnusable(Exception):
    """A sentence for whoever started the driver."""


class StateFile:
    """`open` before use, `close` at the end; the system lifts the lock when the process dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / NAME
        self._lock: int | None = None

    def open(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateUnusable(f"cannot use {self._folder}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise StateUnusable(f"another driver uses {self._folder}: give each its own --state-dir") from error
        self._lock = lock

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def load(self) -> Kept:
        return await asyncio.to_thread(self._load)

    async def save(self, kept: Kept) -> None:
        await asyncio.to_thread(self._save, msgspec.json.format(msgspec.json.encode(kept), indent=1))

    def _load(self) -> Kept:
        try:
            content = self._file.read_bytes()
        except FileNotFoundError:
            return Kept()
        try:
            return msgspec.json.decode(content, type=Kept)
        except msgspec.DecodeError as error:
            raise StateUnusable(
                f"{self._file} is damaged: {error}; repair it, or move it away to start anew"
            ) from error

    def _save(self, content: bytes) -> None:
        beside = self._file.with_suffix(".partial")
        with open(beside, "wb", opener=_private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._file)
        sync_folder(self._folder)


def _private(path: str, flags: int) -> int:
    """Volume ids are what keeps other users of the machine out of the volumes."""
    return os.open(path, flags, 0o600)
