"""What goes wrong in a run, spelled out: a plan is a list of single faults, drawn from a seed.

Each fault names whom it strikes and when, by count (the fifth request of the scheduler, the third write of the PV
controller, the twentieth write of all) or by seconds since the plan took effect. Counts survive restarts. A plan
therefore replays exactly, prints as Python that can be pasted into a test, and shrinks by leaving faults out.

Nothing here strikes by itself: `weather` hands each fault to whom it concerns, `faulty_client`, `faulty_store`,
`faulty_driver` and `world` carry it out. Every fault is one that a correct API server, store and network may bring
about; no lies are told about what is stored. Drivers are other people's, and some answer nonsense.
"""

import enum
import random
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from mooring.csi.contract import NOT_FINAL, Code

F = TypeVar("F")


class Trouble(enum.Enum):
    """What happens to a request."""

    SLOW_REQUEST = "the request was slow"
    SLOW_ANSWER = "the answer was slow"
    LOST_REQUEST = "the request got lost"
    #: It took effect all the same.
    LOST_ANSWER = "the answer got lost"
    UNAVAILABLE = "the server was not available"
    THROTTLED = "the server had too much to do"
    #: Somebody else changes the object just before: a write under the old version is refused with a true conflict.
    OVERTAKEN = "another writer was faster"


class WatchTrouble(enum.Enum):
    """What happens to a watch, after so many events."""

    BROKEN = "the connection broke"
    ENDED = "the server ended the watch"
    EXPIRED = "the version was no longer kept"
    #: Nothing arrives for a while, then all of it: what is seen meanwhile is stale.
    STALLED = "the watch stood still"


class StoreTrouble(enum.Enum):
    """What happens to a write inside the API server, which tells its client that it is not available."""

    SLOW = "the store was slow"
    FAILED = "the store failed"
    #: It is written all the same: a disk that reports an error has not always lost the data.
    FAILED_AFTERWARDS = "the store failed after it had written"


class DriverTrouble(enum.Enum):
    """What happens to a call of a CSI driver."""

    SLOW_CALL = "the call was slow"
    SLOW_ANSWER = "the answer was slow"
    #: With any code; nothing was done.
    REFUSED = "the driver refused"
    #: With a code that is not final; it was done.
    LOST_ANSWER = "the answer got lost"
    #: The caller hears DEADLINE_EXCEEDED; nothing was done.
    HUNG = "the driver hung"
    #: The caller hears DEADLINE_EXCEEDED; it is done as much later again, and until then the driver is busy with it.
    DONE_LATE = "the driver took longer than the caller waited"
    #: It was done; of its size, or of what is left, the driver says something impossible.
    WRONG = "the driver answered nonsense"


class BadCall(msgspec.Struct, frozen=True):
    """A request goes wrong. Requests are counted per instance from 1; those about Events are not counted."""

    who: str
    call: int
    trouble: Trouble
    seconds: float = 0.0


class BadWatch(msgspec.Struct, frozen=True):
    """A watch goes wrong after some events. Watches are counted per instance from 1, across kinds."""

    who: str
    watch: int
    after: int
    trouble: WatchTrouble
    seconds: float = 0.0


class BadWrite(msgspec.Struct, frozen=True):
    """A component's write goes wrong in the store. Counted from 1 over all components; Events are not counted."""

    write: int
    trouble: StoreTrouble
    seconds: float = 0.0


class BadRpc(msgspec.Struct, frozen=True):
    """A call of a CSI driver goes wrong. Calls are counted per instance and kind of call, from 1."""

    who: str
    rpc: str
    call: int
    trouble: DriverTrouble
    code: Code = Code.UNAVAILABLE
    seconds: float = 0.0


class Crash(msgspec.Struct, frozen=True):
    """An instance dies right after its n-th write took effect and before it hears so; a new one starts later.

    What it has a driver do is a write too.
    """

    who: str
    write: int
    down: float


class Pause(msgspec.Struct, frozen=True):
    """An instance stands still: it sends nothing and hears nothing, and then goes on as if nothing had been."""

    who: str
    at: float
    seconds: float


class Twin(msgspec.Struct, frozen=True):
    """A second instance of a component is started and stays; it is called `<component>-2`.

    With `at` 0 it is up before anything else happens.
    """

    of: str
    at: float


class ServerRestart(msgspec.Struct, frozen=True):
    """After the n-th write of all, the API server is away; the store stays, open watches and their history do not."""

    write: int
    down: float


class Deletion(msgspec.Struct, frozen=True):
    """After the n-th write of all, a user deletes an object."""

    kind: str
    key: str
    write: int


Fault = BadCall | BadWatch | BadWrite | BadRpc | Crash | Pause | Twin | ServerRestart | Deletion


class FaultPlan(msgspec.Struct, frozen=True):
    """Everything that goes wrong. `latency` is the longest a message takes when nothing is wrong with it."""

    faults: tuple[Fault, ...] = ()
    latency: float = 0.0

    def of(self, kind: type[F]) -> Iterator[F]:
        return (fault for fault in self.faults if isinstance(fault, kind))

    def without(self, start: int, stop: int) -> "FaultPlan":
        return FaultPlan(self.faults[:start] + self.faults[stop:], self.latency)

    def __str__(self) -> str:
        """As Python: what a test needs to replay it."""
        if not self.faults:
            return f"FaultPlan(latency={self.latency})"
        rows = "".join(f"        {_spelled(fault)},\n" for fault in self.faults)
        return f"FaultPlan(\n    faults=(\n{rows}    ),\n    latency={self.latency},\n)"


CALM: Final = FaultPlan()


class Hazards(msgspec.Struct, frozen=True):
    """What may go wrong, and how much of it at most; `draw` makes a plan of it."""

    #: Instances that requests, watches, crashes and pauses may strike; who is named twice is struck twice as often.
    who: tuple[str, ...]
    bad_calls: int = 0
    bad_watches: int = 0
    bad_writes: int = 0
    #: Instances that call a driver, and what of it.
    callers: tuple[str, ...] = ()
    rpcs: tuple[str, ...] = ("create_volume", "create_volume", "delete_volume", "get_capacity")
    bad_rpcs: int = 0
    crashes: int = 0
    pauses: int = 0
    restarts: int = 0
    #: Components that may get a twin.
    twins: tuple[str, ...] = ()
    #: (kind, key) of objects that a user may delete, and how many of them.
    deletable: tuple[tuple[str, str], ...] = ()
    deletions: int = 0
    #: Faults strike among so many requests and writes of an instance, writes of all, and seconds.
    calls: int = 40
    writes: int = 15
    all_writes: int = 60
    seconds: float = 10.0


#: Calls whose answers have a figure in them that can be wrong.
SIZED: Final = frozenset({"create_volume", "get_capacity"})
#: From "everything happens at once" to "a decision is old before it is written".
_LATENCIES: Final = (0.0, 0.002, 0.02, 0.2, 1.0)
#: Waits that are shorter and longer than the pauses components make on their own.
_WAITS: Final = (0.01, 0.3, 2.0, 8.0)


def draw(seed: int, hazards: Hazards) -> FaultPlan:
    """The plan of a seed: the same for ever, whatever the process."""
    rng = random.Random(f"faults {seed}")
    faults: list[Fault] = []
    if hazards.who:
        faults += [_bad_call(rng, hazards) for _ in range(rng.randint(0, hazards.bad_calls))]
        faults += [_bad_watch(rng, hazards) for _ in range(rng.randint(0, hazards.bad_watches))]
        faults += [
            Crash(rng.choice(hazards.who), rng.randint(1, hazards.writes), rng.choice(_WAITS))
            for _ in range(rng.randint(0, hazards.crashes))
        ]
        faults += [
            Pause(rng.choice(hazards.who), _moment(rng, hazards), rng.choice(_WAITS))
            for _ in range(rng.randint(0, hazards.pauses))
        ]
    faults += [
        ServerRestart(rng.randint(1, hazards.all_writes), rng.choice(_WAITS))
        for _ in range(rng.randint(0, hazards.restarts))
    ]
    faults += [_bad_write(rng, hazards) for _ in range(rng.randint(0, hazards.bad_writes))]
    if hazards.callers:
        faults += [_bad_rpc(rng, hazards) for _ in range(rng.randint(0, hazards.bad_rpcs))]
    faults += [Twin(component, rng.choice((0.0, _moment(rng, hazards)))) for component in _half(rng, hazards.twins)]
    faults += [
        Deletion(*victim, rng.randint(1, hazards.all_writes))
        for victim in _some(rng, hazards.deletable, rng.randint(0, hazards.deletions))
    ]
    return FaultPlan(tuple(faults), rng.choice(_LATENCIES))


def _bad_call(rng: random.Random, hazards: Hazards) -> BadCall:
    trouble = rng.choice(tuple(Trouble))
    slow = trouble in (Trouble.SLOW_REQUEST, Trouble.SLOW_ANSWER)
    seconds = rng.choice(_WAITS) if slow else 0.0
    return BadCall(rng.choice(hazards.who), rng.randint(1, hazards.calls), trouble, seconds)


def _bad_watch(rng: random.Random, hazards: Hazards) -> BadWatch:
    trouble = rng.choice(tuple(WatchTrouble))
    seconds = rng.choice(_WAITS) if trouble is WatchTrouble.STALLED else 0.0
    return BadWatch(rng.choice(hazards.who), rng.randint(1, 8), rng.randint(0, 12), trouble, seconds)


def _bad_write(rng: random.Random, hazards: Hazards) -> BadWrite:
    trouble = rng.choice(tuple(StoreTrouble))
    seconds = rng.choice(_WAITS) if trouble is StoreTrouble.SLOW else 0.0
    return BadWrite(rng.randint(1, hazards.all_writes), trouble, seconds)


def _bad_rpc(rng: random.Random, hazards: Hazards) -> BadRpc:
    who, rpc, call = rng.choice(hazards.callers), rng.choice(hazards.rpcs), rng.randint(1, 6)
    trouble = rng.choice([trouble for trouble in DriverTrouble if trouble is not DriverTrouble.WRONG or rpc in SIZED])
    match trouble:
        case DriverTrouble.REFUSED:
            return BadRpc(who, rpc, call, trouble, rng.choice(tuple(Code)))
        case DriverTrouble.LOST_ANSWER:
            return BadRpc(who, rpc, call, trouble, rng.choice(sorted(NOT_FINAL)))
        case DriverTrouble.WRONG:
            return BadRpc(who, rpc, call, trouble)
        case _:
            return BadRpc(who, rpc, call, trouble, seconds=rng.choice(_WAITS))


def _moment(rng: random.Random, hazards: Hazards) -> float:
    """Most of what is interesting happens early."""
    return round(hazards.seconds * rng.random() ** 3, 3)


def _half(rng: random.Random, things: Sequence[F]) -> list[F]:
    return [thing for thing in things if rng.random() < 0.5]


def _some(rng: random.Random, things: Sequence[F], count: int) -> list[F]:
    return rng.sample(things, min(count, len(things)))


def _spelled(fault: Fault) -> str:
    fields = ", ".join(f"{name}={_value(getattr(fault, name))}" for name in fault.__struct_fields__)
    return f"{type(fault).__name__}({fields})"


def _value(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)
