"""Model of the replacement of a bound claim that no pod ever used, with pods that begin to use it at any moment.

The rules are the production ones: the decision, the history of what a watch has shown, and the next step of a record.
The controller reads the claim, then the volume, decides with the pods of its watch, and writes later; it may crash at
any point, and a write that it has sent may take effect afterwards. Its watch shows changes of pods late; the list of
pods before the deletion may be as old as the finalizer. Writes take effect only if the object is unchanged since it was
read. A kubelet that finds the claim bound and not being deleted has used the volume.
Versions are those of the few changes that are compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from mooring.api import well_known
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.unused.proof import (
    BoundPair,
    UnusedRefusal,
    Usage,
    UsageHistory,
    WatchPosition,
    replacement_refusal,
)
from mooring.volumes.unused.record import (
    FINALIZER,
    UNUSED,
    AwaitFinalizers,
    AwaitWatch,
    CreateReplacement,
    DeleteUnusedClaim,
    ForgetReplacement,
    GuardClaim,
    ListPods,
    MarkUnused,
    ReleaseClaim,
    ReplacementRecord,
    ReplacementState,
    RestorePolicy,
    RetainVolume,
    ReturnVolume,
    is_guarded,
    next_replacement_step,
)
from support.builders import a_claim, a_class, a_pod, a_volume, claim_ref

OLD: Final = "11111111-2222-3333-4444-555555555555"
NEW: Final = "another"
NAME: Final = f"pvc-{OLD}"
CLASS: Final = a_class(name="late", provisioner="csi.example.com", annotations={well_known.UNUSED_CLAIMS: "0"})
NOW: Final = 1e10
REJECTED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
OF_VOLUME: Final = (RetainVolume, MarkUnused, ReturnVolume, RestorePolicy)
OF_CLAIM: Final = (GuardClaim, DeleteUnusedClaim, ReleaseClaim)


class C(NamedTuple):
    """The claim."""

    uid: str = OLD
    bound: bool = False
    guarded: bool = False
    protected: bool = True
    #: Version at which it was deleted; 0 if it is not being deleted.
    deleted: int = 0


class V(NamedTuple):
    policy: str
    #: The uid in its claimRef.
    ref: str = OLD
    marked: bool = False
    used: bool = False


class Watch(NamedTuple):
    """What a process has observed."""

    listed: int = 0
    seen: int = 0
    #: Version at which the claim was last observed without a volume; -1 if never.
    without_volume: int = -1
    #: The same, once its binding was observed.
    unbound: int = -1
    #: Version of the last observed deletion of a pod with a node; -1 for none.
    left: int = -1
    #: Whether its cache has a pod with a node.
    cached: bool = False
    #: Changes of that pod which are not observed yet: the version, and whether it exists.
    unseen: tuple[tuple[int, bool], ...] = ()


class Order(NamedTuple):
    """A write that was decided: its type, and whether its object is unchanged since it was read."""

    what: type
    current: bool = True


class State(NamedTuple):
    claim: C | None = C()
    volume: V | None = None
    #: A pod with a node: "", "node", or "using".
    pod: str = ""
    pods: int = 0
    #: Whether that pod had its node when the claim got the finalizer.
    before_guard: bool = False
    #: Whether a list since the last change of the claim has a pod with a node; None without such a list.
    listed: bool | None = None
    #: Whether an unschedulable pod uses the claim.
    blocked: bool = True
    record: bool = False
    version: int = 1
    watch: Watch = Watch()
    #: The claim as the controller has read it, and whether it is still so.
    read: tuple[C | None, bool] | None = None
    order: Order | None = None
    #: Of a process that has crashed.
    late: Order | None = None
    crashes: int = 0
    wrong: str = ""


@dataclass(frozen=True)
class Rules:
    """The protections outside the functions of production; tests remove one to see that the model detects it."""

    compares: bool = True
    #: A kubelet does not mount the volume of a claim that is being deleted.
    kubelet_reads_claim: bool = True
    #: The watch tells when it had to list again.
    lists_are_known: bool = True
    #: The proof ends at the deletion, not at the last event.
    waits_for_watch: bool = True


class UnusedClaimModel:
    def __init__(self, *, policy: str = "Delete", pods: int = 2, crashes: int = 1, rules: Rules | None = None) -> None:
        """`pods` is how many pods get a node, one after the other; `crashes`, how often the controller ends."""
        self._policy = policy
        self._pod_limit, self._crash_limit = pods, crashes
        self._rules = rules or Rules()
        self._record = ReplacementRecord("default", "c", OLD, NAME, "volume-uid", policy, {})

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        if state.wrong:
            return
        yield from self._cluster(state)
        yield from self._pods(state)
        yield from self._watch(state)
        yield from self._controller(state)

    def _cluster(self, state: State) -> Iterator[tuple[str, State]]:
        claim, volume = state.claim, state.volume
        if claim is not None and claim.uid == OLD and not claim.bound:
            bound = _claim_put(state, claim._replace(bound=True))
            yield "the claim is bound", bound._replace(volume=V(self._policy), version=state.version + 1)
        if claim is not None and claim.deleted and claim.protected and not state.pod:
            yield "the protection releases the claim", _without_finalizer(state, claim._replace(protected=False))
        if claim is None:
            yield "a StatefulSet creates the claim", _claim_put(state, C(NEW))
        gone = claim is None or claim.uid != OLD
        if gone and volume is not None and volume.ref == OLD and volume.policy == "Delete":
            wrong = "storage that a pod had was deleted" if volume.used else ""
            yield "the provisioner deletes the volume", _volume_put(state, None)._replace(wrong=wrong)
        if claim is not None and claim.uid == NEW and not claim.bound:
            if volume is not None and volume.ref == "":
                both = _claim_put(state, claim._replace(bound=True))
                yield "the next claim is bound to the volume", _volume_put(both, volume._replace(ref=NEW))
            else:
                wrong = "a claim lost the volume that a pod had" if volume is not None and volume.used else ""
                yield "another volume is bound", _claim_put(state, claim._replace(bound=True))._replace(wrong=wrong)

    def _pods(self, state: State) -> Iterator[tuple[str, State]]:
        claim, volume = state.claim, state.volume
        if not state.pod and state.pods < self._pod_limit:
            yield "a pod gets a node", _pod_event(state, exists=True)._replace(pod="node", pods=state.pods + 1)
        bound = claim is not None and claim.bound and volume is not None and claim.uid == volume.ref
        deleting = claim is not None and claim.deleted and self._rules.kubelet_reads_claim
        if state.pod == "node" and bound and volume is not None and not deleting:
            yield "the pod uses the volume", _volume_put(state, volume._replace(used=True))._replace(pod="using")
        if state.pod:
            yield "the pod is deleted", _pod_event(state, exists=False)._replace(pod="", before_guard=False)
        if state.blocked:
            yield "the unschedulable pod is deleted", state._replace(blocked=False)

    def _watch(self, state: State) -> Iterator[tuple[str, State]]:
        watch = state.watch
        if watch.unseen:
            (version, exists), *rest = watch.unseen
            shown = watch._replace(seen=version, cached=exists, unseen=tuple(rest))
            shown = shown if exists else shown._replace(left=version)
            yield "the watch shows the pod", state._replace(watch=shown)
        elif watch.seen < state.version:
            yield "the watch is at the newest version", state._replace(watch=watch._replace(seen=state.version))
        claim = state.claim
        if claim is not None and claim.uid == OLD:
            if not claim.bound:
                shown = watch._replace(without_volume=state.version)
            else:
                shown = watch._replace(unbound=watch.without_volume)
            if shown != watch:
                yield "the watch shows the claim", state._replace(watch=shown)
        if watch.unseen:
            listed = state.version if self._rules.lists_are_known else watch.listed
            again = watch._replace(listed=listed, seen=state.version, unseen=(), cached=bool(state.pod))
            yield "the pods are listed again", state._replace(watch=again)

    def _controller(self, state: State) -> Iterator[tuple[str, State]]:
        if state.late is not None:
            late = state._replace(late=None)
            yield f"a late write: {state.late.what.__name__}", self._written(late, state.late)
        if state.crashes < self._crash_limit and (state.record or state.order is not None):
            new = Watch(listed=state.version, seen=state.version, cached=bool(state.pod))
            late = state.order if state.order is not None and state.order.what is not ListPods else None
            crashed = state._replace(watch=new, read=None, order=None, late=late, crashes=state.crashes + 1)
            yield "the controller crashes", crashed._replace(listed=None)
        if state.order is not None:
            done = state._replace(order=None)
            yield f"the controller: {state.order.what.__name__}", self._written(done, state.order)
        elif state.read is None:
            yield "the controller reads the claim", state._replace(read=(state.claim, True))
        else:
            order = self._decide(state, state.read[0])
            forgotten = state._replace(read=None)
            if order is None:
                yield "the controller waits", forgotten
            else:
                current = state.read[1] if order in OF_CLAIM else True
                decided = forgotten._replace(order=Order(order, current))
                yield f"the controller decides: {order.__name__}", decided

    def _decide(self, state: State, claim: C | None) -> type | None:
        """The type of the next write, from the claim as it was read, the volume as it is, and the pods of the watch and
        of the last list."""
        view = claim_view(claim) if claim is not None else None
        old = claim is not None and claim.uid == OLD
        refusal: UnusedRefusal | None = None
        usage = Usage.UNKNOWN
        if claim is not None and old:
            usage = self._usage(state, claim.deleted)
            pods = _pod_views(blocked=state.blocked, node=state.watch.cached or bool(state.listed))
            volume = volume_view(state.volume) if state.volume is not None else None
            refusal = replacement_refusal(BoundPair(claim_view(claim), volume, CLASS, pods, (), usage), NOW)
        if not state.record:
            if view is not None and is_guarded(view):
                return ReleaseClaim
            return ReplacementRecord if old and refusal is None else None
        volume = volume_view(state.volume) if state.volume is not None else None
        if claim is not None and claim.deleted:
            refusal = None
        listed = state.listed is not None
        step = next_replacement_step(self._record, ReplacementState(view, volume, refusal, usage, listed))
        return None if isinstance(step, AwaitFinalizers | AwaitWatch) else type(step)

    def _usage(self, state: State, until: int) -> Usage:
        until = until if self._rules.waits_for_watch else 0
        watch = state.watch
        return _usage(watch.unbound, watch.left, watch.cached, watch.listed, watch.seen, until)

    def _written(self, state: State, order: Order) -> State:
        if order.what is ReplacementRecord:
            return state._replace(record=True)
        if order.what is ForgetReplacement:
            return state._replace(record=False)
        if order.what is ListPods:
            return state._replace(listed=bool(state.pod))
        if order.what is CreateReplacement:
            return _claim_put(state, C(NEW)) if state.claim is None else state
        if not order.current and self._rules.compares:
            return state
        if order.what in OF_VOLUME:
            return self._volume_written(state, order.what)
        claim = state.claim
        if claim is None or claim.uid != OLD:
            return state
        if order.what is GuardClaim:
            guarded = _claim_put(state, claim._replace(guarded=True))._replace(before_guard=bool(state.pod))
            return state if claim.deleted else guarded
        if order.what is ReleaseClaim:
            return _without_finalizer(state, claim._replace(guarded=False))
        version = state.version + 1
        deleted = claim._replace(deleted=claim.deleted or version)
        wrong = "a claim was deleted under a pod that had a node before the finalizer" if state.before_guard else ""
        return _without_finalizer(state._replace(version=version, wrong=wrong), deleted)

    def _volume_written(self, state: State, what: type) -> State:
        volume = state.volume
        if volume is None:
            return state
        if what is RetainVolume:
            return _volume_put(state, volume._replace(policy="Retain"))
        restored = volume._replace(policy=self._policy)
        if what is MarkUnused:
            restored = restored._replace(marked=True)
        if what is ReturnVolume:
            restored = restored._replace(ref="")
        return _volume_put(state, restored)


def _pod_event(state: State, *, exists: bool) -> State:
    version = state.version + 1
    watch = state.watch._replace(unseen=(*state.watch.unseen, (version, exists)))
    return state._replace(version=version, watch=watch)


def _without_finalizer(state: State, claim: C) -> State:
    """A claim that is being deleted goes with its last finalizer."""
    return _claim_put(state, claim if claim.guarded or claim.protected or not claim.deleted else None)


def _claim_put(state: State, claim: C | None) -> State:
    """Earlier reads of the claim are stale."""
    read, order, late = state.read, state.order, state.late
    if order is not None and order.what in OF_CLAIM:
        order = order._replace(current=False)
    if late is not None and late.what in OF_CLAIM:
        late = late._replace(current=False)
    stale = (read[0], False) if read is not None else None
    return state._replace(claim=claim, read=stale, order=order, late=late, listed=None)


def _volume_put(state: State, volume: V | None) -> State:
    order, late = state.order, state.late
    if state.volume is not None and volume is not None and state.volume._replace(used=volume.used) == volume:
        # Use is not written to the object.
        return state._replace(volume=volume)
    if order is not None and order.what in OF_VOLUME:
        order = order._replace(current=False)
    if late is not None and late.what in OF_VOLUME:
        late = late._replace(current=False)
    return state._replace(volume=volume, order=order, late=late)


@cache
def claim_view(claim: C, *, bound: bool | None = None, version: int = 1) -> Claim:
    is_bound = claim.bound if bound is None else bound
    finalizers = [FINALIZER] if claim.guarded else []
    finalizers += [well_known.PVC_PROTECTION] if claim.protected else []
    return a_claim(
        name="c",
        uid=claim.uid,
        storage_class="late",
        volume=NAME if is_bound else "",
        bound=is_bound,
        annotations={well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET} if is_bound else {},
        finalizers=finalizers,
        deleting=bool(claim.deleted),
        version=str(version),
    )


@cache
def volume_view(volume: V) -> Volume:
    marks = {well_known.PROVISIONED_BY: "csi.example.com"}
    return a_volume(
        name=NAME,
        uid="volume-uid",
        storage_class="late",
        node="n1",
        reclaim=volume.policy,
        annotations=marks | ({UNUSED: OLD} if volume.marked else {}),
        claim_ref=claim_ref(name="c", uid=volume.ref),
    )


@cache
def _pod_views(*, blocked: bool, node: bool) -> tuple[Pod, ...]:
    waiting = a_pod(name="waiting", claims=["c"], conditions=[REJECTED])
    return (*((waiting,) if blocked else ()), *((_with_node(),) if node else ()))


def _with_node() -> Pod:
    return a_pod(name="other", claims=["c"], node="n1")


@cache
def _usage(unbound: int, left: int, node: bool, listed: int, seen: int, until: int) -> Usage:
    """The production history, as if it had observed this."""
    history = UsageHistory()
    if unbound >= 0:
        before = claim_view(C(), bound=False, version=unbound)
        history.claim_changed(before, claim_view(C(bound=True)), unbound)
    if left >= 0:
        history.pod_changed(_with_node(), None, left - 1)
        history.pod_changed(None, _pod_views(blocked=True, node=False)[0], left)
    pods = _pod_views(blocked=True, node=node)
    return history.usage(claim_view(C(bound=True)), pods, WatchPosition(listed, seen), until=until)


def violation(state: State) -> str:
    return state.wrong


def is_settled(state: State) -> bool:
    """A claim is there, and nothing of a replacement is left."""
    claim = state.claim
    return claim is not None and claim.bound and not (state.record or claim.guarded or claim.deleted)


def has_its_policy(state: State) -> bool:
    return is_settled(state) and (state.volume is None or state.volume.policy == "Delete")
