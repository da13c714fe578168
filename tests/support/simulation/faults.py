"""Fault plans: lists of single faults, drawn from a seed within `FaultLimits`. Pure; `injector` applies them.

Each fault names an instance and a moment: a count of its requests or writes, of all writes, or seconds since the plan
became active. Counts survive restarts, so a plan replays exactly, prints as Python and shrinks by leaving faults out.
A correct API server, store and network may cause every fault: stored data is never falsified. Only drivers may return
invalid values.
"""

import enum
import random
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from mooring.csi.contract import NOT_FINAL, Code

F = TypeVar("F")


class RequestFault(enum.Enum):
    """Effect on a request."""

    SLOW_REQUEST = "the request was slow"
    SLOW_ANSWER = "the answer was slow"
    LOST_REQUEST = "the request got lost"
    #: The request took effect.
    LOST_ANSWER = "the answer got lost"
    UNAVAILABLE = "the server was not available"
    THROTTLED = "the server had too much to do"
    #: Another client updates the object first: a write with the old resourceVersion gets a real 409.
    OVERTAKEN = "another writer was faster"
    #: With any of `CODES`; the request had no effect. A 404 is about the path, not about the object.
    REFUSED = "the server refused"
    #: With a 500 or 504; the request took effect.
    FAILED_AFTERWARDS = "the server failed after it had done it"
    #: The request took effect; the connection broke within the response.
    CUT_ANSWER = "the answer was cut"
    #: The request took effect; the body is an error page, another document or truncated JSON.
    GARBLED_ANSWER = "the answer was garbled"


class WatchFault(enum.Enum):
    """Effect on a watch after a number of events."""

    BROKEN = "the connection broke"
    ENDED = "the server ended the watch"
    EXPIRED = "the version was no longer kept"
    #: Events are delayed, then all delivered: meanwhile the informer is stale.
    STALLED = "the watch stood still"
    #: With any of `CODES`: as the response before the first event, later as an ERROR event.
    REFUSED = "the server refused to go on"
    #: An event cannot be read.
    GARBLED = "an event was garbled"
    #: Events are delayed, then the resourceVersion has expired: intermediate states are never observed.
    SKIPPED = "events were skipped"


class StoreFault(enum.Enum):
    """Effect on a write inside the API server, which returns 503 to its client."""

    SLOW = "the store was slow"
    FAILED = "the store failed"
    #: The write took effect: a disk that reports an error has not always lost the data.
    FAILED_AFTERWARDS = "the store failed after it had written"


class DriverFault(enum.Enum):
    """Effect on a CSI call."""

    SLOW_CALL = "the call was slow"
    SLOW_ANSWER = "the answer was slow"
    #: With any code; the call had no effect. A CreateVolume for a volume that exists gets no final one: CSI forbids it.
    REFUSED = "the driver refused"
    #: With a code that is not final; the call took effect.
    LOST_ANSWER = "the answer got lost"
    #: The caller gets DEADLINE_EXCEEDED; the call had no effect.
    HUNG = "the driver hung"
    #: The caller gets DEADLINE_EXCEEDED; the call takes effect after the same time again, and is pending until then.
    DONE_LATE = "the driver took longer than the caller waited"
    #: The call took effect; the response has an impossible volume size or capacity.
    WRONG = "the driver returned an invalid value"
    #: The call took effect; the response cannot be decoded, which a channel reports as UNAVAILABLE.
    GARBLED_ANSWER = "the driver's answer was garbled"


#: HTTP codes that a server or a proxy in front of it may return for any request.
CODES: Final = (400, 401, 403, 404, 409, 422, 429, 500, 503, 504)
#: Of these, the ones after which the request may have taken effect.
CODES_AFTERWARDS: Final = (500, 504)


class BadCall(msgspec.Struct, frozen=True):
    """A request fails. Requests are counted per instance from 1; those about Events are counted separately."""

    instance: str
    call: int
    effect: RequestFault
    seconds: float = 0.0
    code: int = 500
    #: Whether the request is about an Event.
    events: bool = False


class BadWatch(msgspec.Struct, frozen=True):
    """A watch fails after some events. Watches are counted per instance from 1, across kinds."""

    instance: str
    watch: int
    after: int
    effect: WatchFault
    seconds: float = 0.0
    code: int = 500


class BadWrite(msgspec.Struct, frozen=True):
    """A component's write fails in the store. Counted from 1 over all components; Events are not counted."""

    write: int
    effect: StoreFault
    seconds: float = 0.0


class BadRpc(msgspec.Struct, frozen=True):
    """A CSI call fails. Calls are counted per instance and RPC, from 1."""

    instance: str
    rpc: str
    call: int
    effect: DriverFault
    code: Code = Code.UNAVAILABLE
    seconds: float = 0.0


class Crash(msgspec.Struct, frozen=True):
    """An instance crashes after its n-th write took effect and before the response; it restarts `down` seconds later.

    CSI calls with side effects count as writes. With `behind`, lists and watches of the restarted instance are served
    from a watch cache that many writes older than the crash, for `stale` seconds; gets and writes see current objects.
    """

    instance: str
    write: int
    down: float
    behind: int = 0
    stale: float = 0.0


class LeaderChange(msgspec.Struct, frozen=True):
    """After its n-th write took effect an instance loses its lease, and a new instance without state becomes leader.

    With `frozen` 0 it releases the lease: writes of its shutdown still take effect, then the next instance starts.
    Otherwise the process is frozen for longer than its lease: the next instance already leads when it resumes, sends
    its pending requests, and only then stops.
    """

    instance: str
    write: int
    frozen: float = 0.0


class Pause(msgspec.Struct, frozen=True):
    """An instance neither sends nor receives for some seconds, then continues."""

    instance: str
    at: float
    seconds: float


class DuplicateInstance(msgspec.Struct, frozen=True):
    """A second instance of a component, `<component>-2`, without leader election; with `at` 0 from the start."""

    of: str
    at: float


class Standby(msgspec.Struct, frozen=True):
    """The component is elected by a Lease, and a second instance, `<component>-2`, waits for it with synced caches."""

    of: str


class ServerRestart(msgspec.Struct, frozen=True):
    """After the n-th write of all, the API server restarts: stored objects stay, watches and their history do not."""

    write: int
    down: float


class Deletion(msgspec.Struct, frozen=True):
    """After the n-th write of all, a user deletes an object."""

    kind: str
    key: str
    write: int


class VolumeDeletion(msgspec.Struct, frozen=True):
    """After the n-th write of all, a user deletes all volumes whose claimRef names a claim."""

    claim: str
    write: int


class VolumeBoundByOther(msgspec.Struct, frozen=True):
    """After the n-th write of all, another client binds a free volume to its own claim."""

    volume: str
    write: int


#: Actions of users and other clients.
Intervention = Deletion | VolumeDeletion | VolumeBoundByOther
Fault = (
    BadCall
    | BadWatch
    | BadWrite
    | BadRpc
    | Crash
    | LeaderChange
    | Pause
    | DuplicateInstance
    | Standby
    | ServerRestart
    | Intervention
)


class FaultPlan(msgspec.Struct, frozen=True):
    """All faults of a run, and the maximum latency in seconds of a message without a fault."""

    faults: tuple[Fault, ...] = ()
    latency: float = 0.0

    def of(self, kind: type[F]) -> Iterator[F]:
        return (fault for fault in self.faults if isinstance(fault, kind))

    def without(self, start: int, stop: int) -> "FaultPlan":
        return FaultPlan(self.faults[:start] + self.faults[stop:], self.latency)

    def __str__(self) -> str:
        """As Python source, for a test that replays the plan."""
        if not self.faults:
            return f"FaultPlan(latency={self.latency})"
        rows = "".join(f"        {_spelled(fault)},\n" for fault in self.faults)
        return f"FaultPlan(\n    faults=(\n{rows}    ),\n    latency={self.latency},\n)"


NO_FAULTS: Final = FaultPlan()


def _spelled(fault: Fault) -> str:
    fields = ", ".join(f"{name}={_value(getattr(fault, name))}" for name in fault.__struct_fields__)
    return f"{type(fault).__name__}({fields})"


def _value(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)


class FaultLimits(msgspec.Struct, frozen=True):
    """Which faults `draw` may plan, and the maximum number of each."""

    #: Instances with faulty requests, watches, crashes and pauses; an instance listed twice gets twice as many.
    instances: tuple[str, ...]
    bad_calls: int = 0
    bad_watches: int = 0
    bad_writes: int = 0
    #: Instances that call a driver, and the RPCs that may fail.
    rpc_instances: tuple[str, ...] = ()
    rpcs: tuple[str, ...] = ("create_volume", "create_volume", "delete_volume", "get_capacity")
    bad_rpcs: int = 0
    crashes: int = 0
    pauses: int = 0
    restarts: int = 0
    #: Components that may run as two instances.
    duplicates: tuple[str, ...] = ()
    #: (kind, key) of objects that a user may delete, and the maximum number.
    deletable: tuple[tuple[str, str], ...] = ()
    deletions: int = 0
    #: Claims whose volumes a user may delete, and the maximum number.
    claims: tuple[str, ...] = ()
    volume_deletions: int = 0
    #: Volumes that another client may bind, and the maximum number.
    bindable: tuple[str, ...] = ()
    foreign_bindings: int = 0
    #: Requests, requests about Events, and watches that are refused with any code or get a garbled response.
    refusals: int = 0
    event_refusals: int = 0
    watch_refusals: int = 0
    #: CSI calls of any kind that are refused or get a garbled response.
    rpc_refusals: int = 0
    #: Leases that are released, or lost in a pause longer than their duration.
    leader_changes: int = 0
    #: Faults occur within this many requests and writes of an instance, writes of all, and seconds.
    calls: int = 40
    writes: int = 15
    all_writes: int = 60
    seconds: float = 10.0


#: Every call of the CSI contract that a component makes.
RPCS: Final = (
    *("name", "vendor_version", "plugin_capabilities", "probe", "controller_capabilities"),
    *("create_volume", "delete_volume", "controller_publish", "controller_unpublish"),
    *("list_volumes", "get_volume", "get_capacity", "validate_capabilities"),
    *("node_capabilities", "info", "stage", "unstage", "publish", "unpublish"),
)
#: What plans of old seeds were drawn from; must not change, or recorded seeds replay other plans.
_REQUEST_FAULTS: Final = tuple(RequestFault)[: tuple(RequestFault).index(RequestFault.REFUSED)]
_WATCH_FAULTS: Final = tuple(WatchFault)[: tuple(WatchFault).index(WatchFault.REFUSED)]
_DRIVER_FAULTS: Final = tuple(DriverFault)[: tuple(DriverFault).index(DriverFault.GARBLED_ANSWER)]
#: Calls whose responses contain a size that can be invalid.
SIZED: Final = frozenset({"create_volume", "get_capacity"})
#: From no latency to decisions that are stale before they are written.
_LATENCIES: Final = (0.0, 0.002, 0.02, 0.2, 1.0)
#: Of a run in which one instance undoes what another one does until both have observed the same: without latency, time
#: would not go on meanwhile.
MIN_LATENCY: Final = 0.002
#: Shorter and longer than the components' own backoffs.
_WAITS: Final = (0.01, 0.3, 2.0, 8.0)
#: Slightly and much longer than the lease duration of 15 seconds.
_LEASES: Final = (15.5, 25.0)


def draw(seed: int, limits: FaultLimits) -> FaultPlan:
    """The plan of a seed; the same in every process and release."""
    rng = random.Random(f"faults {seed}")
    faults: list[Fault] = []
    if limits.instances:
        faults += [_bad_call(rng, limits) for _ in range(rng.randint(0, limits.bad_calls))]
        faults += [_bad_watch(rng, limits) for _ in range(rng.randint(0, limits.bad_watches))]
        faults += [
            Crash(rng.choice(limits.instances), rng.randint(1, limits.writes), rng.choice(_WAITS))
            for _ in range(rng.randint(0, limits.crashes))
        ]
        faults += [
            Pause(rng.choice(limits.instances), _moment(rng, limits), rng.choice(_WAITS))
            for _ in range(rng.randint(0, limits.pauses))
        ]
    faults += [
        ServerRestart(rng.randint(1, limits.all_writes), rng.choice(_WAITS))
        for _ in range(rng.randint(0, limits.restarts))
    ]
    faults += [_bad_write(rng, limits) for _ in range(rng.randint(0, limits.bad_writes))]
    if limits.rpc_instances:
        faults += [_bad_rpc(rng, limits) for _ in range(rng.randint(0, limits.bad_rpcs))]
    faults += [
        DuplicateInstance(component, rng.choice((0.0, _moment(rng, limits))))
        for component in _half(rng, limits.duplicates)
    ]
    faults += [
        Deletion(*victim, rng.randint(1, limits.all_writes))
        for victim in _some(rng, limits.deletable, rng.randint(0, limits.deletions))
    ]
    faults += [
        VolumeDeletion(claim, rng.randint(1, limits.all_writes))
        for claim in _some(rng, limits.claims, rng.randint(0, limits.volume_deletions))
    ]
    faults += [
        VolumeBoundByOther(volume, rng.randint(1, limits.all_writes))
        for volume in _some(rng, limits.bindable, rng.randint(0, limits.foreign_bindings))
    ]
    latency = rng.choice(_LATENCIES)
    if any(isinstance(fault, DuplicateInstance) for fault in faults):
        latency = max(latency, MIN_LATENCY)
    # Drawn last, so that plans of older seeds stay the same.
    if limits.instances:
        faults += [_refusal(rng, limits) for _ in range(rng.randint(0, limits.refusals))]
        faults += [_refusal(rng, limits, events=True) for _ in range(rng.randint(0, limits.event_refusals))]
        faults += [_watch_refusal(rng, limits) for _ in range(rng.randint(0, limits.watch_refusals))]
    if limits.rpc_instances:
        faults += [_rpc_refusal(rng, limits) for _ in range(rng.randint(0, limits.rpc_refusals))]
    if limits.instances and limits.leader_changes:
        faults += [
            LeaderChange(rng.choice(limits.instances), rng.randint(1, limits.writes), rng.choice((0.0, *_LEASES)))
            for _ in range(rng.randint(1, limits.leader_changes))
        ]
    return FaultPlan(tuple(faults), latency)


def _bad_call(rng: random.Random, limits: FaultLimits) -> BadCall:
    effect = rng.choice(_REQUEST_FAULTS)
    slow = effect in (RequestFault.SLOW_REQUEST, RequestFault.SLOW_ANSWER)
    seconds = rng.choice(_WAITS) if slow else 0.0
    return BadCall(rng.choice(limits.instances), rng.randint(1, limits.calls), effect, seconds)


def _bad_watch(rng: random.Random, limits: FaultLimits) -> BadWatch:
    effect = rng.choice(_WATCH_FAULTS)
    seconds = rng.choice(_WAITS) if effect is WatchFault.STALLED else 0.0
    return BadWatch(rng.choice(limits.instances), rng.randint(1, 8), rng.randint(0, 12), effect, seconds)


def _bad_write(rng: random.Random, limits: FaultLimits) -> BadWrite:
    effect = rng.choice(tuple(StoreFault))
    seconds = rng.choice(_WAITS) if effect is StoreFault.SLOW else 0.0
    return BadWrite(rng.randint(1, limits.all_writes), effect, seconds)


def _bad_rpc(rng: random.Random, limits: FaultLimits) -> BadRpc:
    instance, rpc, call = rng.choice(limits.rpc_instances), rng.choice(limits.rpcs), rng.randint(1, 6)
    effect = rng.choice([effect for effect in _DRIVER_FAULTS if effect is not DriverFault.WRONG or rpc in SIZED])
    match effect:
        case DriverFault.REFUSED:
            return BadRpc(instance, rpc, call, effect, rng.choice(tuple(Code)))
        case DriverFault.LOST_ANSWER:
            return BadRpc(instance, rpc, call, effect, rng.choice(sorted(NOT_FINAL)))
        case DriverFault.WRONG:
            return BadRpc(instance, rpc, call, effect)
        case _:
            return BadRpc(instance, rpc, call, effect, seconds=rng.choice(_WAITS))


def _refusal(rng: random.Random, limits: FaultLimits, *, events: bool = False) -> BadCall:
    instance, call = rng.choice(limits.instances), rng.randint(1, limits.calls)
    effect = rng.choice(
        (RequestFault.REFUSED,) * 6
        + (RequestFault.FAILED_AFTERWARDS, RequestFault.CUT_ANSWER, RequestFault.GARBLED_ANSWER)
    )
    code = rng.choice(CODES_AFTERWARDS if effect is RequestFault.FAILED_AFTERWARDS else CODES)
    return BadCall(instance, call, effect, code=code, events=events)


def _watch_refusal(rng: random.Random, limits: FaultLimits) -> BadWatch:
    effect = rng.choice((WatchFault.REFUSED, WatchFault.REFUSED, WatchFault.GARBLED))
    return BadWatch(
        rng.choice(limits.instances), rng.randint(1, 12), rng.choice((0, 0, 1, 2, 5)), effect, code=rng.choice(CODES)
    )


def _rpc_refusal(rng: random.Random, limits: FaultLimits) -> BadRpc:
    instance, rpc, call = rng.choice(limits.rpc_instances), rng.choice(RPCS), rng.randint(1, 3)
    effect = rng.choice((DriverFault.REFUSED, DriverFault.REFUSED, DriverFault.GARBLED_ANSWER))
    return BadRpc(instance, rpc, call, effect, rng.choice(tuple(Code)))


def _moment(rng: random.Random, limits: FaultLimits) -> float:
    """Cubed: most transitions happen early in a run."""
    return round(limits.seconds * rng.random() ** 3, 3)


def _half(rng: random.Random, things: Sequence[F]) -> list[F]:
    return [thing for thing in things if rng.random() < 0.5]


def _some(rng: random.Random, things: Sequence[F], count: int) -> list[F]:
    return rng.sample(things, min(count, len(things)))
