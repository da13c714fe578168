"""How much a component remembers: entries of the containers that are reachable through its attributes.

Counted, not declared: a container that a component grows tomorrow is in the count without a line of code, so what is
never forgotten shows as a figure that grows, in metrics and in the simulated world. What a component shares with others
(client, clock, informers, event recorder) is not its own; informers and recorders are counted as roots of their own.
"""

import dataclasses
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mooring.client.informer import Informer, Informers
from mooring.client.recorder import EventRecorder
from mooring.control.component import Context

#: Packages whose objects are ours to look into, and modules below them that are not: the outside world.
_INSIDE: Final = "mooring."
_OUTSIDE: Final = (
    "mooring.clock",
    "mooring.client.contract",
    "mooring.client.http",
    "mooring.cluster.local_client",
    "mooring.cluster.storage",
    "mooring.csi.channel",
    "mooring.hostpath.",
    "mooring.sim.",
)
#: Shared by all components of a process.
_SHARED: Final = (Context, Informer, Informers, EventRecorder)
#: Sequences of so many elements are looked into also where cost counts: parts that a component is made of.
_PARTS: Final = 64


def remembered(root: object, *, deep: bool = False) -> Mapping[str, int]:
    """Entries by attribute, `queue.waiting` for `root._queue._waiting`.

    The length of each container is counted, at the cost of attributes and not of entries. `deep` also counts containers
    inside containers, at the cost of everything there is.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    shared = isinstance(root, _SHARED)
    # The nearest first: what is reached in several ways is counted under its shortest name.
    pending: deque[tuple[str, object]] = deque([("", root)])
    while pending:
        path, thing = pending.popleft()
        if id(thing) in seen or (not shared and path and isinstance(thing, _SHARED)):
            continue
        if isinstance(thing, dict | list | set | deque):
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
            if shared:  # those who are told
                continue
            seen.add(id(thing))
            pending += ((path, each) for each in _captured(thing))
        elif _is_entered(thing):
            seen.add(id(thing))
            pending += ((f"{path}.{name}".strip("."), value) for name, value in _attributes(thing))
    return found


def _is_entered(thing: object) -> bool:
    if isinstance(thing, dict | list | set | deque | tuple | MethodType | FunctionType | partial):
        return True
    kind = type(thing)
    if not kind.__module__.startswith(_INSIDE) or kind.__module__.startswith(_OUTSIDE):
        return False
    # Values, such as views of objects: what holds them is counted.
    if isinstance(thing, msgspec.Struct):
        return not thing.__struct_config__.frozen
    return not (dataclasses.is_dataclass(thing) and kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _captured(function: MethodType | FunctionType | partial[object]) -> Iterator[object]:
    """What a callback keeps alive: parts of a component often know each other by functions alone."""
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


class RememberedObjects(Collector):
    """The gauge `mooring_remembered_objects`: what components remember, by component and attribute."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._roots: dict[str, object] = {}
        registry.register(self)

    def add(self, component: str, root: object) -> None:
        """It is counted at every scrape."""
        self._roots[component] = root

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "mooring_remembered_objects",
            "Entries that a component keeps in memory, by component and attribute. They go with the objects they are "
            "about; a figure that only grows is a leak.",
            labels=["component", "what"],
        )
        for component, root in self._roots.items():
            by_attribute: Counter[str] = Counter()
            for path, count in remembered(root).items():
                by_attribute[path.partition(".")[0] or "all"] += count
            for what, count in sorted(by_attribute.items()):
                family.add_metric([component, what], count)
        yield family
