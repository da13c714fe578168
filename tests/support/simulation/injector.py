"""Fault injection: when a planned fault takes effect, for which instance, and actions of users and other clients.

One `FaultInjector` per cluster and one `InstanceFaults` per instance count requests and writes and look up faults; they
do nothing themselves. No fault occurs before `begin` or after `stop`. An `InstanceConnection` carries all messages of
one process instance; a crash disconnects it first, so that no `finally` block can still write.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mooring.api.errors import Conflict, NotFound
from mooring.api.kinds import CLAIM, STORED, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Client
from mooring.clock import Clock
from support.simulation.faults import (
    BadCall,
    BadRpc,
    BadWatch,
    BadWrite,
    Crash,
    Deletion,
    FaultPlan,
    Intervention,
    LeaderChange,
    Pause,
    ServerRestart,
    VolumeBoundByOther,
    VolumeDeletion,
    WatchFault,
)
from support.simulation.history import OTHER_WRITER, USER, History, acting

_BY_PLURAL: Final = {kind.plural: kind for kind in STORED}
#: Of the other client's claims.
_NAMESPACE: Final = "default"


class Interventions:
    """Deletions by a user and bindings by another client, through the API."""

    def __init__(self, client: Client, history: History) -> None:
        self._client = client
        self._history = history

    async def carry_out(self, fault: Intervention) -> None:
        match fault:
            case Deletion():
                with acting(USER, "delete"):
                    await self._delete(fault.kind, fault.key)
            case VolumeDeletion():
                with acting(USER, "delete"):
                    await self._delete_volumes_of(fault.claim)
            case VolumeBoundByOther():
                with acting(OTHER_WRITER, ""):
                    await self._take(fault.volume)

    async def _delete(self, plural: str, key: str) -> None:
        namespace, _, name = key.rpartition("/")
        self._history.note(USER, f"deletes {plural} {key}")
        try:
            await self._client.delete(_BY_PLURAL[plural], name, namespace=namespace)
        except NotFound:
            self._history.note(USER, f"{plural} {key} was not there")

    async def _delete_volumes_of(self, claim: str) -> None:
        for volume in (await self._client.list(VOLUME)).items:
            reference = volume.spec.claim_ref
            if reference is not None and f"{reference.namespace}/{reference.name}" == claim:
                await self._delete(VOLUME.plural, volume.name)

    async def _take(self, name: str) -> None:
        """Create the claim first, then bind the volume with its resourceVersion as precondition."""
        try:
            volume = await self._client.get(VOLUME, name)
        except NotFound:
            self._history.note(OTHER_WRITER, f"volume {name} not found")
            return
        if volume.spec.claim_ref is not None or volume.deleting:
            self._history.note(OTHER_WRITER, f"volume {name} is not free")
            return
        spec = {
            "accessModes": list(volume.spec.access_modes),
            "volumeMode": volume.spec.volume_mode,
            "storageClassName": volume.storage_class,
            "resources": {"requests": {"storage": volume.size}},
        }
        body = {"metadata": {"name": f"{OTHER_WRITER}-{name}"}, "spec": spec}
        claim = await self._client.create(CLAIM, body, namespace=_NAMESPACE)
        mine = {"claimRef": claim.reference.body()}
        patch = MergePatch({"metadata": {"resourceVersion": volume.metadata.resource_version}, "spec": mine})
        try:
            await self._client.patch(VOLUME, name, patch)
            self._history.note(OTHER_WRITER, f"bound volume {name}")
        except (Conflict, NotFound):
            self._history.note(OTHER_WRITER, f"volume {name} was updated concurrently")


class FaultInjector:
    """The active fault plan of a cluster."""

    def __init__(self, plan: FaultPlan, clock: Clock) -> None:
        self.plan = plan
        self._clock = clock
        self._began: float | None = None
        self._stopped = False
        self._server_back = 0.0
        self._writes = 0
        self._bad_writes = {fault.write: fault for fault in plan.of(BadWrite)}
        self._stored = 0

    def begin(self) -> None:
        self._began = self._clock.monotonic()

    def stop(self) -> None:
        self._stopped = True

    @property
    def active(self) -> bool:
        return self._began is not None and not self._stopped

    @property
    def age(self) -> float:
        """Seconds since `begin`."""
        return 0.0 if self._began is None else self._clock.monotonic() - self._began

    @property
    def server_is_away(self) -> bool:
        return self._clock.monotonic() < self._server_back

    def take_server_away(self, seconds: float) -> None:
        self._server_back = self._clock.monotonic() + seconds

    def after_write(self) -> list[ServerRestart | Intervention]:
        """Faults due after this write."""
        if not self.active:
            return []
        self._writes += 1
        faults = self.plan.faults
        return [f for f in faults if isinstance(f, ServerRestart | Intervention) and f.write == self._writes]

    def next_store_write(self) -> BadWrite | None:
        """The fault of a component's write in the store."""
        if not self.active:
            return None
        self._stored += 1
        return self._bad_writes.get(self._stored)


class InstanceFaults:
    """Faults of one instance, across its restarts."""

    def __init__(self, injector: FaultInjector, instance: str) -> None:
        plan = injector.plan
        self._injector = injector
        self._calls = {(fault.events, fault.call): fault for fault in plan.of(BadCall) if fault.instance == instance}
        ends: list[Crash | LeaderChange] = [*plan.of(LeaderChange), *plan.of(Crash)]
        self._ends = {fault.write: fault for fault in ends if fault.instance == instance}
        self._watches = [fault for fault in plan.of(BadWatch) if fault.instance == instance]
        self._pauses = [fault for fault in plan.of(Pause) if fault.instance == instance]
        self.has_pauses = bool(self._pauses)
        self._rpcs = {(fault.rpc, fault.call): fault for fault in plan.of(BadRpc) if fault.instance == instance}
        self._rpcs_called: Counter[str] = Counter()
        self._called: Counter[bool] = Counter()
        self.written = self._watched = 0

    def next_call(self, *, events: bool = False) -> BadCall | None:
        """The fault of the next request; `events`: the request is about an Event."""
        if not self._injector.active:
            return None
        self._called[events] += 1
        return self._calls.get((events, self._called[events]))

    def next_rpc(self, rpc: str) -> BadRpc | None:
        if not self._injector.active:
            return None
        self._rpcs_called[rpc] += 1
        return self._rpcs.get((rpc, self._rpcs_called[rpc]))

    def next_write(self) -> Crash | LeaderChange | None:
        """A write took effect: the crash or leader change that follows it."""
        if not self._injector.active:
            return None
        self.written += 1
        return self._ends.get(self.written)

    def next_watch(self) -> "OpenWatchFaults":
        """Faults of a watch that is opened now."""
        self._watched += 1
        return OpenWatchFaults(self._injector, [fault for fault in self._watches if fault.watch == self._watched])

    def pause(self) -> float:
        """Remaining seconds of a pause."""
        if not self._injector.active:
            return 0.0
        age = self._injector.age
        return max((p.at + p.seconds - age for p in self._pauses if p.at <= age < p.at + p.seconds), default=0.0)


class OpenWatchFaults:
    """Faults of one watch."""

    def __init__(self, injector: FaultInjector, faults: Sequence[BadWatch]) -> None:
        self._injector = injector
        self._faults = {fault.after: fault for fault in faults}
        self._events = 0

    def refusal(self) -> BadWatch | None:
        """A refusal before the first event."""
        fault = self._faults.get(0) if self._injector.active else None
        return fault if fault is not None and fault.effect is WatchFault.REFUSED else None

    def next_event(self) -> BadWatch | None:
        """The fault before the next event."""
        if not self._faults or not self._injector.active:
            return None
        self._events += 1
        return self._faults.get(self._events - 1)


class Network(NamedTuple):
    """Shared by all process instances of a cluster."""

    server: Client
    injector: FaultInjector
    history: History
    clock: Clock


class InstanceConnection:
    def __init__(
        self,
        network: Network,
        instance: str,
        faults: InstanceFaults,
        rng: random.Random,
        die: Callable[[Crash | LeaderChange], None],
    ) -> None:
        """`die` is called once, at a crash (already disconnected) or a leader change."""
        self.network = network
        self._clock = network.clock
        self._latency = network.injector.plan.latency
        self.name = instance
        self.faults = faults
        self._rng = rng
        self._die = die
        self.disconnected = False
        self._ends = False
        #: Until when the process is frozen.
        self._frozen_until = 0.0
        #: The revision of the watch cache that lists and watches are served from, and until when it stays behind.
        self.cached: tuple[int, float] | None = None

    @property
    def stale_cache(self) -> tuple[int, float] | None:
        """`cached` while it is behind, else None."""
        return self.cached if self.cached is not None and self.network.clock.monotonic() < self.cached[1] else None

    def disconnect(self) -> None:
        self.disconnected = True

    def ensure_connected(self) -> None:
        """Raise CancelledError after a disconnect, also in a `finally` block, which would wait without end."""
        if self.disconnected:
            raise asyncio.CancelledError("this process instance has ended")

    async def transmit(self) -> None:
        """Delay a message by the latency and by a pause."""
        clock = self._clock
        if self._latency:
            await clock.sleep(self._rng.random() * self._latency)
        if (self.faults.has_pauses or self._frozen_until) and (pause := self._pause()) > 0:
            await clock.sleep(pause)
        if self.disconnected:
            self.ensure_connected()

    def _pause(self) -> float:
        """Remaining seconds of a pause, or until a frozen process resumes."""
        return max(self.faults.pause(), self._frozen_until - self._clock.monotonic())

    async def delay(self, seconds: float) -> None:
        """Delay a message by a fault."""
        await self.network.clock.sleep(seconds)
        await self.transmit()

    def took_effect(self, what: object) -> None:
        """A side effect was recorded: crash or lose the lease if the plan says so."""
        end = self.faults.next_write()
        if self.network.injector.active:
            self.network.history.effect(self.name, self.faults.written, str(what))
        if end is not None and not self.disconnected and not self._ends:
            self._ends = True
            if isinstance(end, Crash):
                self.note(f"{what}: crashed after this write, down for {end.down} s")
                self.disconnect()
            else:
                self.note(f"{what}: lost its lease after this write, frozen for {end.frozen} s")
                self._frozen_until = self.network.clock.monotonic() + end.frozen
            self._die(end)
        self.ensure_connected()

    def note(self, what: str) -> None:
        self.network.history.note(self.name, what)
