"""Model of one claim under the hold protocol: every interleaving with faults, crashes and other clients.

The rules are the production ones (`mooring.volumes.holds`). The environment is unrestricted: any node is selected or
unselected at any time (all that other claims, other pods, schedulers and users can do to this claim), a coordinator
(two of them, or none) takes any permitted decision about a held volume, responses are lost, processes crash, the claim
or the PersistentVolume is deleted, the claim's volumeName is set, and a call of an old leader takes effect arbitrarily
late. A result for one claim holds for any number of them, because claims share no other state.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from mooring.volumes.binding import HoldState
from mooring.volumes.holds import transitions
from mooring.volumes.holds.transitions import ClaimFacts, HoldSnapshot, Intent, IntentPhase, VolumeFacts

NODES: Final = ("A", "B")
MINE, OTHER = "mine", "other"


class Pv(NamedTuple):
    state: HoldState
    node: str
    attempt: int
    handle: int
    #: Stands for the uid: a compare-and-swap never hits a later object of the same name.
    birth: int
    deleting: bool = False


class State(NamedTuple):
    selected: str = ""
    #: The claim's volumeName.
    volume_name: str = ""
    gone: bool = False
    bound: bool = False
    pv: Pv | None = None
    #: The driver's volumes: at most one of a name, as (node, handle).
    backend: tuple[str, int] | None = None
    used: frozenset[int] = frozenset()
    intent: Intent | None = None
    #: The provisioner's operation in progress, lost in a crash.
    doing: tuple[Any, ...] | None = None
    #: The coordinator's decision, and the version of the volume it is for.
    decided: tuple[str, Pv] | None = None
    #: A call of an old leader that is still in flight, and how many more are allowed.
    late: tuple[Any, ...] | None = None
    delayed_calls_left: int = 1
    #: Handle that only a late call created: an orphan until the sweep.
    orphan: int = -1
    user_writes_left: int = 1
    next_handle: int = 1
    births: int = 0

    @property
    def storage(self) -> int | None:
        """The handle of the driver's volume."""
        return self.backend[1] if self.backend is not None else None

    def saved(self, node: str, attempt: int, handle: int) -> "State":
        """With a held PersistentVolume, unless one of that name exists."""
        if self.pv is not None:
            return self
        return self._replace(pv=Pv(HoldState.HELD, node, attempt, handle, self.births), births=self.births + 1)


@dataclass(frozen=True)
class Rules:
    """The protocol, or a mutation of it."""

    provision: Callable[[HoldSnapshot], object] = transitions.next_provisioning_step
    refused: Callable[..., object] = transitions.after_refusal
    roll_back: Callable[..., object] = transitions.next_rollback_step
    may_commit: Callable[[HoldSnapshot], bool] = transitions.may_commit
    may_roll_back: Callable[[HoldSnapshot], bool] = transitions.may_roll_back
    sweep: Callable[..., object] = transitions.next_orphan_step
    #: Writes carry the resourceVersion that the decision is based on.
    compares: bool = True
    #: Drivers do not reuse handles.
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
        snapshot = snapshot_of(state)
        yield from self._environment(state)
        yield from self._provisioner(state, snapshot)
        yield from self._coordinator(state, snapshot)
        yield from self._late(state)
        if state.doing is not None:
            yield "the provisioner crashes", state._replace(doing=None)
        if state.decided is not None:
            yield "the coordinator crashes", state._replace(decided=None)

    def _environment(self, state: State) -> Iterator[tuple[str, State]]:
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
                # Released: the reclaim policy applies once the claim is deleted.
                rest = state.used - {pv.handle}
                yield "the volume is reclaimed", state._replace(pv=None, backend=None, used=rest)
                # API requests end within seconds, before an administrator deletes the object.
                saving_late = state.late is not None and state.late[0] == "save"
                if pv.handle in state.used and not saving_late:
                    yield "the object of a retained volume is deleted", state._replace(pv=None)
        if state.user_writes_left:
            fewer = state._replace(user_writes_left=state.user_writes_left - 1)
            if pv is not None and pv.state is HoldState.HELD and not pv.deleting:
                yield "a user deletes the held object", fewer._replace(pv=pv._replace(deleting=True))
            if not state.gone and not state.volume_name:
                for name in (MINE, OTHER):
                    yield f"a user sets volumeName to {name}", fewer._replace(volume_name=name)

    def _provisioner(self, state: State, snapshot: HoldSnapshot) -> Iterator[tuple[str, State]]:
        match state.doing:
            case None:
                yield from self._begin(state, self._provision(snapshot))
                yield from self._undo(state, snapshot, deleted=False)
                if state.backend is not None:
                    node, handle = state.backend
                    yield from self._swept(state, self._sweep(snapshot, name=MINE, node=node), handle)
            case ("swap", Intent() | None as old, Intent() as new):
                idle = state._replace(doing=None)
                yield "the intent is written", idle._replace(intent=new) if state.intent == old else idle
                if state.intent == old and new.phase is IntentPhase.CREATING:
                    yield "the intent is written, to be carried out", state._replace(intent=new, doing=("open", new))
            case ("open", Intent() as intent):
                # Without another look at claim and volume: much may have happened since they were read.
                yield from self._begin(state, self._provision(HoldSnapshot(None, None, intent)))
            case ("made", str(node), int(attempt), int(handle)):
                yield from self._save(state, node, attempt, handle)
            case ("refused", bool(reschedule)):
                yield from self._after_refusal(state, self._refused(snapshot, reschedule=reschedule))
            case ("roll back", Pv() as seen):
                idle = state._replace(doing=None)
                yield "the rollback of the held volume begins", self._swapped(idle, seen, HoldState.ROLLING_BACK)
            case ("deleted", int(handle)):
                same = state.pv is not None and state.pv.handle == handle
                yield from self._undo(state, snapshot, deleted=same)

    def _begin(self, state: State, step: object) -> Iterator[tuple[str, State]]:
        match step:
            case transitions.OpenAttempt(intent) | transitions.Close(intent):
                if intent.attempt <= self._rules.attempts:
                    yield (
                        "the provisioner decides to write the intent",
                        state._replace(doing=("swap", state.intent, intent)),
                    )
            case transitions.CreateStorage(node, attempt):
                yield from self._create(state, node, attempt)

    def _create(self, state: State, node: str, attempt: int) -> Iterator[tuple[str, State]]:
        if state.backend is None:
            handle = state.next_handle if self._rules.fresh_handles else 1
            made = state._replace(backend=(node, handle), next_handle=state.next_handle + 1)
            yield f"CreateVolume on {node}", made._replace(doing=("made", node, attempt, handle))
            yield f"CreateVolume on {node}, response lost", made
            for reschedule in (True, False):
                yield f"CreateVolume on {node} fails", state._replace(doing=("refused", reschedule))
        elif state.backend[0] == node:
            doing = ("made", node, attempt, state.backend[1])
            yield f"CreateVolume on {node} returns the existing volume", state._replace(doing=doing)
        else:
            yield f"CreateVolume on {node}: the volume exists on another node", state._replace(doing=("refused", False))
        if state.delayed_calls_left and state.late is None:
            yield "CreateVolume is delayed", self._paused(state, ("create", node))

    def _save(self, state: State, node: str, attempt: int, handle: int) -> Iterator[tuple[str, State]]:
        done = state._replace(doing=None).saved(node, attempt, handle)
        yield "the held PersistentVolume is created", done
        if done.pv is not None and done.pv.handle == handle:
            # Returned to its provisioner, which closes the attempt without another look.
            intent = Intent(attempt, node, IntentPhase.CREATING)
            volume = snapshot_of(done).volume
            for what, after in self._begin(done, self._provision(HoldSnapshot(None, volume, intent))):
                if after.doing is not None and after.doing[0] == "swap":
                    yield (
                        f"the held PersistentVolume is created; {what}",
                        after._replace(doing=("swap", intent, after.doing[2])),
                    )
        if state.delayed_calls_left and state.late is None:
            yield (
                "the creation of the PersistentVolume is delayed",
                self._paused(state, ("save", node, attempt, handle)),
            )

    def _after_refusal(self, state: State, step: object) -> Iterator[tuple[str, State]]:
        match step:
            case transitions.ClearSelectedNode(node):
                yield f"{node} is unselected", state._replace(selected="")
            case transitions.Close(intent):
                yield "the attempt is closed", state._replace(intent=intent, doing=None)
            case _:
                yield "the attempt is already closed", state._replace(doing=None)

    def _undo(self, state: State, snapshot: HoldSnapshot, *, deleted: bool) -> Iterator[tuple[str, State]]:
        match self._roll_back(snapshot, storage_deleted=deleted):
            case transitions.BeginRollback():
                yield "the provisioner decides to roll back", state._replace(doing=("roll back", state.pv))
            case transitions.DeleteStorage(handle):
                number = int(handle)
                gone = _deleted(state, number)
                yield "DeleteVolume", gone._replace(doing=("deleted", number))
                yield "DeleteVolume, response lost", gone._replace(doing=None)
                if state.delayed_calls_left and state.late is None:
                    yield "DeleteVolume is delayed", self._paused(state, ("delete", number))
            case transitions.ClearSelectedNode(node):
                yield f"{node} is unselected", state._replace(selected="")
            case transitions.Close(intent):
                yield "the rollback is recorded", state._replace(intent=intent)
            case transitions.RemoveVolume():
                yield "the PersistentVolume is deleted", state._replace(pv=None, doing=None)

    def _swept(self, state: State, step: object, handle: int) -> Iterator[tuple[str, State]]:
        match step:
            case transitions.OpenAttempt(intent):
                if intent.attempt <= self._rules.attempts:
                    yield "the sweep adopts", state._replace(doing=("swap", state.intent, intent))
            case transitions.DeleteOrphan():
                yield "the sweep deletes", _deleted(state, handle)
                if state.delayed_calls_left and state.late is None:
                    yield "the sweep's DeleteVolume is delayed", self._paused(state, ("delete", handle))

    def _coordinator(self, state: State, snapshot: HoldSnapshot) -> Iterator[tuple[str, State]]:
        pv = state.pv
        if state.decided is None:
            if pv is not None and self._may_commit(snapshot):
                yield "the coordinator decides to commit", state._replace(decided=("commit", pv))
            if pv is not None and self._may_roll_back(snapshot):
                yield "the coordinator decides to roll back", state._replace(decided=("roll back", pv))
            return
        what, seen = state.decided
        idle = state._replace(decided=None)
        into = HoldState.COMMITTED if what == "commit" else HoldState.ROLLING_BACK
        yield f"the coordinator's {what}", self._swapped(idle, seen, into)

    def _swapped(self, state: State, seen: Pv, into: HoldState) -> State:
        """One conditional write on the version `seen`; without `compares`, an unconditional one."""
        if state.pv is None or (self._rules.compares and state.pv != seen):
            return state
        return state._replace(pv=state.pv._replace(state=into))

    def _paused(self, state: State, call: tuple[Any, ...]) -> State:
        """The leader pauses during a call; another instance takes over without its state."""
        return state._replace(doing=None, late=call, delayed_calls_left=state.delayed_calls_left - 1)

    def _late(self, state: State) -> Iterator[tuple[str, State]]:
        done = state._replace(late=None)
        match state.late:
            case ("save", str(node), int(attempt), int(handle)):
                yield "a delayed PersistentVolume is created", done.saved(node, attempt, handle)
            case ("delete", int(handle)):
                yield "a delayed DeleteVolume takes effect", _deleted(done, handle)
            case ("create", str(node)):
                if state.backend is None:
                    handle = state.next_handle if self._rules.fresh_handles else 1
                    made = done._replace(backend=(node, handle), orphan=handle, next_handle=state.next_handle + 1)
                    yield "a delayed CreateVolume takes effect", made
                else:
                    yield "a delayed CreateVolume finds a volume", done


def _deleted(state: State, handle: int) -> State:
    return state._replace(backend=None) if state.storage == handle else state


def snapshot_of(state: State) -> HoldSnapshot:
    return _snapshot(state.selected, state.volume_name, state.gone, state.pv, state.intent)


@cache
def _snapshot(selected: str, volume_name: str, gone: bool, pv: Pv | None, intent: Intent | None) -> HoldSnapshot:
    claim = None if gone else ClaimFacts("u", selected, volume_name)
    volume = None
    if pv is not None:
        volume = VolumeFacts(MINE, pv.state, pv.node, pv.attempt, str(pv.handle), deleting=pv.deleting)
    return HoldSnapshot(claim, volume, intent)


def violation(state: State) -> str:
    """The violated invariant, or "" if all hold."""
    there = state.storage
    if any(handle != there for handle in state.used):
        return "a volume that was used is deleted"
    if state.bound and (state.pv is None or state.pv.state is not HoldState.COMMITTED):
        return "a bound claim lost its volume"
    if state.pv is not None and state.pv.state is HoldState.COMMITTED and state.pv.handle != there:
        return "a committed volume has no storage"
    if state.pv is not None and state.pv.state is HoldState.COMMITTED and state.pv.deleting:
        return "a terminating PersistentVolume was committed"
    is_kept = there in state.used
    if there is not None and there != state.orphan and not is_kept and not _named(state, there):
        return "a volume of the driver is in no record"
    return ""


def _named(state: State, handle: int) -> bool:
    if state.pv is not None and state.pv.handle == handle:
        return True
    return state.intent is not None and state.intent.phase is IntentPhase.CREATING
