"""One claim that can be unbound while nobody has used it: every interleaving with users, and with an old controller.

The rules are the production ones: the claim and volume state machines of the PV controller, its second looks, what the
API server lets pass. One controller acts on what is true now, and one of its writes to the volume may be late. An old
leader beside it looks at claim and volume at different times, decides, looks once more at what its second looks ask
for, and writes arbitrarily late. Writes take effect only if the object is still the one that was looked at. Anybody
marks the claim and takes the mark off at any time; a node lets a pod near the volume; a scheduler or a provisioner
gives the claim a volume again.
"""

from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from builders import a_claim, a_class, a_volume, claim_ref
from mooring.api import keys
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views import claim as claims_view
from mooring.api.views.meta import Condition
from mooring.api.views.volume import Volume
from mooring.pvcontroller import claims, volumes
from mooring.pvcontroller.intents import (
    EndRollback,
    ForsakeVolume,
    MarkClean,
    PointClaim,
    ReleaseVolume,
    ReserveVolume,
    SetClaimStatus,
    SetVolumePhase,
    Step,
    UnbindClaim,
    Write,
)
from mooring.pvcontroller.second_looks import SecondLooks
from mooring.volumes.clean_claims import CLEAN, ROLLBACK, may_unbind

UID: Final = "11111111-2222-3333-4444-555555555555"
MADE, FOUND = f"pvc-{UID}", "found"
OF_VOLUME: Final = (SetVolumePhase, ReserveVolume, ForsakeVolume, ReleaseVolume)
LATE: Final = {"late": a_class(name="late", provisioner="csi.example.com")}


class C(NamedTuple):
    """The claim."""

    bound: bool = False
    #: What its condition says; "" where it does not.
    clean: str = ""
    #: The value of the mark; "" where there is none.
    mark: str = ""
    phase: str = "Pending"


class V(NamedTuple):
    """The volume's object; its storage is there as long as it is."""

    ref: str = "claim"
    phase: str = "Available"
    used: bool = False


class Order(NamedTuple):
    """A write, as far as it matters here."""

    what: type
    phase: str = ""


class Old(NamedTuple):
    """What the old controller knows and is about to write, each with whether it is still the newest."""

    claim: tuple[C, bool] | None = None
    volume: tuple[V | None, bool] | None = None
    doing: tuple[Order, bool] | None = None
    #: Another one's: a write to the volume that is still on its way.
    late: tuple[Order, bool] | None = None


class State(NamedTuple):
    claim: C = C()
    volume: V | None = None
    old: Old = Old()
    wrong: str = ""


class Facts:
    """What a controller knows, as its machines ask for it."""

    claim_rollback = True
    delayed_binding = True
    classes = LATE

    def __init__(self, name: str, volume: Volume | None) -> None:
        self._name, self._volume = name, volume

    def volume(self, name: str) -> Volume | None:
        return self._volume if name == self._name else None

    def best_volume(self, claim: claims_view.Claim, *, delayed: bool) -> Volume | None:
        volume = self._volume
        reference = volume.spec.claim_ref if volume is not None else None
        return volume if reference is not None and reference.uid == UID else None

    def default_class(self) -> str | None:
        return None

    def waiting_pods(self, claim: claims_view.Claim) -> Iterable[str]:
        return ()

    def pods_near(self, claim: claims_view.Claim) -> Iterable[str]:
        return ()


class Server:
    """A client that answers at once, with what is true now."""

    def __init__(self, model: "CleanClaimModel", state: State) -> None:
        self._model, self._state = model, state

    async def get(self, kind: Kind[Any], name: str, *, namespace: str = "") -> Any:  # noqa: ANN401  any kind
        if kind is CLAIM:
            return self._model.claim_view(self._state.claim)
        if kind is VOLUME and self._state.volume is not None:
            return self._model.volume_view(self._state.volume)
        if kind is STORAGE_CLASS:
            return LATE["late"]
        raise NotFound(name)

    async def list(self, kind: Kind[Any], *, namespace: str = "") -> "Nothing":
        return Nothing()


class Nothing:
    items: tuple[()] = ()


@dataclass(frozen=True)
class Rules:
    """What may be taken away to see whether the model notices."""

    #: Writes of which the old controller looks at the server first.
    second_looks: frozenset[type] = frozenset(
        {UnbindClaim, ForsakeVolume, ReleaseVolume, EndRollback, PointClaim, SetClaimStatus}
    )
    compares: bool = True
    server_wants_clean: bool = True
    clean_only_without_volume: bool = True
    mark_is_guarded: bool = True
    node_says_so_first: bool = True


class CleanClaimModel:
    def __init__(self, *, made: bool, rules: Rules | None = None) -> None:
        """`made` is for a volume that a provisioner makes and deletes; the other is there and is freed."""
        self._made = made
        self._name = MADE if made else FOUND
        self._rules = rules or Rules()

    @cache  # noqa: B019  a model lives as long as its test
    def claim_view(self, claim: C) -> claims_view.Claim:
        marks = {keys.BOUND_BY_CONTROLLER: keys.YES} if claim.bound else {}
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
            annotations={keys.PROVISIONED_BY: "csi.example.com"}
            if self._made
            else {keys.BOUND_BY_CONTROLLER: keys.YES},
            reclaim="Delete" if self._made else "Retain",
            claim_ref=claim_ref(name="c", uid=uid) if uid is not None else None,
            phase=volume.phase,
            version=repr(volume),
        )

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        if state.wrong:
            return
        yield from self._world(state)
        yield from self._controller(state)
        yield from self._old(state)

    def _world(self, state: State) -> Iterator[tuple[str, State]]:
        claim, volume = state.claim, state.volume
        if not claim.bound and not claim.mark and (volume is None or volume.ref == "none"):
            yield "somebody gives the claim a volume", _put(state, volume=V())
        if claim.bound or claim.mark in ("", keys.YES) or not self._rules.mark_is_guarded:
            for mark in ("", keys.YES, self._name):
                yield f"somebody writes {mark!r} into the mark", _put(state, claim=claim._replace(mark=mark))
        if claim.bound and (may_unbind(self.claim_view(claim)) or not self._rules.server_wants_clean):
            wrong = "a used volume was taken from its claim" if volume is not None and volume.used else ""
            yield "somebody clears volumeName", _put(state, claim=claim._replace(bound=False))._replace(wrong=wrong)
        forged = claim._replace(clean="True")
        if not claim.bound or not self._rules.clean_only_without_volume:
            yield "somebody calls the claim clean", _put(state, claim=forged)
        if claim.bound and volume is not None and volume.ref == "claim":
            told = claim._replace(clean="False") if claim.clean == "True" else claim
            if self._rules.node_says_so_first:
                yield "a node says that it will use the volume", _put(state, claim=told)
            if told == claim or not self._rules.node_says_so_first:
                yield "a pod uses the volume", _put(state, volume=volume._replace(used=True))
        if self._made and volume is not None and volume.phase == "Released":
            wrong = "a used volume was deleted" if volume.used else ""
            yield "the provisioner deletes the volume", _put(state, volume=None)._replace(wrong=wrong)

    def _controller(self, state: State) -> Iterator[tuple[str, State]]:
        view = self.volume_view(state.volume) if state.volume is not None else None
        claim = self.claim_view(state.claim)
        step = claims.next_step(claim, Facts(self._name, view))
        if step.write is not None:
            order = _order(step.write)
            yield f"the controller: {order.what.__name__}", self._written(state, order)
            if state.old.late is None and order.what in (ForsakeVolume, ReleaseVolume):
                late = state.old._replace(late=(order, True))
                yield f"the controller sends what will be late: {order.what.__name__}", state._replace(old=late)
        if view is not None:
            reference = view.spec.claim_ref
            behind = claim if reference is not None and reference.uid == UID else None
            step = volumes.next_step(view, behind)
            if step.write is not None:
                yield (
                    f"the controller, of the volume: {type(step.write).__name__}",
                    self._written(state, _order(step.write)),
                )

    def _old(self, state: State) -> Iterator[tuple[str, State]]:
        old = state.old
        if old.doing is not None:
            order, newest = old.doing
            done = state._replace(old=Old(late=old.late))
            yield "the old controller crashes", done
            if newest or not self._rules.compares:
                yield f"the old controller: {order.what.__name__}", self._written(done, order)
            return
        if old.late is not None and (old.late[1] or not self._rules.compares):
            yield "the late write arrives", self._written(state._replace(old=old._replace(late=None)), old.late[0])
        yield "the old controller looks at the claim", state._replace(old=old._replace(claim=(state.claim, True)))
        yield "the old controller looks at the volume", state._replace(old=old._replace(volume=(state.volume, True)))
        if old.claim is None or old.volume is None:
            return
        (seen, claim_newest), (known, volume_newest) = old.claim, old.volume
        claim, view = self.claim_view(seen), self.volume_view(known) if known is not None else None
        facts = Facts(self._name, view)
        step = claims.next_step(claim, facts)
        if step.write is None or self._spoken_against(state, step, claim, facts):
            return
        order = _order(step.write)
        newest = volume_newest if order.what in OF_VOLUME else claim_newest
        # What it knew does not matter any more: it decides anew after this.
        decided = Old(doing=(order, newest), late=old.late)
        yield f"the old controller decides: {order.what.__name__}", state._replace(old=decided)

    def _spoken_against(self, state: State, step: Step, claim: claims_view.Claim, facts: Facts) -> bool:
        if type(step.write) not in self._rules.second_looks:
            return False
        looks = SecondLooks(Server(self, state), facts)  # type: ignore[arg-type]  # as much of both as is asked
        return bool(_immediately(looks.against(step, claim)))

    def _written(self, state: State, order: Order) -> State:
        """What the server makes of a write to the newest object."""
        return self._claim_written(state, order) if order.what not in OF_VOLUME else _volume_written(state, order)

    def _claim_written(self, state: State, order: Order) -> State:
        claim, volume = state.claim, state.volume
        if order.what is MarkClean:
            return state if claim.bound else _put(state, claim=claim._replace(clean="True"))
        if order.what is PointClaim:
            stolen = "" if volume is not None and volume.ref == "claim" else "bound to a volume that is not its own"
            return _put(state, claim=claim._replace(bound=True))._replace(wrong=stolen)
        if order.what is SetClaimStatus:
            lost = "the claim is lost" if order.phase == "Lost" else ""
            return _put(state, claim=claim._replace(phase=order.phase))._replace(wrong=lost)
        if order.what is EndRollback:
            return _put(state, claim=claim._replace(mark=""))
        assert order.what is UnbindClaim, f"nobody asks for {order}"
        if not may_unbind(self.claim_view(claim)):
            return state
        taken = "a used volume was taken from its claim" if volume is not None and volume.used else ""
        return _put(state, claim=claim._replace(bound=False, mark=self._name))._replace(wrong=taken)


def _volume_written(state: State, order: Order) -> State:
    volume = state.volume
    if volume is None:
        return state
    if order.what is SetVolumePhase:
        return _put(state, volume=volume._replace(phase=order.phase))
    if order.what is ReserveVolume:
        return _put(state, volume=volume._replace(ref="claim"))
    taken = "a volume was taken from a bound claim" if state.claim.bound else ""
    ref = "gone" if order.what is ForsakeVolume else "none"
    return _put(state, volume=volume._replace(ref=ref))._replace(wrong=taken)


def _order(write: Write) -> Order:
    return Order(type(write), write.phase if isinstance(write, SetClaimStatus | SetVolumePhase) else "")


def _put(state: State, *, claim: C | None = None, volume: V | str | None = "") -> State:
    """The state after a write: whoever looked before has seen an older object."""
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
    """The result of a coroutine that waits for nothing."""
    try:
        answer.send(None)
    except StopIteration as done:
        said: str = done.value
        return said
    raise AssertionError("it waits")


def wrong(state: State) -> str:
    return state.wrong
