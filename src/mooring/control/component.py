"""The `Component` protocol, its `Context`, and the reporting of internal errors and denied permissions.

The same component code runs in a process of its own, embedded with others, and simulated; only the Context differs.
"""

import asyncio
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, Forbidden
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, ReportInternalError, Unreachable, V
from mooring.client.informer import Informers
from mooring.client.recorder import WARNING, EventRecorder
from mooring.client.responses import MissingPermission, missing_permission
from mooring.clock import Clock
from mooring.control.feature_gates import DEFAULTS, FeatureGates, FeatureRollout, Gate
from mooring.control.invariants import UNCOUNTED, Invariant, InvariantChecks, InvariantViolated
from mooring.control.workqueue import BUG, SKIPPED, K, Observer, WorkQueue, work

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Reason of the event on an object whose handling raised.
INTERNAL_ERROR: Final = "InternalError"


@dataclass(frozen=True)
class InternalErrors:
    """A `ReportInternalError` that counts, and records an event on the object that was handled."""

    recorder: EventRecorder
    count: Callable[[str], None]

    def __call__(
        self, name: str, error: Exception, about: ApiObject | None = None, kind: Kind[Any] | None = None
    ) -> None:
        self.count(name)
        if about is not None and kind is not None:
            text = f"internal error in {name}: {type(error).__name__}: {error}"
            self.recorder.record(about, kind, WARNING, INTERNAL_ERROR, text)


@dataclass(frozen=True)
class Context:
    """Everything outside itself that a component may use."""

    client: Client
    informers: Informers
    recorder: EventRecorder
    clock: Clock
    rng: random.Random
    gates: FeatureGates = DEFAULTS
    #: Metrics of the work queue of that name.
    observer: Callable[[str], Observer] = lambda _: Observer()
    #: Checks before irreversible writes.
    invariants: InvariantChecks = UNCOUNTED
    #: Counts an unexpected exception in the loop, queue or informer of that name.
    count_internal_error: Callable[[str], None] = lambda _: None
    #: For metrics of the component's own; None if they are not exported.
    registry: CollectorRegistry | None = None
    #: None where all components are of one process and version.
    rollout: FeatureRollout | None = None

    def is_active(self, gate: Gate) -> bool:
        """Whether the gate is on and its feature is not held back; may change while the process runs."""
        return self.gates.enabled(gate) and (self.rollout is None or not self.rollout.holds_back(gate))

    def require(self, holds: bool, invariant: Invariant, about: V, kind: Kind[V], detail: str) -> None:
        """Raises InvariantViolated unless `holds`, after it is logged with the history of the object."""
        self.invariants.require(
            holds, invariant, about, detail, history=lambda: self.informers.of(kind).history(about.key)
        )

    def work_queue(
        self, name: str, kind: Kind[V] | None = None, *, find: Callable[[str], V | None] | None = None
    ) -> WorkQueue[str]:
        """A queue whose metrics carry `name`. With `kind`, an object whose reconcile raises gets an event; it is looked
        up by `find`, by default in the informer of the kind."""

        def report(key: str, error: Exception) -> None:
            about = None if kind is None else (find or self.informers.of(kind).get)(key)
            self.internal_error(name, error, about, kind)

        return WorkQueue(self.clock, self.observer(name), report=report)

    @property
    def internal_error(self) -> ReportInternalError:
        return InternalErrors(self.recorder, self.count_internal_error)

    @contextmanager
    def isolate_errors(self, name: str, about: ApiObject, kind: Kind[Any]) -> Iterator[None]:
        """For a loop over objects: log and report an unexpected exception for this one, and continue with the next."""
        try:
            yield
        except (ApiError, Unreachable):
            raise
        except InvariantViolated as violation:
            log.error(SKIPPED, loop=name, kind=kind.kind, object=about.key, error=str(violation))
        except Exception as error:
            log.exception(BUG, loop=name, kind=kind.kind, object=about.key)
            self.internal_error(name, error, about, kind)


class Component(Protocol):
    """Constructed without side effects; acts only in `run`."""

    @property
    def name(self) -> str:
        """Name in logs, metrics and event sources."""

    @property
    def ready(self) -> bool:
        """Whether its caches are synced and it acts."""

    async def run(self) -> None:
        """Run until cancelled. An exception is a bug and ends the process."""


class ComponentGroup:
    """Components that start and stop together; ready when all of them are."""

    def __init__(self, name: str, components: Sequence[Component]) -> None:
        self.name = name
        self._components = components

    @property
    def ready(self) -> bool:
        return all(component.ready for component in self._components)

    async def run(self) -> None:
        await run_together(self._components)


async def run_together(components: Iterable[Component]) -> None:
    """Run until cancelled or until one fails, which cancels the others."""
    async with asyncio.TaskGroup() as group:
        for component in components:
            group.create_task(component.run(), name=component.name)


class Reconciler(ABC, Generic[K]):
    """Base of components that reconcile the keys of one work queue."""

    name: ClassVar[str]
    #: Maximum number of keys that are reconciled concurrently.
    WORKERS: ClassVar[int] = 1

    def __init__(self, context: Context, queue: WorkQueue[K]) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._queue = queue
        self.ready = False

    async def run(self) -> None:
        await self._subscribe()
        self.ready = True
        await work(self._queue, self._sync, workers=self.WORKERS, name=self.name)

    @abstractmethod
    async def _subscribe(self) -> None:
        """Subscribe to the informers that fill the queue, and wait for those that `_sync` reads."""

    @abstractmethod
    async def _sync(self, key: K) -> None:
        """Reconcile one object. ApiError and Unreachable are retried with backoff."""


#: Minimum interval between two log lines about the same missing permission.
REMINDER_SECONDS: Final = 600.0


class PermissionErrorReporter:
    """Logs each permission that the process lacks, with the RBAC rule to add, and counts the denied requests.

    Components retry denied requests, so that a permission granted later takes effect without a restart.
    """

    def __init__(self, clock: Clock, registry: CollectorRegistry) -> None:
        self._clock = clock
        self._logged_at: dict[MissingPermission, float] = {}
        self._denials = Counter(
            "mooring_missing_rights_total",
            "Requests denied by RBAC, by API group, resource and verb.",
            ["group", "resource", "verb"],
            registry=registry,
        )

    def refused(self, refusal: Forbidden) -> None:
        missing = missing_permission(refusal)
        if missing is None:
            return
        self._denials.labels(missing.group, missing.resource, ",".join(missing.verbs)).inc()
        now = self._clock.monotonic()
        if now - self._logged_at.get(missing, -math.inf) >= REMINDER_SECONDS:
            self._logged_at[missing] = now
            log.error(
                "permission denied", advice=str(missing), rule=missing.rule, account=missing.user, role=missing.role
            )
