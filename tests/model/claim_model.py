"""One claim in a hostile world: every interleaving of the hold protocol's rules with everything that can go wrong.

The rules are the production ones (`mooring.volumes.holds`); the world around them is free to do its worst: select and
unselect any node at any time (which is all that other claims, other pods, schedulers and users of the claim can do to
this one), decide about a held volume as it likes (a coordinator without sense, two of them, or none), lose answers,
crash, delete the claim or the volume's object, name the volume in the claim, and let an old leader finish a call
arbitrarily late. What is shown for one claim here holds for any number of them, because claims share nothing else.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from mooring.volumes.holds import gates, provisioning, rollback, sweep
from mooring.volumes.holds.facts import ClaimFacts, Situation, VolumeFacts
from mooring.volumes.holds.intent import Intent, Phase
from mooring.volumes.plan import HoldState

NODES: Final = ("A", "B")
MINE, OTHER = "mine", "other"


class Pv(NamedTuple):
    state: HoldState
    node: str
    attempt: int
    handle: int
    #: Which object of the name this is: a compare-and-swap never hits the next one.
    birth: int
    deleting: bool = False


class State(NamedTuple):
    selected: str = ""
    #: The claim's volumeName; "gone" once the claim is.
    volume_name: str = ""
    gone: bool = False
    bound: bool = False
    pv: Pv | None = None
    #: The driver's own list: at most one volume of a name, as (node, handle).
    backend: tuple[str, int] | None = None
    used: frozenset[int] = frozenset()
    intent: Intent | None = None
    #: What the provisioner has in mind and would forget in a crash.
    doing: tuple[Any, ...] | None = None
    #: What the coordinator has decided, and for which version of the volume.
    decided: tuple[str, Pv] | None = None
    #: A call of an old leader that will still arrive, and how many more there may be.
    late: tuple[Any, ...] | None = None
    lates_left: int = 1
    #: Handles that only a late call made: nothing names them until the sweep comes.
    stray: int = -1
    tampers_left: int = 1
    next_handle: int = 1
    births: int = 0

    @property
    def storage(self) -> int | None:
        """The handle of the volume that the driver has."""
        return self.backend[1] if self.backend is not None else None

    def saved(self, node: str, attempt: int, handle: int) -> "State":
        """With the volume as a held object, unless one has its name."""
        if self.pv is not None:
            return self
        return self._replace(pv=Pv(HoldState.HELD, node, attempt, handle, self.births), births=self.births + 1)


@dataclass(frozen=True)
class Rules:
    """The protocol, or a mutation of it."""

    provision: Callable[[Situation], object] = provisioning.next_step
    refused: Callable[..., object] = provisioning.after_refusal
    roll_back: Callable[..., object] = rollback.next_step
    may_commit: Callable[[Situation], bool] = gates.may_commit
    may_roll_back: Callable[[Situation], bool] = gates.may_roll_back
    sweep: Callable[..., object] = sweep.next_step
    #: Swaps carry the version that was looked at.
    compares: bool = True
    #: Drivers never use a handle twice.
    fresh_handles: bool = True
    attempts: int = 2


class ClaimModel:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._provision = cache(rules.provision)
        self._refused = cache(rules.refused)
        self._roll_back = cache(rules.roll_back)
        self._may_commit = cache(rules.may_commit)
        self._may_roll_back = cache(rules.may_roll_back)
        self._sweep = cache(rules.sweep)

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        situation = situation_of(state)
        yield from self._world(state)
        yield from self._provisioner(state, situation)
        yield from self._coordinator(state, situation)
        yield from self._late(state)
        if state.doing is not None:
            yield "the provisioner crashes", state._replace(doing=None)
        if state.decided is not None:
            yield "the coordinator crashes", state._replace(decided=None)

    def _world(self, state: State) -> Iterator[tuple[str, State]]:
        """Users, schedulers, the stock PV controller and the kubelet."""
        pv = state.pv
        if not state.gone:
            for node in ("", *NODES):
                if node != state.selected:
                    yield f"selected node becomes {node or 'unset'}", state._replace(selected=node)
            yield "the claim is deleted", state._replace(gone=True, bound=False, selected="")
        if pv is not None and pv.state is HoldState.COMMITTED:
            if not state.gone and state.volume_name in ("", MINE) and not state.bound:
                yield "the PV controller binds", state._replace(volume_name=MINE, bound=True)
            if state.bound and state.storage == pv.handle and pv.handle not in state.used:
                yield "a pod uses the volume", state._replace(used=state.used | {pv.handle})
            if state.gone or state.volume_name == OTHER:
                # Released: the ordinary way of a volume whose claim is gone, data and all.
                rest = state.used - {pv.handle}
                yield "the volume is reclaimed", state._replace(pv=None, backend=None, used=rest)
                # Requests to the API end within seconds, before a person has come to this.
                saving_late = state.late is not None and state.late[0] == "save"
                if pv.handle in state.used and not saving_late:
                    yield "the object of a retained volume is deleted", state._replace(pv=None)
        if state.tampers_left:
            fewer = state._replace(tampers_left=state.tampers_left - 1)
            if pv is not None and pv.state is HoldState.HELD and not pv.deleting:
                yield "somebody deletes the held object", fewer._replace(pv=pv._replace(deleting=True))
            if not state.gone and not state.volume_name:
                for name in (MINE, OTHER):
                    yield f"somebody sets volumeName to {name}", fewer._replace(volume_name=name)

    def _provisioner(self, state: State, situation: Situation) -> Iterator[tuple[str, State]]:
        match state.doing:
            case None:
                yield from self._begin(state, self._provision(situation))
                yield from self._undo(state, situation, deleted=False)
                if state.backend is not None:
                    node, handle = state.backend
                    yield from self._swept(state, self._sweep(situation, name=MINE, node=node), handle)
            case ("swap", Intent() | None as old, Intent() as new):
                idle = state._replace(doing=None)
                yield "the intent is written", idle._replace(intent=new) if state.intent == old else idle
            case ("made", str(node), int(attempt), int(handle)):
                yield from self._save(state, node, attempt, handle)
            case ("refused", bool(reschedule)):
                yield from self._after_refusal(state, self._refused(situation, reschedule=reschedule))
            case ("give up", Pv() as seen):
                idle = state._replace(doing=None)
                yield "the held volume is given up", self._swapped(idle, seen, HoldState.ROLLING_BACK)
            case ("deleted", int(handle)):
                same = state.pv is not None and state.pv.handle == handle
                yield from self._undo(state, situation, deleted=same)

    def _begin(self, state: State, step: object) -> Iterator[tuple[str, State]]:
        match step:
            case provisioning.OpenAttempt(intent) | provisioning.Close(intent):
                if intent.attempt <= self._rules.attempts:
                    yield "the provisioner means to write", state._replace(doing=("swap", state.intent, intent))
            case provisioning.Create(node, attempt):
                yield from self._create(state, node, attempt)

    def _create(self, state: State, node: str, attempt: int) -> Iterator[tuple[str, State]]:
        if state.backend is None:
            handle = state.next_handle if self._rules.fresh_handles else 1
            made = state._replace(backend=(node, handle), next_handle=state.next_handle + 1)
            yield f"CreateVolume on {node}", made._replace(doing=("made", node, attempt, handle))
            yield f"CreateVolume on {node}, answer lost", made
            for reschedule in (True, False):
                yield f"CreateVolume on {node} refused", state._replace(doing=("refused", reschedule))
        elif state.backend[0] == node:
            doing = ("made", node, attempt, state.backend[1])
            yield f"CreateVolume on {node} finds it", state._replace(doing=doing)
        else:
            yield f"CreateVolume on {node}: the name is taken elsewhere", state._replace(doing=("refused", False))
        if state.lates_left and state.late is None:
            yield "CreateVolume will arrive late", self._paused(state, ("create", node))

    def _save(self, state: State, node: str, attempt: int, handle: int) -> Iterator[tuple[str, State]]:
        done = state._replace(doing=None)
        yield "the held volume is saved", done.saved(node, attempt, handle)
        if state.lates_left and state.late is None:
            yield "the object will be saved late", self._paused(state, ("save", node, attempt, handle))

    def _after_refusal(self, state: State, step: object) -> Iterator[tuple[str, State]]:
        match step:
            case provisioning.Unselect(node):
                yield f"{node} is unselected", state._replace(selected="")
            case provisioning.Close(intent):
                yield "the attempt is closed", state._replace(intent=intent, doing=None)
            case _:
                yield "there is nothing to close", state._replace(doing=None)

    def _undo(self, state: State, situation: Situation, *, deleted: bool) -> Iterator[tuple[str, State]]:
        match self._roll_back(situation, storage_deleted=deleted):
            case rollback.GiveUp():
                yield "the provisioner means to give up", state._replace(doing=("give up", state.pv))
            case rollback.DeleteStorage(handle):
                number = int(handle)
                gone = _deleted(state, number)
                yield "DeleteVolume", gone._replace(doing=("deleted", number))
                yield "DeleteVolume, answer lost", gone._replace(doing=None)
                if state.lates_left and state.late is None:
                    yield "DeleteVolume will arrive late", self._paused(state, ("delete", number))
            case provisioning.Unselect(node):
                yield f"{node} is unselected", state._replace(selected="")
            case provisioning.Close(intent):
                yield "the rollback is on record", state._replace(intent=intent)
            case rollback.Remove():
                yield "the object is removed", state._replace(pv=None, doing=None)

    def _swept(self, state: State, step: object, handle: int) -> Iterator[tuple[str, State]]:
        match step:
            case provisioning.OpenAttempt(intent):
                if intent.attempt <= self._rules.attempts:
                    yield "the sweep adopts", state._replace(doing=("swap", state.intent, intent))
            case sweep.DeleteOrphan():
                yield "the sweep deletes", _deleted(state, handle)
                if state.lates_left and state.late is None:
                    yield "the sweep deletes late", self._paused(state, ("delete", handle))

    def _coordinator(self, state: State, situation: Situation) -> Iterator[tuple[str, State]]:
        pv = state.pv
        if state.decided is None:
            if pv is not None and self._may_commit(situation):
                yield "the coordinator means to commit", state._replace(decided=("commit", pv))
            if pv is not None and self._may_roll_back(situation):
                yield "the coordinator means to roll back", state._replace(decided=("roll back", pv))
            return
        what, seen = state.decided
        idle = state._replace(decided=None)
        into = HoldState.COMMITTED if what == "commit" else HoldState.ROLLING_BACK
        yield f"the coordinator's {what}", self._swapped(idle, seen, into)

    def _swapped(self, state: State, seen: Pv, into: HoldState) -> State:
        """One write with the version that was looked at; without comparing, whatever is there is overwritten."""
        if state.pv is None or (self._rules.compares and state.pv != seen):
            return state
        return state._replace(pv=state.pv._replace(state=into))

    def _paused(self, state: State, call: tuple[Any, ...]) -> State:
        """The leader stops in the middle of a call; another takes over with nothing in mind."""
        return state._replace(doing=None, late=call, lates_left=state.lates_left - 1)

    def _late(self, state: State) -> Iterator[tuple[str, State]]:
        done = state._replace(late=None)
        match state.late:
            case ("save", str(node), int(attempt), int(handle)):
                yield "a late object appears", done.saved(node, attempt, handle)
            case ("delete", int(handle)):
                yield "a late DeleteVolume arrives", _deleted(done, handle)
            case ("create", str(node)):
                if state.backend is None:
                    handle = state.next_handle if self._rules.fresh_handles else 1
                    made = done._replace(backend=(node, handle), stray=handle, next_handle=state.next_handle + 1)
                    yield "a late CreateVolume arrives", made
                else:
                    yield "a late CreateVolume finds one", done


def _deleted(state: State, handle: int) -> State:
    return state._replace(backend=None) if state.storage == handle else state


def situation_of(state: State) -> Situation:
    return _situation(state.selected, state.volume_name, state.gone, state.pv, state.intent)


@cache
def _situation(selected: str, volume_name: str, gone: bool, pv: Pv | None, intent: Intent | None) -> Situation:
    claim = None if gone else ClaimFacts("u", selected, volume_name)
    volume = None
    if pv is not None:
        volume = VolumeFacts(MINE, pv.state, pv.node, pv.attempt, str(pv.handle), deleting=pv.deleting)
    return Situation(claim, volume, intent)


def wrong(state: State) -> str:
    """What must never be, in any reachable state."""
    there = state.storage
    if any(handle != there for handle in state.used):
        return "a volume that was used is deleted"
    if state.bound and (state.pv is None or state.pv.state is not HoldState.COMMITTED):
        return "a bound claim lost its volume"
    if state.pv is not None and state.pv.state is HoldState.COMMITTED and state.pv.handle != there:
        return "a committed volume has no storage"
    if state.pv is not None and state.pv.state is HoldState.COMMITTED and state.pv.deleting:
        return "an object that somebody deleted was committed"
    is_kept = there in state.used
    if there is not None and there != state.stray and not is_kept and not _named(state, there):
        return "storage that nothing names"
    return ""


def _named(state: State, handle: int) -> bool:
    if state.pv is not None and state.pv.handle == handle:
        return True
    return state.intent is not None and state.intent.phase is Phase.CREATING
