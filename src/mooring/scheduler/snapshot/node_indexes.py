"""Indexes over nodes: topology domains, images, taints, features, pod counts, host ports. Pure; part of the snapshot.

They know slots and plain values, not what these mean: a question about all nodes costs a few vector or set operations.
"""

from collections import defaultdict
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.api.pod_requirements import HostPort, host_ports
from mooring.api.views.core import NodeImage
from mooring.api.views.pods import Pod
from mooring.multimap import Tally
from mooring.scheduler.snapshot.resources import Vector
from mooring.volumes.topology import EMPTY, NodeChange, NodeSet, TopologyIndex, mask_of, node_set_from_mask, union

_INITIAL_SLOTS: Final = 64
#: A cluster uses a handful of topology keys.
_MAX_CACHED_KEYS: Final = 64
#: The domain number of nodes without the label, which share no domain.
_NO_DOMAIN: Final = 0


class DomainCounts(NamedTuple):
    """Pods per topology domain."""

    #: For every slot the count of its domain.
    by_slot: Vector
    #: The smallest count of a domain.
    least: float
    domains: int


class TopologyDomains:
    """Which nodes share a label value, by topology key.

    Each key that was asked for has a vector of domain numbers by slot, updated as the labels in the topology change.
    """

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._keys: dict[str, _Key] = {}
        topology.follow(self._node_changed)

    def sharing(self, key: str, nodes: NodeSet) -> NodeSet:
        """All nodes in the domains of the given nodes."""
        if not nodes:
            return nodes
        domains = self._of(key)
        return node_set_from_mask(domains.present(nodes)[domains.numbers])

    def summed(self, key: str, counts: Vector) -> Vector:
        """For every slot the sum of `counts` (by slot) over its domain; zero without the label."""
        by_slot, _ = self._of(key).sums(counts)
        return by_slot

    def counts(self, key: str, counts: Vector, nodes: NodeSet) -> DomainCounts:
        """The counts (by slot) of these nodes, summed by domain; only domains of these nodes exist."""
        domains = self._of(key)
        by_slot, sums = domains.sums(counts * mask_of(nodes, len(counts)))
        present = domains.present(nodes)
        found = int(np.count_nonzero(present))
        return DomainCounts(by_slot, float(sums[present].min()) if found else 0.0, found)

    def among(self, key: str, nodes: NodeSet) -> int:
        """The number of domains of the nodes."""
        return int(np.count_nonzero(self._of(key).present(nodes)))

    def _of(self, key: str) -> "_Key":
        known = self._keys.get(key)
        if known is None:
            if len(self._keys) >= _MAX_CACHED_KEYS:
                del self._keys[next(iter(self._keys))]
            known = self._keys[key] = _Key()
            for name in self._topology.names(self._topology.all):
                known.put(self._topology.slot(name), None, self._topology.labels(name).get(key))
        return known

    def _node_changed(self, change: NodeChange) -> None:
        before, after = change.before or {}, change.after or {}
        for key, domains in self._keys.items():
            domains.put(change.slot, before.get(key), after.get(key))


class _Key:
    """Domain numbers of one label key, by slot."""

    def __init__(self) -> None:
        self.numbers: npt.NDArray[np.int32] = np.zeros(_INITIAL_SLOTS, np.int32)
        self._number_of: dict[str, int] = {}
        self._members: Tally[str] = Tally()
        self._free: list[int] = []

    @property
    def size(self) -> int:
        """One more than the highest number ever used."""
        return len(self._number_of) + len(self._free) + 1

    def present(self, nodes: NodeSet) -> npt.NDArray[np.bool_]:
        """By number, whether one of the nodes has the value."""
        present = np.zeros(self.size, np.bool_)
        present[self.numbers[mask_of(nodes, len(self.numbers))]] = True
        present[_NO_DOMAIN] = False
        return present

    def sums(self, counts: Vector) -> tuple[Vector, npt.NDArray[Any]]:
        """The sum of `counts` (by slot) over each domain, for every slot and by number; zero without a domain."""
        numbers = self.numbers[: len(counts)]
        sums = np.bincount(numbers, weights=counts[: len(numbers)], minlength=self.size)
        sums[_NO_DOMAIN] = 0
        by_slot = np.zeros(len(counts))
        by_slot[: len(numbers)] = sums[numbers]
        return by_slot, sums

    def put(self, slot: int, before: str | None, after: str | None) -> None:
        if before == after:
            return
        if before is not None:
            self.numbers[slot] = _NO_DOMAIN
            if not self._members.add(before, -1):
                # Numbers are reused, so that replaced hosts do not grow their range.
                self._free.append(self._number_of.pop(before))
        if after is not None:
            if slot >= len(self.numbers):
                larger = np.zeros(2 * slot, np.int32)
                larger[: len(self.numbers)] = self.numbers
                self.numbers = larger
            if after not in self._number_of:
                self._number_of[after] = self._free.pop() if self._free else len(self._number_of) + 1
            self._members.add(after, 1)
            self.numbers[slot] = self._number_of[after]


class ImageIndex:
    """Nodes by image name and reported size."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[int, NodeSet]] = {}
        self._listed: dict[int, tuple[NodeImage, ...]] = {}

    def put(self, slot: int, images: tuple[NodeImage, ...]) -> None:
        """Set the images of a slot; empty for a deleted node."""
        before = self._listed.get(slot, ())
        if before == images:
            return
        bit = 1 << slot
        for name, size in _sizes(before).items():
            sizes = self._nodes[name]
            sizes[size] &= ~bit
            if not sizes[size]:
                del sizes[size]
            if not sizes:
                del self._nodes[name]
        for name, size in _sizes(images).items():
            sizes = self._nodes.setdefault(name, {})
            sizes[size] = sizes.get(size, EMPTY) | bit
        if images:
            self._listed[slot] = images
        else:
            self._listed.pop(slot, None)

    def having(self, name: str) -> Mapping[int, NodeSet]:
        """The nodes with an image, by size."""
        return self._nodes.get(name, {})


def images_of(pod: Pod) -> Iterator[str]:
    """The tagged images of a pod's init containers, containers and image volumes, each as often as used."""
    spec = pod.spec
    for container in (*spec.init_containers, *spec.containers):
        yield _tagged(container.image)
    for volume in spec.volumes:
        if volume.image is not None:
            yield _tagged(volume.image.reference)


def _tagged(name: str) -> str:
    """A colon before the last slash is of the registry's port."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _sizes(images: Iterable[NodeImage]) -> dict[str, int]:
    """The last size counts for a duplicate name."""
    return {name: image.size_bytes for image in images for name in image.names or ()}


M = TypeVar("M")


class NodesByValue(Generic[M]):
    """Nodes by a value they have, such as a taint or a declared feature: few values, many nodes."""

    def __init__(self) -> None:
        self._nodes: dict[M, NodeSet] = {}
        self._listed: dict[int, tuple[M, ...]] = {}

    def put(self, slot: int, values: tuple[M, ...]) -> None:
        """Set the values of a slot; empty for a deleted node."""
        bit = 1 << slot
        for value in self._listed.pop(slot, ()):
            self._nodes[value] &= ~bit
            if not self._nodes[value]:
                del self._nodes[value]
        unique = tuple(dict.fromkeys(values))
        for value in unique:
            self._nodes[value] = self._nodes.get(value, EMPTY) | bit
        if unique:
            self._listed[slot] = unique

    def items(self) -> ItemsView[M, NodeSet]:
        return self._nodes.items()

    def having(self, value: M) -> NodeSet:
        return self._nodes.get(value, EMPTY)


#: With at least one count per this many slots, a column takes no more memory than the dict, and is cached.
_SLOTS_PER_COUNT: Final = 12


class NodeCounts:
    """Pods (or sums of weights) by slot; `nodes` are those with a count other than zero."""

    __slots__ = ("_column", "counts", "nodes")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.nodes: NodeSet = EMPTY
        #: The counts as a column, updated once it is cached.
        self._column: Vector | None = None

    def add(self, slot: int, count: int) -> None:
        """Add a count, which may be negative."""
        total = self.counts.get(slot, 0) + count
        if total:
            self.counts[slot] = total
            self.nodes |= 1 << slot
        else:
            self.counts.pop(slot, None)
            self.nodes &= ~(1 << slot)
        if self._column is not None and slot < len(self._column):
            self._column[slot] = total

    def column(self, width: int) -> Vector:
        """The counts of the first `width` slots, which must include all counted ones. Read-only."""
        column = self._column
        if column is None or len(column) < width:
            column = np.zeros(width)
            slots = np.fromiter(self.counts.keys(), np.intp, len(self.counts))
            column[slots] = np.fromiter(self.counts.values(), np.float64, len(self.counts))
            self._column = column if width <= _SLOTS_PER_COUNT * len(self.counts) else None
        return column[:width]


class JoinedCounts:
    """The sum of several counts. Valid until one of them changes."""

    __slots__ = ("_parts", "nodes")

    def __init__(self, parts: "Sequence[NodeCounts | JoinedCounts]") -> None:
        self._parts = parts
        self.nodes: NodeSet = union(part.nodes for part in parts)

    def column(self, width: int) -> Vector:
        return sum((part.column(width) for part in self._parts), np.zeros(width))


class PortIndex:
    """Host ports in use, by protocol and number."""

    def __init__(self) -> None:
        self._used: defaultdict[tuple[str, int], dict[HostPort, NodeCounts]] = defaultdict(dict)

    def place(self, pod: Pod, slot: int, sign: int) -> None:
        """Count a pod's host ports on a node (`sign` 1), or no longer (-1)."""
        for port in host_ports(pod):
            used = self._used[port.protocol, port.port]
            counts = used.setdefault(port, NodeCounts())
            counts.add(slot, sign)
            if not counts.nodes:
                del used[port]
            if not used:
                del self._used[port.protocol, port.port]

    def conflicting(self, pod: Pod) -> NodeSet:
        """The nodes where a host port of the pod is in use."""
        return union(
            counts.nodes
            for port in host_ports(pod)
            for used, counts in self._used.get((port.protocol, port.port), {}).items()
            if port.conflicts(used)
        )
