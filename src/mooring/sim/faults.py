"""What goes wrong in a run, spelled out: a plan is a list of single faults, as a rule drawn from a seed by `hazards`.

Each fault names whom it strikes and when, by count (the fifth request of the scheduler, the third write of the PV
controller, the twentieth write of all) or by seconds since the plan took effect. Counts survive restarts. A plan
therefore replays exactly, prints as Python that can be pasted into a test, and shrinks by leaving faults out.

Nothing here strikes by itself: `weather` hands each fault to whom it concerns, `faulty_client`, `faulty_store`,
`faulty_driver`, `interventions` and `world` carry it out. Every fault is one that a correct API server, store and
network may bring about; no lies are told about what is stored. Drivers are other people's, and some answer nonsense.
"""

import enum
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from mooring.csi.contract import Code

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
    #: With any of `CODES`; nothing was done. A 404 is about the path: no lies are told about objects.
    REFUSED = "the server refused"
    #: With a 500 or 504; it took effect all the same.
    FAILED_AFTERWARDS = "the server failed after it had done it"
    #: It took effect; the connection broke within the answer.
    CUT_ANSWER = "the answer was cut"
    #: It took effect; the body is not the object: an error page, another document, JSON that ends in the middle.
    GARBLED_ANSWER = "the answer was garbled"


class WatchTrouble(enum.Enum):
    """What happens to a watch, after so many events."""

    BROKEN = "the connection broke"
    ENDED = "the server ended the watch"
    EXPIRED = "the version was no longer kept"
    #: Nothing arrives for a while, then all of it: what is seen meanwhile is stale.
    STALLED = "the watch stood still"
    #: With any of `CODES`: before the first event when it is opened, later as an ERROR event.
    REFUSED = "the server refused to go on"
    #: An event cannot be read.
    GARBLED = "an event was garbled"
    #: Nothing arrives for a while, and then the version is no longer kept: what happened meanwhile is never seen, but
    #: for what came of it.
    SKIPPED = "events were skipped"


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
    #: It was done; the answer is not the message that CSI defines, which a channel reports as UNAVAILABLE.
    GARBLED_ANSWER = "the driver's answer was garbled"


#: HTTP codes that a server, or something in front of it, may refuse any request with.
CODES: Final = (400, 401, 403, 404, 409, 422, 429, 500, 503, 504)
#: Of these, the ones after which the request may have taken effect.
CODES_AFTERWARDS: Final = (500, 504)


class BadCall(msgspec.Struct, frozen=True):
    """A request goes wrong. Requests are counted per instance from 1; those about Events are counted apart."""

    who: str
    call: int
    trouble: Trouble
    seconds: float = 0.0
    code: int = 500
    #: Whether it is a request about an Event.
    events: bool = False


class BadWatch(msgspec.Struct, frozen=True):
    """A watch goes wrong after some events. Watches are counted per instance from 1, across kinds."""

    who: str
    watch: int
    after: int
    trouble: WatchTrouble
    seconds: float = 0.0
    code: int = 500


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

    What it has a driver do is a write too. With `behind`, the API server that the new one finds has a watch cache that
    is so many writes older than the crash, and stays so for `stale` seconds after the restart: its lists and watches
    show that past, while single reads and writes see the present.
    """

    who: str
    write: int
    down: float
    behind: int = 0
    stale: float = 0.0


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


class VolumeDeletion(msgspec.Struct, frozen=True):
    """After the n-th write of all, a user deletes the volumes that are given to a claim by then, made for it or not."""

    claim: str
    write: int


class Taking(msgspec.Struct, frozen=True):
    """After the n-th write of all, another writer gives a volume that is still free to a claim of its own."""

    volume: str
    write: int


#: What comes from outside the control plane.
Intervention = Deletion | VolumeDeletion | Taking
Fault = BadCall | BadWatch | BadWrite | BadRpc | Crash | Pause | Twin | ServerRestart | Intervention


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


def _spelled(fault: Fault) -> str:
    fields = ", ".join(f"{name}={_value(getattr(fault, name))}" for name in fault.__struct_fields__)
    return f"{type(fault).__name__}({fields})"


def _value(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)
