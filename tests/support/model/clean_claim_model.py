"""Model of the claim rollback: one claim that is unbound while unused, with users and a stale controller.

The rules are the production ones: the claim and volume state machines of the PV controller, its live checks, and the
API server's admission. One controller acts on the current state, and one of its writes to the volume may be delayed. A
stale leader beside it reads claim and volume at different times, decides, performs its live checks, and writes
arbitrarily late. Writes take effect only if the object is unchanged since it was read. Users set and remove the
rollback mark at any time; a node admits a pod that uses the volume; a scheduler or a provisioner assigns a volume to
the claim again.
"""

from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views import storage as claims_view
from mooring.api.views.meta import Condition
from mooring.api.views.storage import Volume
from mooring.pvcontroller import claim_sync, volume_sync
from mooring.pvcontroller.actions import (
    DetachVolume,
    EndRollback,
    MarkClean,
    ReleaseVolume,
    ReserveVolume,
    SetClaimStatus,
    SetClaimVolumeName,
    SetVolumePhase,
    SyncStep,
    UnbindClaim,
    Write,
)
from mooring.pvcontroller.component import LiveChecks
from mooring.volumes.binding import is_delayed
from mooring.volumes.claim_rollback import CLEAN, ROLLBACK, may_unbind
from support.builders import a_claim, a_class, a_volume, claim_ref

UID: Final = "11111111-2222-3333-4444-555555555555"
PROVISIONED, EXISTING = f"pvc-{UID}", "existing"
OF_VOLUME: Final = (SetVolumePhase, ReserveVolume, DetachVolume, ReleaseVolume)
CLASSES: Final = {"late": a_class(name="late", provisioner="csi.example.com")}


class C(NamedTuple):
    """The claim."""

    bound: bool = False
    #: Status of its Clean condition; "" without one.
    clean: str = ""
    #: Value of the rollback annotation; "" without one.
    mark: str = ""
    phase: str = "Pending"


class V(NamedTuple):
    """The PersistentVolume; its storage exists as long as the object."""

    ref: str = "claim"
    phase: str = "Available"
    used: bool = False


class ModelWrite(NamedTuple):
    """A write of the controller: its type, and the phase it sets."""

    what: type
    phase: str = ""


class Old(NamedTuple):
    """What the stale controller has read and is about to write, each with whether it is still current."""

    claim: tuple[C, bool] | None = None
    volume: tuple[V | None, bool] | None = None
    doing: tuple[ModelWrite, bool] | None = None
    #: A delayed write of the current controller to the volume.
    late: tuple[ModelWrite, bool] | None = None


class State(NamedTuple):
    claim: C = C()
    volume: V | None = None
    old: Old = Old()
    wrong: str = ""


class Facts:
    """The controller's cache, as its state machines read it."""

    claim_rollback = True
    classes = CLASSES

    def __init__(self, name: str, volume: Volume | None) -> None:
        self._name, self._volume = name, volume

    def volume(self, name: str) -> Volume | None:
        return self._volume if name == self._name else None

    def is_delayed(self, storage_class: str) -> bool | str:
        return is_delayed(storage_class, self.classes.get)

    def best_volume(self, claim: claims_view.Claim, *, delayed: bool) -> Volume | None:
        volume = self._volume
        reference = volume.spec.claim_ref if volume is not None else None
        return volume if reference is not None and reference.uid == UID else None

    def waiting_pods(self, claim: claims_view.Claim) -> Iterable[str]:
        return ()

    def pods_with_access(self, claim: claims_view.Claim) -> Iterable[str]:
        return ()


class Server:
    """A client that returns the current state at once."""

    def __init__(self, model: "CleanClaimModel", state: State) -> None:
        self._model, self._state = model, state

    async def get(self, kind: Kind[Any], name: str, *, namespace: str = "") -> Any:  # noqa: ANN401  any kind
        if kind is CLAIM:
            return self._model.claim_view(self._state.claim)
        if kind is VOLUME and self._state.volume is not None:
            return self._model.volume_view(self._state.volume)
        if kind is STORAGE_CLASS:
            return CLASSES["late"]
        raise NotFound(name)

    async def list(self, kind: Kind[Any], *, namespace: str = "") -> "EmptyList":
        return EmptyList()


class EmptyList:
    items: tuple[()] = ()


@dataclass(frozen=True)
class Rules:
    """The protections; tests remove one to see that the model detects it."""

    #: Writes before which the stale controller reads from the API server.
    live_checks: frozenset[type] = frozenset(
        {UnbindClaim, DetachVolume, ReleaseVolume, EndRollback, SetClaimVolumeName, SetClaimStatus}
    )
    compares: bool = True
    server_requires_clean: bool = True
    clean_only_without_volume: bool = True
    mark_is_guarded: bool = True
    node_marks_dirty_first: bool = True


class CleanClaimModel:
    def __init__(self, *, provisioned: bool, rules: Rules | None = None) -> None:
        """`provisioned`: a provisioner creates and deletes the volume; otherwise it exists and is released."""
        self._provisioned = provisioned
        self._name = PROVISIONED if provisioned else EXISTING
        self._rules = rules or Rules()

    @cache  # noqa: B019  a model lives as long as its test
    def claim_view(self, claim: C) -> claims_view.Claim:
        marks = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET} if claim.bound else {}
        marks |= {ROLLBACK: claim.mark} if claim.mark else {}
        volume = self._name if claim.bound else ""
        view = a_claim(
            name="c",
            uid=UID,
            storage_class="late",
            volume=volume,
            bound=claim.bound,
            annotations=marks,
            phase=claim.phase,
        )
        conditions = (Condition(type=CLEAN, status=claim.clean),) if claim.clean else ()
        status = claims_view.ClaimStatus(phase=claim.phase, conditions=conditions, access_modes=_modes(claim))
        return claims_view.Claim(metadata=view.metadata, spec=view.spec, status=status)

    @cache  # noqa: B019
    def volume_view(self, volume: V) -> Volume:
        uid = {"claim": UID, "gone": f"rollback-{UID}"}.get(volume.ref)
        return a_volume(
            name=self._name,
            storage_class="late",
            annotations={well_known.PROVISIONED_BY: "csi.example.com"}
            if self._provisioned
            else {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET},
            reclaim="Delete" if self._provisioned else "Retain",
            claim_ref=claim_ref(name="c", uid=uid) if uid is not None else None,
            phase=volume.phase,
            version=repr(volume),
        )

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        if state.wrong:
            return
        yield from self._environment(state)
        yield from self._controller(state)
        yield from self._old(state)

    def _environment(self, state: State) -> Iterator[tuple[str, State]]:
        claim, volume = state.claim, state.volume
        if not claim.bound and not claim.mark and (volume is None or volume.ref == "none"):
            yield "the claim gets a volume", _put(state, volume=V())
        if claim.bound or claim.mark in ("", well_known.ANNOTATION_SET) or not self._rules.mark_is_guarded:
            for mark in ("", well_known.ANNOTATION_SET, self._name):
                yield f"a user sets the rollback annotation to {mark!r}", _put(state, claim=claim._replace(mark=mark))
        if claim.bound and (may_unbind(self.claim_view(claim)) or not self._rules.server_requires_clean):
            wrong = "a used volume was unbound" if volume is not None and volume.used else ""
            yield "a user clears volumeName", _put(state, claim=claim._replace(bound=False))._replace(wrong=wrong)
        forged = claim._replace(clean="True")
        if not claim.bound or not self._rules.clean_only_without_volume:
            yield "a user sets the Clean condition", _put(state, claim=forged)
        if claim.bound and volume is not None and volume.ref == "claim":
            dirty = claim._replace(clean="False") if claim.clean == "True" else claim
            if self._rules.node_marks_dirty_first:
                yield "the node agent marks the claim dirty", _put(state, claim=dirty)
            if dirty == claim or not self._rules.node_marks_dirty_first:
                yield "a pod uses the volume", _put(state, volume=volume._replace(used=True))
        if self._provisioned and volume is not None and volume.phase == "Released":
            wrong = "a used volume was deleted" if volume.used else ""
            yield "the provisioner deletes the volume", _put(state, volume=None)._replace(wrong=wrong)

    def _controller(self, state: State) -> Iterator[tuple[str, State]]:
        view = self.volume_view(state.volume) if state.volume is not None else None
        claim = self.claim_view(state.claim)
        step = claim_sync.next_claim_step(claim, Facts(self._name, view))  # type: ignore[arg-type]  # as much as is asked
        if step.write is not None:
            order = _order(step.write)
            yield f"the controller: {order.what.__name__}", self._written(state, order)
            if state.old.late is None and order.what in (DetachVolume, ReleaseVolume):
                late = state.old._replace(late=(order, True))
                yield f"the controller sends a delayed {order.what.__name__}", state._replace(old=late)
        if view is not None:
            reference = view.spec.claim_ref
            behind = claim if reference is not None and reference.uid == UID else None
            step = volume_sync.next_volume_step(view, behind)
            if step.write is not None:
                yield (
                    f"the controller writes the volume: {type(step.write).__name__}",
                    self._written(state, _order(step.write)),
                )

    def _old(self, state: State) -> Iterator[tuple[str, State]]:
        old = state.old
        if old.doing is not None:
            order, newest = old.doing
            done = state._replace(old=Old(late=old.late))
            yield "the stale controller crashes", done
            if newest or not self._rules.compares:
                yield f"the stale controller: {order.what.__name__}", self._written(done, order)
            return
        if old.late is not None and (old.late[1] or not self._rules.compares):
            yield (
                "the delayed write takes effect",
                self._written(state._replace(old=old._replace(late=None)), old.late[0]),
            )
        yield "the stale controller reads the claim", state._replace(old=old._replace(claim=(state.claim, True)))
        yield "the stale controller reads the volume", state._replace(old=old._replace(volume=(state.volume, True)))
        if old.claim is None or old.volume is None:
            return
        (seen, claim_newest), (known, volume_newest) = old.claim, old.volume
        claim, view = self.claim_view(seen), self.volume_view(known) if known is not None else None
        facts = Facts(self._name, view)
        step = claim_sync.next_claim_step(claim, facts)  # type: ignore[arg-type]  # as much as is asked
        if step.write is None or self._rejected_by_live_check(state, step, claim, facts):
            return
        order = _order(step.write)
        newest = volume_newest if order.what in OF_VOLUME else claim_newest
        # Its cache is discarded: the next decision reads both objects again.
        decided = Old(doing=(order, newest), late=old.late)
        yield f"the stale controller decides: {order.what.__name__}", state._replace(old=decided)

    def _rejected_by_live_check(self, state: State, step: SyncStep, claim: claims_view.Claim, facts: Facts) -> bool:
        if type(step.write) not in self._rules.live_checks:
            return False
        looks = LiveChecks(Server(self, state), facts)  # type: ignore[arg-type]  # as much of both as is asked
        return bool(_immediately(looks.against(step, claim)))

    def _written(self, state: State, order: ModelWrite) -> State:
        """The state after a write to the current object."""
        return self._claim_written(state, order) if order.what not in OF_VOLUME else _volume_written(state, order)

    def _claim_written(self, state: State, order: ModelWrite) -> State:
        claim, volume = state.claim, state.volume
        if order.what is MarkClean:
            return state if claim.bound else _put(state, claim=claim._replace(clean="True"))
        if order.what is SetClaimVolumeName:
            stolen = (
                ""
                if volume is not None and volume.ref == "claim"
                else "the claim is bound to the volume of another claim"
            )
            return _put(state, claim=claim._replace(bound=True))._replace(wrong=stolen)
        if order.what is SetClaimStatus:
            lost = "the claim is lost" if order.phase == "Lost" else ""
            return _put(state, claim=claim._replace(phase=order.phase))._replace(wrong=lost)
        if order.what is EndRollback:
            return _put(state, claim=claim._replace(mark=""))
        assert order.what is UnbindClaim, f"unexpected write {order}"
        if not may_unbind(self.claim_view(claim)):
            return state
        taken = "a used volume was unbound" if volume is not None and volume.used else ""
        return _put(state, claim=claim._replace(bound=False, mark=self._name))._replace(wrong=taken)


def _volume_written(state: State, order: ModelWrite) -> State:
    volume = state.volume
    if volume is None:
        return state
    if order.what is SetVolumePhase:
        return _put(state, volume=volume._replace(phase=order.phase))
    if order.what is ReserveVolume:
        return _put(state, volume=volume._replace(ref="claim"))
    taken = "a volume was taken from a bound claim" if state.claim.bound else ""
    ref = "gone" if order.what is DetachVolume else "none"
    return _put(state, volume=volume._replace(ref=ref))._replace(wrong=taken)


def _order(write: Write) -> ModelWrite:
    return ModelWrite(type(write), write.phase if isinstance(write, SetClaimStatus | SetVolumePhase) else "")


def _put(state: State, *, claim: C | None = None, volume: V | str | None = "") -> State:
    """The state after a write: earlier reads of the object are stale."""
    old, doing = state.old, state.old.doing
    if claim is not None and claim != state.claim:
        old = old._replace(claim=(old.claim[0], False) if old.claim is not None else None)
        if doing is not None and doing[0].what not in OF_VOLUME:
            old = old._replace(doing=(doing[0], False))
        state = state._replace(claim=claim)
    if not isinstance(volume, str) and volume != state.volume:
        old = old._replace(volume=(old.volume[0], False) if old.volume is not None else None)
        if doing is not None and doing[0].what in OF_VOLUME:
            old = old._replace(doing=(doing[0], False))
        if old.late is not None:
            old = old._replace(late=(old.late[0], False))
        state = state._replace(volume=volume)
    return state._replace(old=old)


def _modes(claim: C) -> tuple[str, ...]:
    return ("ReadWriteOnce",) if claim.phase == "Bound" else ()


def _immediately(answer: Coroutine[Any, Any, str]) -> str:
    """The result of a coroutine that never awaits."""
    try:
        answer.send(None)
    except StopIteration as done:
        result: str = done.value
        return result
    raise AssertionError("the coroutine awaits")


def violation(state: State) -> str:
    return state.wrong
