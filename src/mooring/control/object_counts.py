"""Counts the entries of all containers reachable through a component's attributes, to find memory leaks.

By reflection, so that a new container is included without declaration; what components share (client, clock, informers,
event recorder) is excluded. `Metrics` exports the counts, and the simulated growth runs compare them.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mooring.client.informer import Informer, Informers
from mooring.client.recorder import EventRecorder
from mooring.control.component import Context

#: Packages whose objects are entered, and modules below them whose objects are not.
_INSIDE: Final = "mooring."
_OUTSIDE: Final = (
    "mooring.clock",
    "mooring.client.contract",
    "mooring.client.http",
    "mooring.cluster.local_client",
    "mooring.cluster.storage",
    "mooring.csi.client",
    "mooring.hostpath.",
    "support.simulation.",
)
#: Shared by all components of a process; informers and recorders are counted as roots of their own.
_SHARED: Final = (Context, Informer, Informers, EventRecorder)
#: Sequences of at most this many elements are entered without `deep` too: parts of a component.
_PARTS: Final = 64


def remembered(root: object, *, deep: bool = False) -> Mapping[str, int]:
    """Entries of the containers reachable through a component's attributes, `queue.waiting` for `root._queue._waiting`.

    Counted by reflection, so that a new container is included without declaration. Counts the length of each container,
    in time proportional to the attributes. `deep` also counts containers inside containers, in time proportional to all
    entries.
    """
    found: collections.Counter[str] = collections.Counter()
    seen: set[int] = set()
    shared = isinstance(root, _SHARED)
    # Breadth first: an object reachable on several paths is counted under its shortest name.
    pending: collections.deque[tuple[str, object]] = collections.deque([("", root)])
    while pending:
        path, thing = pending.popleft()
        if id(thing) in seen or (not shared and path and isinstance(thing, _SHARED)):
            continue
        if isinstance(thing, dict | list | set | collections.deque):
            seen.add(id(thing))
            found[path] += len(thing)
            if deep or len(thing) <= _PARTS:
                elements: Iterable[object] = thing.values() if isinstance(thing, dict) else thing
                pending += ((path, each) for each in elements if _is_entered(each))
        elif isinstance(thing, tuple):
            seen.add(id(thing))
            if deep or len(thing) <= _PARTS:
                pending += ((path, each) for each in thing if _is_entered(each))
        elif isinstance(thing, MethodType | FunctionType | partial):
            if shared:  # subscribers
                continue
            seen.add(id(thing))
            pending += ((path, each) for each in _captured(thing))
        elif _is_entered(thing):
            seen.add(id(thing))
            pending += ((f"{path}.{name}".strip("."), value) for name, value in _attributes(thing))
    return found


def _is_entered(thing: object) -> bool:
    if isinstance(thing, dict | list | set | collections.deque | tuple | MethodType | FunctionType | partial):
        return True
    kind = type(thing)
    if not kind.__module__.startswith(_INSIDE) or kind.__module__.startswith(_OUTSIDE):
        return False
    # Immutable values, such as views: their container is counted.
    if isinstance(thing, msgspec.Struct):
        return not thing.__struct_config__.frozen
    return not (is_dataclass(thing) and kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _captured(function: MethodType | FunctionType | partial[object]) -> Iterator[object]:
    """Objects that a callback references: parts of a component are often linked by functions only."""
    if isinstance(function, MethodType):
        yield function.__self__
    elif isinstance(function, partial):
        yield from (function.func, *function.args, *function.keywords.values())
    elif function.__module__.startswith(_INSIDE):
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not assigned yet
                continue


def _attributes(thing: object) -> Iterator[tuple[str, object]]:
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                yield name.strip("_"), getattr(thing, name)
    if isinstance(thing, msgspec.Struct):
        return
    for name, value in getattr(thing, "__dict__", {}).items():
        yield name.strip("_"), value


class ObjectCounts(Collector):
    """The gauge `mooring_remembered_objects`, to find memory leaks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._roots: dict[str, object] = {}
        registry.register(self)

    def add(self, component: str, root: object) -> None:
        """Count the component at every scrape."""
        self._roots[component] = root

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "mooring_remembered_objects",
            "Entries that a component keeps in memory, by component and attribute. A value that only grows is a leak.",
            labels=["component", "what"],
        )
        for component, root in self._roots.items():
            by_attribute: collections.Counter[str] = collections.Counter()
            for path, count in remembered(root).items():
                by_attribute[path.partition(".")[0] or "all"] += count
            for what, count in sorted(by_attribute.items()):
                family.add_metric([component, what], count)
        yield family
