"""All records of a driver, with the sums and names that decisions ask for, kept while records change.

Decisions only read it; the driver alone writes, and keeps what it wrote in a `state` store. No I/O here.
"""

from collections import Counter
from collections.abc import Mapping
from random import Random

import msgspec

from mooring.hostpath.records import Volume


class Kept(msgspec.Struct, frozen=True):
    """The ledger as a store keeps it. `serial` counts the ids ever given, so that none is given twice."""

    serial: int = 0
    volumes: tuple[Volume, ...] = ()


class Ledger:
    def __init__(self, kept: Kept) -> None:
        self._serial = kept.serial
        self._volumes: dict[str, Volume] = {}
        self._by_name: dict[str, str] = {}
        self._used: Counter[tuple[frozenset[tuple[str, str]], str]] = Counter()
        self._attached: Counter[str] = Counter()
        self._staged: Counter[str] = Counter()
        for volume in kept.volumes:
            self.put(volume)

    @property
    def serial(self) -> int:
        """How many ids were ever given."""
        return self._serial

    def volumes(self) -> list[Volume]:
        """In the order of their ids."""
        return [self._volumes[volume_id] for volume_id in sorted(self._volumes)]

    def get(self, volume_id: str) -> Volume | None:
        return self._volumes.get(volume_id)

    def named(self, name: str) -> Volume | None:
        """The volume created under that name; inline volumes have none."""
        volume_id = self._by_name.get(name)
        return None if volume_id is None else self._volumes[volume_id]

    def used(self, segments: Mapping[str, str], pool: str) -> int:
        """Bytes taken from a pool of a site."""
        return self._used[_place(segments), pool]

    def attached_to(self, node: str) -> int:
        """How many volumes."""
        return self._attached[node]

    def staged_on(self, node: str) -> int:
        """How many volumes."""
        return self._staged[node]

    def new_id(self, chance: Random) -> str:
        """The number makes it unique here, the random part everywhere else."""
        self._serial += 1
        return f"v{self._serial:06d}-{chance.getrandbits(64):016x}"

    def put(self, volume: Volume) -> None:
        self.drop(volume.volume_id)
        self._volumes[volume.volume_id] = volume
        self._count(volume, 1)
        if not volume.inline:
            self._by_name[volume.name] = volume.volume_id

    def drop(self, volume_id: str) -> None:
        volume = self._volumes.pop(volume_id, None)
        if volume is None:
            return
        self._count(volume, -1)
        if not volume.inline:
            del self._by_name[volume.name]

    def _count(self, volume: Volume, times: int) -> None:
        self._used[_place(volume.segments), volume.pool] += times * volume.cost
        for attachment in volume.attached:
            self._attached[attachment.node] += times
        for staging in volume.staged:
            self._staged[staging.node] += times


def _place(segments: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(segments.items())
