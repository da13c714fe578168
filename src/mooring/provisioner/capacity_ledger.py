"""Which capacity entries are wanted, and which objects stand for them.

Pure: fed with classes, segments and objects as they change; every feed answers with the entries that may have to be
looked at. What is wanted is every segment with every class of the driver whose volumes wait for a consumer.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mooring.api.views.storage import StorageCapacity, StorageClass
from mooring.provisioner.capacity_objects import Entry, entry_of
from mooring.provisioner.eligibility import IMMEDIATE
from mooring.provisioner.segments import Segment


class Figures(NamedTuple):
    """How many objects there should be, how many of those there are, and how many there are too many."""

    goal: int
    current: int
    obsolete: int


class Ledger:
    def __init__(self, driver: str, *, for_immediate_binding: bool = False) -> None:
        self._driver = driver
        self._for_immediate_binding = for_immediate_binding
        self._classes: dict[str, StorageClass] = {}
        self._segments: frozenset[Segment] = frozenset()
        self._objects: dict[Entry, dict[str, StorageCapacity]] = {}
        #: Objects of ours with a selector that we do not write.
        self._strays: dict[str, StorageCapacity] = {}

    def observe_class(self, before: StorageClass | None, after: StorageClass | None) -> set[Entry]:
        name = (after or before or StorageClass()).name
        if after is not None and self._counts(after):
            self._classes[name] = after
        elif self._classes.pop(name, None) is None:
            return set()
        of_class = {entry for entry in self._objects if entry.storage_class == name}
        return of_class | {Entry(segment, name) for segment in self._segments}

    def observe_segments(self, now: frozenset[Segment]) -> set[Entry]:
        changed = now ^ self._segments
        self._segments = now
        gone = {entry for entry in self._objects if entry.segment not in now}
        return gone | {Entry(segment, name) for segment in changed for name in self._classes}

    def observe_object(self, before: StorageCapacity | None, after: StorageCapacity | None) -> set[Entry]:
        """A change the watch showed; what needs a look because something is missing, obsolete or there twice."""
        touched: set[Entry] = set()
        for found, put in ((before, False), (after, True)):
            entry = entry_of(found) if found is not None else None
            if found is None:
                continue
            if entry is None:
                self._file_stray(found, put)
            elif put:
                self._put(entry, found)
                touched.add(entry)
            else:
                self.forget(entry, found)
                touched.add(entry)
        return {entry for entry in touched if not self._settled(entry)}

    def learn(self, entry: Entry, written: StorageCapacity) -> None:
        """What an own write returned; the watch shows it only later."""
        self._put(entry, written)

    def forget(self, entry: Entry, found: StorageCapacity) -> None:
        objects = self._objects.get(entry, {})
        objects.pop(found.name, None)
        if not objects:
            self._objects.pop(entry, None)

    def wanted(self) -> set[Entry]:
        return {Entry(segment, name) for segment in self._segments for name in self._classes}

    def class_of(self, entry: Entry) -> StorageClass | None:
        """The entry's class; None where the entry is not wanted."""
        return self._classes.get(entry.storage_class) if entry.segment in self._segments else None

    def objects(self, entry: Entry) -> list[StorageCapacity]:
        """The oldest first: it is the one to keep."""
        found = self._objects.get(entry, {}).values()
        return sorted(found, key=lambda each: (each.metadata.creation_timestamp or "", each.name))

    def strays(self) -> list[StorageCapacity]:
        return list(self._strays.values())

    def of_segments(self, segments: Iterable[Segment]) -> set[Entry]:
        """All classes of these segments, as far as there are such."""
        return {Entry(segment, name) for segment in segments if segment in self._segments for name in self._classes}

    def of_class(self, storage_class: str) -> set[Entry]:
        return {Entry(segment, storage_class) for segment in self._segments if storage_class in self._classes}

    def figures(self) -> Figures:
        wanted = self.wanted()
        current = sum(1 for entry in wanted if entry in self._objects)
        there = sum(len(objects) for objects in self._objects.values()) + len(self._strays)
        return Figures(len(wanted), current, there - current)

    def _counts(self, storage_class: StorageClass) -> bool:
        # A mode that nobody has set counts, as upstream; immediate classes are nobody's choice of a node.
        mode_counts = self._for_immediate_binding or storage_class.volume_binding_mode != IMMEDIATE
        return storage_class.provisioner == self._driver and mode_counts

    def _settled(self, entry: Entry) -> bool:
        wanted = self.class_of(entry) is not None
        return len(self._objects.get(entry, {})) == (1 if wanted else 0)

    def _put(self, entry: Entry, found: StorageCapacity) -> None:
        objects = self._objects.setdefault(entry, {})
        known = objects.get(found.name)
        if known is None or int(known.metadata.resource_version) < int(found.metadata.resource_version):
            objects[found.name] = found

    def _file_stray(self, found: StorageCapacity, put: bool) -> None:
        if put:
            self._strays[found.name] = found
        else:
            self._strays.pop(found.name, None)
