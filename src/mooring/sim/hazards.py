"""Which faults a run may be struck by, and how many: from them and a seed a plan is drawn, the same for ever."""

import random
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from mooring.csi.contract import NOT_FINAL, Code
from mooring.sim.faults import (
    CODES,
    CODES_AFTERWARDS,
    BadCall,
    BadRpc,
    BadWatch,
    BadWrite,
    Crash,
    Deletion,
    DriverTrouble,
    Fault,
    FaultPlan,
    Pause,
    ServerRestart,
    StoreTrouble,
    Taking,
    Trouble,
    Twin,
    VolumeDeletion,
    WatchTrouble,
)

F = TypeVar("F")


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
    #: Claims whose volumes a user may delete, and how many of them.
    claims: tuple[str, ...] = ()
    volume_deletions: int = 0
    #: Volumes that others may take, and how many of them.
    takeable: tuple[str, ...] = ()
    takings: int = 0
    #: Requests, requests about Events, and watches that are refused with any code, or answered unreadably.
    refusals: int = 0
    event_refusals: int = 0
    watch_refusals: int = 0
    #: Calls of a driver, of any kind, that are refused or answered unreadably.
    rpc_refusals: int = 0
    #: Faults strike among so many requests and writes of an instance, writes of all, and seconds.
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
#: What plans of old seeds were drawn from: they stay the same for ever.
_TROUBLES: Final = tuple(Trouble)[: tuple(Trouble).index(Trouble.REFUSED)]
_WATCH_TROUBLES: Final = tuple(WatchTrouble)[: tuple(WatchTrouble).index(WatchTrouble.REFUSED)]
_DRIVER_TROUBLES: Final = tuple(DriverTrouble)[: tuple(DriverTrouble).index(DriverTrouble.GARBLED_ANSWER)]
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
    faults += [
        VolumeDeletion(claim, rng.randint(1, hazards.all_writes))
        for claim in _some(rng, hazards.claims, rng.randint(0, hazards.volume_deletions))
    ]
    faults += [
        Taking(volume, rng.randint(1, hazards.all_writes))
        for volume in _some(rng, hazards.takeable, rng.randint(0, hazards.takings))
    ]
    latency = rng.choice(_LATENCIES)
    # After everything else that is drawn, so that plans without these stay what they were.
    if hazards.who:
        faults += [_refusal(rng, hazards) for _ in range(rng.randint(0, hazards.refusals))]
        faults += [_refusal(rng, hazards, events=True) for _ in range(rng.randint(0, hazards.event_refusals))]
        faults += [_watch_refusal(rng, hazards) for _ in range(rng.randint(0, hazards.watch_refusals))]
    if hazards.callers:
        faults += [_rpc_refusal(rng, hazards) for _ in range(rng.randint(0, hazards.rpc_refusals))]
    return FaultPlan(tuple(faults), latency)


def _bad_call(rng: random.Random, hazards: Hazards) -> BadCall:
    trouble = rng.choice(_TROUBLES)
    slow = trouble in (Trouble.SLOW_REQUEST, Trouble.SLOW_ANSWER)
    seconds = rng.choice(_WAITS) if slow else 0.0
    return BadCall(rng.choice(hazards.who), rng.randint(1, hazards.calls), trouble, seconds)


def _bad_watch(rng: random.Random, hazards: Hazards) -> BadWatch:
    trouble = rng.choice(_WATCH_TROUBLES)
    seconds = rng.choice(_WAITS) if trouble is WatchTrouble.STALLED else 0.0
    return BadWatch(rng.choice(hazards.who), rng.randint(1, 8), rng.randint(0, 12), trouble, seconds)


def _bad_write(rng: random.Random, hazards: Hazards) -> BadWrite:
    trouble = rng.choice(tuple(StoreTrouble))
    seconds = rng.choice(_WAITS) if trouble is StoreTrouble.SLOW else 0.0
    return BadWrite(rng.randint(1, hazards.all_writes), trouble, seconds)


def _bad_rpc(rng: random.Random, hazards: Hazards) -> BadRpc:
    who, rpc, call = rng.choice(hazards.callers), rng.choice(hazards.rpcs), rng.randint(1, 6)
    trouble = rng.choice(
        [trouble for trouble in _DRIVER_TROUBLES if trouble is not DriverTrouble.WRONG or rpc in SIZED]
    )
    match trouble:
        case DriverTrouble.REFUSED:
            return BadRpc(who, rpc, call, trouble, rng.choice(tuple(Code)))
        case DriverTrouble.LOST_ANSWER:
            return BadRpc(who, rpc, call, trouble, rng.choice(sorted(NOT_FINAL)))
        case DriverTrouble.WRONG:
            return BadRpc(who, rpc, call, trouble)
        case _:
            return BadRpc(who, rpc, call, trouble, seconds=rng.choice(_WAITS))


def _refusal(rng: random.Random, hazards: Hazards, *, events: bool = False) -> BadCall:
    who, call = rng.choice(hazards.who), rng.randint(1, hazards.calls)
    trouble = rng.choice(
        (Trouble.REFUSED,) * 6 + (Trouble.FAILED_AFTERWARDS, Trouble.CUT_ANSWER, Trouble.GARBLED_ANSWER)
    )
    code = rng.choice(CODES_AFTERWARDS if trouble is Trouble.FAILED_AFTERWARDS else CODES)
    return BadCall(who, call, trouble, code=code, events=events)


def _watch_refusal(rng: random.Random, hazards: Hazards) -> BadWatch:
    trouble = rng.choice((WatchTrouble.REFUSED, WatchTrouble.REFUSED, WatchTrouble.GARBLED))
    return BadWatch(
        rng.choice(hazards.who), rng.randint(1, 12), rng.choice((0, 0, 1, 2, 5)), trouble, code=rng.choice(CODES)
    )


def _rpc_refusal(rng: random.Random, hazards: Hazards) -> BadRpc:
    who, rpc, call = rng.choice(hazards.callers), rng.choice(RPCS), rng.randint(1, 3)
    trouble = rng.choice((DriverTrouble.REFUSED, DriverTrouble.REFUSED, DriverTrouble.GARBLED_ANSWER))
    return BadRpc(who, rpc, call, trouble, rng.choice(tuple(Code)))


def _moment(rng: random.Random, hazards: Hazards) -> float:
    """Most of what is interesting happens early."""
    return round(hazards.seconds * rng.random() ** 3, 3)


def _half(rng: random.Random, things: Sequence[F]) -> list[F]:
    return [thing for thing in things if rng.random() < 0.5]


def _some(rng: random.Random, things: Sequence[F], count: int) -> list[F]:
    return rng.sample(things, min(count, len(things)))
