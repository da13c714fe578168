"""The binder: carries out a decision. Volumes first, then the wait until they are bound, then the pod.

The shell around `binding_progress`. Writes go out strictly in order, each under the version the decision was made
on; the wait is for informer events, never a poll. Answers get lost: every write is repeated until some answer
arrives, and a refusal is believed only after looking whether the write had taken effect before. What was written is
not undone here: a volume given to a claim stays given, and the PV controller finishes that binding.
"""

import asyncio
import contextlib
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from mooring.api import keys
from mooring.api.errors import ApiError, Conflict, ServerTimeout, ServiceUnavailable, TooManyRequests
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.client.backoff import Backoff
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.control.invariants import Invariant
from mooring.scheduler.binding_progress import Seen, objects_of, progress_of
from mooring.scheduler.nominations import nomination
from mooring.scheduler.static_holds import StaticHolds
from mooring.volumes.plan import HOLD_NAMESPACE, BindingPlan, Provisioning, StaticBinding

V = TypeVar("V", bound=ApiObject)
T = TypeVar("T")

#: Seconds a pod may wait for its volumes; kube-scheduler's bindTimeoutSeconds.
BIND_TIMEOUT: Final = 600.0
#: Seconds that volumes may take before the pod says which node it is expected on. kube-scheduler says so of every pod
#: that has volumes to bind; most are bound before anybody has read it.
EXPECTED_AFTER: Final = 5.0
#: Pods that may say so at once: the next leader counts each of them as there whenever it decides about another.
EXPECTED_AT_ONCE: Final = 100
#: Seconds between two tries of a request that got no answer.
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0

#: No answer, or one after which the same request may succeed.
_PASSING: Final = (Unreachable, TooManyRequests, ServiceUnavailable, ServerTimeout)


class BindFailed(Exception):
    """The pod did not get its node. The text is for people, in kube-scheduler's form."""

    def __init__(self, text: str, *, given_back: bool = False) -> None:
        """`given_back` says that a provisioner could make no volume for that node."""
        super().__init__(text)
        self.given_back = given_back


class Binder:
    """Binds any number of pods at once. Call `follow` once, before the first `bind`."""

    def __init__(
        self,
        context: Context,
        *,
        exceeded_by: Callable[[Pod, str], str],
        timeout: float = BIND_TIMEOUT,
        holds: StaticHolds | None = None,
    ) -> None:
        """`exceeded_by` names the driver of which a pod has one volume too many on its node, "" where none is."""
        self._holds = holds or StaticHolds(context.client, context.clock, namespace=HOLD_NAMESPACE)
        self._exceeded_by = exceeded_by
        self._client = context.client
        self._invariants = context.invariants
        self._clock = context.clock
        self._rng = context.rng
        self._timeout = timeout
        self._informers = context.informers
        informers = context.informers
        self._seen = Seen(
            pod=informers.of(POD).get,
            node=informers.of(NODE).get,
            claim=informers.of(CLAIM).get,
            volume=informers.of(VOLUME).get,
            csi_node=informers.of(CSI_NODE).get,
            holds=self._holds.holds,
        )
        #: Pods that say where they are expected, by uid.
        self._expected: set[str] = set()
        #: Who waits for news about an object, in the order they began: sets would wake them in any order.
        self._listeners: defaultdict[tuple[str, str], dict[asyncio.Event, None]] = defaultdict(dict)

    async def follow(self) -> None:
        """Listen to what happens to pods, nodes, claims and volumes."""
        for kind in (POD, NODE, CLAIM, VOLUME):
            await self._listen(kind)

    async def bind(self, pod: Pod, plan: BindingPlan) -> None:
        """Bind the volumes and then the pod; BindFailed when that cannot be done, whatever the server answered."""
        deadline = self._clock.monotonic() + self._timeout
        try:
            written = await self._write(plan, deadline)
            await self._volumes_bound(pod, plan, written, deadline)
        except (BindFailed, ApiError) as failure:
            await self._lift(plan)
            text = f'running PreBind plugin "VolumeBinding": {failure}'
            given_back = isinstance(failure, BindFailed) and failure.given_back
            raise BindFailed(text, given_back=given_back) from failure
        self._require_bound(pod, plan)
        try:
            await self._assign(pod, plan.node, deadline)
        except BindFailed as failure:
            raise BindFailed(f'binding rejected: running Bind plugin "DefaultBinder": {failure}') from failure

    def _require_bound(self, pod: Pod, plan: BindingPlan) -> None:
        for planned in (*(each.claim for each in plan.static), *(each.claim for each in plan.provision)):
            claim = self._seen.claim(planned.key)
            is_bound = claim is not None and claim.uid == planned.uid and claim.fully_bound
            detail = f"claim {planned.key} is not bound, and the pod is about to be bound to node {plan.node}"
            self._invariants.require(is_bound, Invariant.CLAIMS_BOUND_BEFORE_POD, pod, detail)

    async def _write(self, plan: BindingPlan, deadline: float) -> dict[str, int]:
        """The versions our writes made, by key."""
        written: dict[str, int] = {}
        holds = await self._patiently(lambda: self._holds.wanted(plan), deadline)
        for binding in plan.static:
            is_given = partial(self._is_given, binding)
            # What the user has reserved for the claim is the claim's, whatever becomes of the others.
            patch = self._holds.hold(binding, plan.node) if holds and _is_our_choice(binding) else _prebinding(binding)
            volume = await self._write_one(VOLUME, binding.volume, patch, is_given, deadline)
            written[volume.key] = int(volume.metadata.resource_version)
        for wish in plan.provision:
            is_sent = partial(_is_sent, wish, plan.node)
            claim = await self._write_one(CLAIM, wish.claim, _selection(wish, plan.node), is_sent, deadline)
            written[claim.key] = int(claim.metadata.resource_version)
        return written

    def _is_given(self, binding: StaticBinding, now: Volume) -> bool:
        reference, uid = now.spec.claim_ref, binding.claim.uid
        is_given = (reference is not None and reference.uid == uid) or self._holds.holds(now, uid)
        return now.uid == binding.volume.uid and is_given

    async def _lift(self, plan: BindingPlan) -> None:
        """Let go of what is held for a pod that goes back to the queue. What is missed here the coordinator lifts."""
        for binding in plan.static:
            volume = self._seen.volume(binding.volume.key)
            if volume is not None and self._holds.holds(volume, binding.claim.uid):
                with contextlib.suppress(ApiError, Unreachable):
                    await self._client.patch(VOLUME, volume.name, self._holds.lift(volume, binding.claim.uid))

    async def _write_one(
        self, kind: Kind[V], target: V, patch: MergePatch, is_done: Callable[[V], bool], deadline: float
    ) -> V:
        """Repeating is safe: the version in the patch lets it take effect once."""
        name, namespace = target.name, target.namespace
        try:
            return await self._patiently(lambda: self._client.patch(kind, name, patch, namespace=namespace), deadline)
        except ApiError as error:
            now = await self._look_again(kind, target, error, deadline)
            if not is_done(now):
                raise BindFailed(error.message) from error
            return now

    async def _volumes_bound(self, pod: Pod, plan: BindingPlan, written: dict[str, int], deadline: float) -> None:
        news = asyncio.Event()
        heard: set[tuple[str, str]] = set()
        alarm: asyncio.Task[None] | None = None
        telling = self._clock.monotonic() + EXPECTED_AFTER
        try:
            while not self._is_bound(pod, plan, written):
                if alarm is None or alarm.done():
                    now = self._clock.monotonic()
                    if now >= deadline:
                        raise BindFailed("binding volumes: context deadline exceeded")
                    if now >= telling:
                        telling = math.inf
                        await self._say_expected(pod, plan.node)
                    alarm = asyncio.create_task(
                        self._set_at(min(telling, deadline), news), name=f"patience for {pod.key}"
                    )
                # Which volume a claim gets may become known on the way.
                fresh = objects_of(pod, plan, self._seen) - heard
                self._hear(fresh, news)
                heard |= fresh
                await news.wait()
                news.clear()
        finally:
            self._expected.discard(pod.uid)
            if alarm is not None:
                alarm.cancel()
            self._ignore(heard, news)
        # Limits may have been lowered, and others may have placed pods, since the node was chosen.
        if driver := self._exceeded_by(pod, plan.node):
            raise BindFailed(f'binding volumes: node "{plan.node}" takes no more volumes of driver "{driver}"')

    async def _say_expected(self, pod: Pod, node: str) -> None:
        """For people, who see what takes long; for autoscalers; and for the next leader, who keeps the place. The pod
        is bound only after this is answered, so that it never says so of a pod that has its node."""
        if pod.status.nominated_node_name != node and len(self._expected) < EXPECTED_AT_ONCE:
            self._expected.add(pod.uid)
            patch = nomination(pod, node)
            with contextlib.suppress(ApiError, Unreachable):
                # SEEN: nothing depends on it.
                await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")

    def _is_bound(self, pod: Pod, plan: BindingPlan, written: dict[str, int]) -> bool:
        progress = progress_of(pod, plan, written=written, seen=self._seen)
        if progress.problem:
            raise BindFailed(f"binding volumes: {progress.problem}", given_back=progress.given_back)
        return progress.done

    async def _assign(self, pod: Pod, node: str, deadline: float) -> None:
        """Repeating is safe: a pod that has a node refuses another one."""
        try:
            await self._patiently(
                lambda: self._client.bind(pod.name, namespace=pod.namespace, uid=pod.uid, node=node), deadline
            )
        except ApiError as error:
            now = await self._look_again(POD, pod, error, deadline)
            if now.uid != pod.uid or now.spec.node_name != node:
                raise BindFailed(error.message) from error

    async def _look_again(self, kind: Kind[V], target: V, error: ApiError, deadline: float) -> V:
        """The object after a refused write: an earlier try whose answer got lost may have been the one that won."""
        if not isinstance(error, Conflict) and error.code < 500:
            raise BindFailed(error.message) from error
        name, namespace = target.name, target.namespace
        try:
            return await self._patiently(lambda: self._client.get(kind, name, namespace=namespace), deadline)
        except ApiError as gone:
            raise BindFailed(gone.message) from gone

    async def _patiently(self, request: Callable[[], Awaitable[T]], deadline: float) -> T:
        pause: Backoff | None = None
        while True:
            try:
                return await request()
            except _PASSING as error:
                if self._clock.monotonic() >= deadline:
                    raise BindFailed(str(error) or "no answer from the API server") from error
                pause = pause or Backoff(self._rng, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
                await self._clock.sleep(pause.delay())

    async def _set_at(self, deadline: float, news: asyncio.Event) -> None:
        await self._clock.sleep(deadline - self._clock.monotonic())
        news.set()

    def _hear(self, objects: Iterable[tuple[str, str]], news: asyncio.Event) -> None:
        """Set the event whenever something happens to one of the objects."""
        for item in objects:
            self._listeners[item][news] = None

    def _ignore(self, objects: Iterable[tuple[str, str]], news: asyncio.Event) -> None:
        for item in objects:
            del self._listeners[item][news]
            if not self._listeners[item]:
                del self._listeners[item]

    async def _listen(self, kind: Kind[ApiObject]) -> None:
        def tell(before: ApiObject | None, after: ApiObject | None) -> None:
            item = before if after is None else after
            if item is not None:
                for news in self._listeners.get((kind.kind, item.key), ()):
                    news.set()

        await self._informers.of(kind).subscribe(tell)


def _prebinding(binding: StaticBinding) -> MergePatch:
    """The claimRef, and the mark that it was not the user who chose, where that is so."""
    volume = binding.volume
    metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
    if keys.BOUND_BY_CONTROLLER in volume.metadata.annotations:
        metadata["annotations"] = {keys.BOUND_BY_CONTROLLER: volume.metadata.annotations[keys.BOUND_BY_CONTROLLER]}
    return MergePatch({"metadata": metadata, "spec": {"claimRef": binding.claim.reference.body()}})


def _is_our_choice(binding: StaticBinding) -> bool:
    """Nobody reserved the volume for the claim before: plans mark what they chose."""
    return keys.BOUND_BY_CONTROLLER in binding.volume.metadata.annotations


def _selection(wish: Provisioning, node: str) -> MergePatch:
    metadata = {
        "resourceVersion": wish.claim.metadata.resource_version,
        "annotations": {keys.SELECTED_NODE: node},
    }
    return MergePatch({"metadata": metadata})


def _is_sent(wish: Provisioning, node: str, now: Claim) -> bool:
    return now.uid == wish.claim.uid and now.selected_node == node
