"""How an attempt to provision ends, and what follows from it.

Pure. The four states are external-provisioner's: they say whether a volume may exist although nobody has heard of it,
and whether another node should be tried.
"""

import enum
from typing import NamedTuple

from mooring.csi.contract import Code, DriverError


class State(enum.Enum):
    #: Nothing is going on at the driver: the attempt is over, its arguments may change.
    FINISHED = "finished"
    #: The driver may still be creating the volume, or has, unheard: the same request must be repeated.
    IN_BACKGROUND = "in background"
    #: The driver was not reached: what an earlier attempt established still holds.
    NO_CHANGE = "no change"
    #: Over, and the selected node cannot have the volume: the scheduler should choose again.
    RESCHEDULE = "reschedule"


class Refusal(NamedTuple):
    """Why an attempt went no further, in the words of the event."""

    state: State
    text: str
    #: The driver called the request itself wrong: trying again soon would not help.
    infeasible: bool = False


def after_error(error: DriverError, *, topology: bool, selected_node: str) -> Refusal:
    """What a failed CreateVolume means. `topology` says whether the driver knows places at all."""
    text = rpc_text(error)
    if not error.final:
        return Refusal(State.IN_BACKGROUND, text)
    if error.code is Code.RESOURCE_EXHAUSTED and topology and selected_node:
        return Refusal(State.RESCHEDULE, text)
    return Refusal(State.FINISHED, text, infeasible=error.code is Code.INVALID_ARGUMENT)


def rpc_text(error: DriverError) -> str:
    """A driver's error as gRPC's Go library words it, which is how people know it from events."""
    return f"rpc error: code = {spelled(error.code)} desc = {error.message}"


def spelled(code: Code) -> str:
    """As gRPC's own messages spell codes: ResourceExhausted."""
    return "Canceled" if code is Code.CANCELLED else "".join(part.title() for part in code.name.split("_"))
