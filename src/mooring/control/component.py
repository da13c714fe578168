"""What a component is, what it is given, and how several run together.

A component is one of the programs of the control plane: scheduler, PV controller, node agent. In the embedded
world many share a process and its informers; on a real cluster each is its own process; in the simulated world
each incarnation gets a `Context` of its own that can be severed. The code is the same.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mooring.client.contract import Client
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import Clock
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.control.invariants import UNCOUNTED, InvariantChecks
from mooring.control.queue import Observer, Unobserved, WorkQueue


@dataclass(frozen=True)
class Context:
    """Everything a component may touch of the outside world."""

    client: Client
    informers: Informers
    recorder: EventRecorder
    clock: Clock
    rng: random.Random
    gates: FeatureGates = DEFAULTS
    #: Who counts what happens in a work queue of that name.
    observer: Callable[[str], Observer] = lambda _: Unobserved()
    #: What must hold before irreversible writes.
    invariants: InvariantChecks = UNCOUNTED

    def work_queue(self, name: str) -> WorkQueue[str]:
        """A queue of object keys under the name that its metrics carry."""
        return WorkQueue(self.clock, self.observer(name))


class Component(Protocol):
    """Built from a Context without side effects; nothing happens before `run`."""

    @property
    def name(self) -> str:
        """As logs, metrics and event sources show it."""
        ...

    @property
    def ready(self) -> bool:
        """Whether its caches are filled and it acts."""
        ...

    async def run(self) -> None:
        """Work until cancelled. An exception that leaves here is a bug and ends the process."""
        ...


class Together:
    """Several components that begin and end as one; ready when all of them are."""

    def __init__(self, name: str, components: Sequence[Component]) -> None:
        self.name = name
        self._components = components

    @property
    def ready(self) -> bool:
        return all(component.ready for component in self._components)

    async def run(self) -> None:
        await run_together(self._components)


async def run_together(components: Iterable[Component]) -> None:
    """Run until cancelled or until one fails; a failing one takes the others down, loudly."""
    async with asyncio.TaskGroup() as group:
        for component in components:
            group.create_task(component.run(), name=component.name)
