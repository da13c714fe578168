"""The binding cycle of a pod: write its volumes (PreBind), wait until they are bound, bind the pod (Bind).

Writes go out in order, each with the resourceVersion that the decision was made on; the wait is for informer events,
never a poll. A write is retried while the API server gives no final answer, and a refusal counts only after re-reading
the object: an earlier try may have succeeded with its response lost. Nothing that was written is undone, except holds.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final

from mooring.api import well_known
from mooring.api.errors import ApiError
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.times import to_time
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.client.contract import Client, Unreachable
from mooring.client.informer import Informers
from mooring.clock import Clock, set_within
from mooring.control.component import Context
from mooring.control.feature_gates import PROVISIONING_ROLLBACK
from mooring.control.invariants import Invariant
from mooring.control.leader_election import LeaseMonitor
from mooring.multimap import Multimap
from mooring.scheduler.binding.progress import InformerLookups, objects_of, progress_of
from mooring.scheduler.binding.writes import BindFailed as BindFailed
from mooring.scheduler.binding.writes import RetriedWrites
from mooring.scheduler.preemption.nominator import nomination
from mooring.volumes.binding import HOLD_NAMESPACE, BindingPlan, Provisioning, StaticBinding, held_reference
from mooring.volumes.holds import group_objects, objects
from mooring.volumes.holds.group_record import UNMARKED, GroupMark


class StaticHolds:
    """Holds on existing volumes of a pod that needs several.

    While a coordinator is running, the binder holds such volumes instead of binding them to their claims, and the
    coordinator commits them once the pod has all its volumes. Without one, volumes are bound one by one as by
    kube-scheduler.
    """

    def __init__(self, client: Client, clock: Clock, *, namespace: str, is_active: Callable[[], bool]) -> None:
        """`is_active`: all components that take part in holding volumes have the feature."""
        self._clock = clock
        self._is_active = is_active
        self._namespace = namespace
        self._coordinator = LeaseMonitor(client, clock, name=well_known.COORDINATOR_LEASE, namespace=namespace)

    async def needed(self, plan: BindingPlan) -> bool:
        """Whether the plan could succeed in part, and a coordinator is running."""
        if not plan.requires_hold or not plan.static or not self._is_active():
            return False
        return await self._coordinator.is_held()

    def hold(self, binding: StaticBinding, node: str, *, group_uid: str = "", mark: GroupMark = UNMARKED) -> MergePatch:
        """With the uid of a PodGroup and the mark of its record: for a group, whose volumes are committed together."""
        metadata: dict[str, Any] = objects.hold_metadata(binding.claim, node, since=to_time(self._clock.now()))
        if group_uid:
            metadata = group_objects.with_group(metadata, group_uid, mark)
        metadata["resourceVersion"] = binding.volume.metadata.resource_version
        reference = held_reference(binding.claim.uid, hold_namespace=self._namespace)
        return MergePatch({"metadata": metadata, "spec": {"claimRef": reference.body()}})

    def release(self, volume: Volume, claim_uid: str) -> MergePatch:
        return MergePatch(objects.rollback_patch(volume, claim_uid, "", hold_namespace=self._namespace))

    def holds(self, volume: Volume, claim_uid: str) -> bool:
        return objects.held_for(volume, hold_namespace=self._namespace) == claim_uid


class Wakeups:
    """Sets the events of tasks that wait for objects, by kind and key, to change. Call `follow` once, first."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        #: In the order of subscription: a set would make the order random.
        self._events: Multimap[tuple[str, str], asyncio.Event] = Multimap()

    async def follow(self) -> None:
        for kind in (POD, NODE, CLAIM, VOLUME):
            await self._informers.of(kind).subscribe(partial(self._wake, kind.kind))

    def subscribe(self, objects: Iterable[tuple[str, str]], wakeup: asyncio.Event) -> None:
        for item in objects:
            self._events.add(item, wakeup)

    def unsubscribe(self, objects: Iterable[tuple[str, str]], wakeup: asyncio.Event) -> None:
        for item in objects:
            self._events.discard(item, wakeup)

    def _wake(self, kind: str, before: ApiObject | None, after: ApiObject | None) -> None:
        item = before if after is None else after
        if item is not None:
            for wakeup in self._events.get((kind, item.key), ()):
                wakeup.set()


#: Seconds a pod may wait for its volumes; kube-scheduler's bindTimeoutSeconds.
BIND_TIMEOUT: Final = 600.0
#: Seconds of waiting for volumes after which nominatedNodeName is written. kube-scheduler writes it for every pod with
#: volumes to bind; most are bound sooner.
NOMINATE_AFTER_SECONDS: Final = 5.0
#: Pods with such a nominatedNodeName: the next leader counts each of them in every decision.
MAX_NOMINATED_PODS: Final = 100
#: How often the request that binds the pod is repeated after an internal error of the API server, as in kube-scheduler.
INTERNAL_ERROR_RETRIES: Final = 3


class Binder:
    """Binds any number of pods concurrently. Call `wakeups.follow` once, before the first `bind`."""

    def __init__(
        self,
        context: Context,
        *,
        driver_over_limit: Callable[[Pod, str], str],
        timeout: float = BIND_TIMEOUT,
        hold_namespace: str = HOLD_NAMESPACE,
    ) -> None:
        """`driver_over_limit` returns the driver whose volume limit the pod exceeds on a node, else ""."""
        is_active = partial(context.is_active, PROVISIONING_ROLLBACK)
        self._holds = StaticHolds(context.client, context.clock, namespace=hold_namespace, is_active=is_active)
        self._driver_over_limit = driver_over_limit
        self._client = context.client
        self._require = context.require
        self._clock = context.clock
        self._writes = RetriedWrites(context.client, context.clock, context.rng)
        self._timeout = timeout
        of = context.informers.of
        self._lookups = InformerLookups(
            of(POD).get, of(NODE).get, of(CLAIM).get, of(VOLUME).get, of(CSI_NODE).get, self._holds.holds
        )
        #: Uids of waiting pods with a written nominatedNodeName.
        self._nominated: set[str] = set()
        self.wakeups = Wakeups(context.informers)

    async def bind(self, pod: Pod, plan: BindingPlan, *, awaited: Collection[str] = ()) -> None:
        """Bind the volumes and then the pod. Raises BindFailed only. `awaited` are the keys of claims that are not in
        the plan and get their volume for other pods of its group, or from the coordinator."""
        deadline = self._clock.monotonic() + self._timeout
        try:
            written = await self._write(plan, deadline)
            await self._volumes_bound(pod, plan, written, deadline, awaited)
        except (BindFailed, ApiError) as failure:
            await self._release_holds(plan)
            text = f'running PreBind plugin "VolumeBinding": {failure}'
            provisioning_failed = isinstance(failure, BindFailed) and failure.provisioning_failed
            raise BindFailed(text, provisioning_failed=provisioning_failed) from failure
        self._require_bound(pod, plan)
        try:
            await self._assign(pod, plan.node, deadline)
        except BindFailed as failure:
            raise BindFailed(f'binding rejected: running Bind plugin "DefaultBinder": {failure}') from failure

    def _require_bound(self, pod: Pod, plan: BindingPlan) -> None:
        for planned in (*(each.claim for each in plan.static), *(each.claim for each in plan.provision)):
            claim = self._lookups.claim(planned.key)
            is_bound = claim is not None and claim.uid == planned.uid and claim.fully_bound
            detail = f"claim {planned.key} is not bound, and the pod is about to be bound to node {plan.node}"
            self._require(is_bound, Invariant.CLAIMS_BOUND_BEFORE_POD, pod, POD, detail)

    async def _write(self, plan: BindingPlan, deadline: float) -> dict[str, int]:
        """The resourceVersions that the writes returned, by key."""
        written: dict[str, int] = {}
        holds = await self._writes.retry(lambda: self._holds.needed(plan), deadline)
        for binding in plan.static:
            is_prebound = partial(self._is_prebound, binding)
            # A volume that the user reserved for the claim is bound in any case.
            patch = self._holds.hold(binding, plan.node) if holds and is_our_choice(binding) else prebinding(binding)
            volume = await self._writes.write(VOLUME, binding.volume, patch, is_prebound, deadline)
            written[volume.key] = int(volume.metadata.resource_version)
        for each in plan.provision:
            is_selected = partial(has_selected_node, each, plan.node)
            claim = await self._writes.write(CLAIM, each.claim, selection(each, plan.node), is_selected, deadline)
            written[claim.key] = int(claim.metadata.resource_version)
        return written

    def _is_prebound(self, binding: StaticBinding, current: Volume) -> bool:
        reference, uid = current.spec.claim_ref, binding.claim.uid
        is_reserved = (reference is not None and reference.uid == uid) or self._holds.holds(current, uid)
        return current.uid == binding.volume.uid and is_reserved

    async def _release_holds(self, plan: BindingPlan) -> None:
        """Release the holds for a pod that is requeued. The coordinator rolls back those that fail here."""
        for binding in plan.static:
            volume = self._lookups.volume(binding.volume.key)
            if volume is not None and self._holds.holds(volume, binding.claim.uid):
                with contextlib.suppress(ApiError, Unreachable):
                    await self._client.patch(VOLUME, volume.name, self._holds.release(volume, binding.claim.uid))

    async def _volumes_bound(
        self, pod: Pod, plan: BindingPlan, written: dict[str, int], deadline: float, awaited: Collection[str]
    ) -> None:
        wakeup = asyncio.Event()
        subscribed: set[tuple[str, str]] = set()
        nominate_at = self._clock.monotonic() + NOMINATE_AFTER_SECONDS
        try:
            lookups = self._lookups
            while not (progress := progress_of(pod, plan, written=written, lookups=lookups, awaited=awaited)).done:
                if progress.problem:
                    failed = progress.provisioning_failed
                    raise BindFailed(f"binding volumes: {progress.problem}", provisioning_failed=failed)
                now = self._clock.monotonic()
                if now >= deadline:
                    raise BindFailed("binding volumes: context deadline exceeded")
                if now >= nominate_at:
                    nominate_at = math.inf
                    await self._write_nominated_node(pod, plan.node)
                # The volumes of claims become known on the way.
                fresh = objects_of(pod, plan, self._lookups) - subscribed
                self.wakeups.subscribe(fresh, wakeup)
                subscribed |= fresh
                await set_within(wakeup, min(nominate_at, deadline) - self._clock.monotonic(), self._clock)
                wakeup.clear()
        finally:
            self._nominated.discard(pod.uid)
            self.wakeups.unsubscribe(subscribed, wakeup)
        # Since the node was chosen, limits may have been lowered and other schedulers may have bound pods.
        if driver := self._driver_over_limit(pod, plan.node):
            raise BindFailed(f'binding volumes: node "{plan.node}" takes no more volumes of driver "{driver}"')

    async def _write_nominated_node(self, pod: Pod, node: str) -> None:
        """For users, autoscalers and the next leader. Awaited before the pod is bound, so that a bound pod never gets
        one; nothing depends on its success."""
        if pod.status.nominated_node_name != node and len(self._nominated) < MAX_NOMINATED_PODS:
            self._nominated.add(pod.uid)
            patch = nomination(pod, node)
            with contextlib.suppress(ApiError, Unreachable):
                await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")

    async def _assign(self, pod: Pod, node: str, deadline: float) -> None:
        """Retrying is safe: a bound pod cannot be bound again."""
        try:
            await self._writes.retry(
                lambda: self._client.bind(pod.name, namespace=pod.namespace, uid=pod.uid, node=node),
                deadline,
                internal_errors=INTERNAL_ERROR_RETRIES,
            )
        except ApiError as error:
            current = await self._writes.reread(POD, pod, error, deadline)
            if current.uid != pod.uid or current.spec.node_name != node:
                raise BindFailed(error.message) from error


def prebinding(binding: StaticBinding) -> MergePatch:
    """The claimRef, with the bound-by-controller annotation if the plan chose the volume."""
    volume = binding.volume
    metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
    if is_our_choice(binding):
        key = well_known.BOUND_BY_CONTROLLER
        metadata["annotations"] = {key: volume.metadata.annotations[key]}
    return MergePatch({"metadata": metadata, "spec": {"claimRef": binding.claim.reference.body()}})


def is_our_choice(binding: StaticBinding) -> bool:
    """Whether the plan chose the volume, rather than the user: plans annotate their choice."""
    return well_known.BOUND_BY_CONTROLLER in binding.volume.metadata.annotations


def selection(provisioning: Provisioning, node: str) -> MergePatch:
    version = provisioning.claim.metadata.resource_version
    return MergePatch({"metadata": {"resourceVersion": version, "annotations": {well_known.SELECTED_NODE: node}}})


def has_selected_node(provisioning: Provisioning, node: str, current: Claim) -> bool:
    return current.uid == provisioning.claim.uid and current.selected_node == node
