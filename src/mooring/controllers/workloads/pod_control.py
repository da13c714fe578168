"""Pods and ControllerRevisions of workload controllers: ownership, creation with expectations, revision history."""

import contextlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import structlog

from mooring.api.documents import Body
from mooring.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from mooring.api.kinds import CONTROLLER_REVISION, POD, Kind
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.selectors import Operator
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.client.cache import BY_OWNER, ORPHANS, labelled
from mooring.client.contract import Client, Unreachable, V
from mooring.client.informer import Informer
from mooring.control.component import Context
from mooring.control.workqueue import WorkQueue
from mooring.controllers.workloads import pod_rules
from mooring.controllers.workloads.pod_rules import EXPECTATION_TIMEOUT_SECONDS, Revisions, is_namespace_terminating

O = TypeVar("O", Deployment, ReplicaSet, StatefulSet, DaemonSet)  # noqa: E741  # an owner
Owner = Deployment | ReplicaSet | StatefulSet | DaemonSet

log = structlog.get_logger(__name__)


async def still_exists(client: Client, kind: Kind[V], item: ApiObject) -> bool:
    """Read from the server, since the cache may be behind: an owner that is being deleted must not get dependents."""
    try:
        fresh = await client.get(kind, item.name, namespace=item.namespace)
    except NotFound:
        return False
    return fresh.uid == item.uid and not fresh.deleting


async def patch_status(
    client: Client, kind: Kind[ApiObject], item: ApiObject, status: Body, *, any_version: bool = False
) -> None:
    """Write the status, unless the object changed since it was read; `any_version` requires only the same uid."""
    meta = {"uid": item.uid} if any_version else {"resourceVersion": item.metadata.resource_version}
    patch = MergePatch({"metadata": meta, "status": status})
    await client.patch(kind, item.name, patch, namespace=item.namespace, subresource="status")


async def write_status(
    client: Client, kind: Kind[ApiObject], owner: Owner, desired: Body, *, any_version: bool = False
) -> None:
    """The same, unless the owner has this status already."""
    if not pod_rules.has_status(owner.status, desired):
        await patch_status(client, kind, owner, desired, any_version=any_version)


class OwnedObjects(Generic[O, V]):
    """Enqueues owners when they or their dependents change; adopts orphans and releases objects that do not match."""

    def __init__(
        self,
        context: Context,
        kind: Kind[O],
        dependents: Kind[V],
        queue: WorkQueue[str],
        *,
        named: Callable[[O, V], bool] = lambda _, __: True,
    ) -> None:
        """`named`: whether the dependent's name may be the owner's."""
        self._client = context.client
        self._kind: Kind[O] = kind
        self._dependents = dependents
        self._queue = queue
        self._named: Callable[[O, V], bool] = named
        self._owners: Informer[O] = context.informers.of(kind)
        self.informer = context.informers.of(dependents)
        self.informer.add_index(*BY_OWNER)
        self.informer.add_index(*ORPHANS)
        #: Key in the index `ORPHANS` -> keys of owners that may adopt those objects.
        self._adopters: defaultdict[str, dict[str, None]] = defaultdict(dict)

    async def watch(self) -> None:
        """Start to enqueue owners."""
        await self._owners.subscribe(self._on_owner)
        await self.informer.subscribe(self.on_dependent)

    def _on_owner(self, before: O | None, after: O | None) -> None:
        if before is not None:
            for index_key in self._orphan_index_keys(before):
                seekers = self._adopters[index_key]
                del seekers[before.key]
                if not seekers:
                    del self._adopters[index_key]
        if after is not None:
            for index_key in self._orphan_index_keys(after):
                self._adopters[index_key][after.key] = None
            self._queue.add(after.key)

    def on_dependent(self, before: V | None, after: V | None) -> None:
        """Enqueue the owners, and owners that may adopt the object."""
        for item in (before, after):
            owner = item.controller if item is not None else None
            if item is not None and owner is not None and owner.kind == self._kind.kind:
                self._queue.add(f"{item.namespace}/{owner.name}")
        if after is not None and after.controller is None and not after.deleting:
            for index_key in ORPHANS.values(after):
                for key in self._adopters.get(index_key, ()):
                    candidate = self._owners.get(key)
                    if candidate is not None and self._adopts(candidate, after):
                        self._queue.add(key)

    def _orphan_index_keys(self, owner: O) -> tuple[str, ...]:
        """Keys in `ORPHANS` of objects that the owner may adopt: a label of its selector, else its namespace."""
        selector = pod_rules.compiled_selector(owner.spec.selector)
        if selector is None:
            return ()
        for requirement in selector.requirements:
            if requirement.operator is Operator.IN and len(requirement.values) == 1:
                return (labelled(owner.namespace, requirement.key, requirement.values[0]),)
        return (owner.namespace,)

    def _adopts(self, owner: O, item: V) -> bool:
        selector = pod_rules.compiled_selector(owner.spec.selector)
        return selector is not None and selector.matches(item.metadata.labels) and self._named(owner, item)

    async def of(self, owner: O) -> list[V]:
        """The owner's objects, after adoption and release."""
        candidates = list(self.informer.by_index(BY_OWNER.name, owner.uid))
        for index_key in self._orphan_index_keys(owner):
            candidates += self.informer.by_index(ORPHANS.name, index_key)
        selector = pod_rules.compiled_selector(owner.spec.selector)
        found = pod_rules.classify_owned(owner, selector, candidates, named=lambda item: self._named(owner, item))
        for stranger in found.release:
            await self._patch(owner, stranger, pod_rules.release_patch(owner, stranger), "released")
        if not found.adopt or not await still_exists(self._client, self._kind, owner):
            return found.mine
        adopted = [
            await self._patch(owner, orphan, pod_rules.adoption_patch(self._kind, owner, orphan), "adopted")
            for orphan in found.adopt
        ]
        return found.mine + [item for item in adopted if item is not None]

    async def _patch(self, owner: O, item: V, patch: StrategicPatch, action: str) -> V | None:
        """None if the object is gone."""
        kind = self._dependents
        try:
            patched = await self._client.patch(kind, item.name, patch, namespace=item.namespace)
        except NotFound:
            return None
        log.info(f"{kind.singular} {action}", owner=owner.key, object=item.key)
        return patched


#: Of generated names, as upstream.
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX: Final = 5
_STEM: Final = 63 - SUFFIX - 1


class PodControl:
    """Creates and deletes pods with generated names for one controller, and records events.

    Names are chosen before the request, so that a pod whose response is lost is expected too; until all expected pods
    are observed, the owner must wait, or it would create them twice.
    """

    def __init__(self, context: Context, kind: Kind[ApiObject], queue: WorkQueue[str]) -> None:
        self._client = context.client
        self._clock = context.clock
        self._rng = context.rng
        self._recorder = context.recorder
        self._kind = kind
        self._owners = context.informers.of(kind)
        self._pods = context.informers.of(POD)
        self._queue = queue
        self._expectations = pod_rules.Expectations()
        #: Uids of pods whose deletion was requested and not observed yet.
        self._deleting: set[str] = set()
        #: Uids of owners that may be deleted although cached: another client deleted one of their pods.
        self._in_doubt: set[str] = set()

    async def watch(self) -> None:
        """Before `OwnedObjects.watch`, so that expectations are met before the owner is enqueued."""
        await self._owners.subscribe(self._on_owner)
        await self._pods.subscribe(self._on_pod)

    def _on_owner(self, before: ApiObject | None, after: ApiObject | None) -> None:
        if before is not None and after is None:
            self._expectations.forget(before.uid)
            self._in_doubt.discard(before.uid)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after if after is not None else before
        if pod is not None and pod.controller is not None:
            self._expectations.met(pod.controller.uid, pod.name)
            if after is None or after.deleting:
                owner = self._owners.get(f"{pod.namespace}/{pod.controller.name}")
                if pod.uid not in self._deleting and owner is not None and owner.uid == pod.controller.uid:
                    self._in_doubt.add(owner.uid)
                self._deleting.discard(pod.uid)

    def is_terminating(self, pod: Pod) -> bool:
        """Whether deletion was requested, observed or not."""
        return pod.deleting or pod.uid in self._deleting

    async def expectations_pending(self, owner: ApiObject) -> bool:
        """Whether requested pods, or the owner's deletion, are not observed; overdue pods are read again."""
        for pod in self._expectations.overdue(owner.uid, now=self._clock.monotonic()):
            try:
                await self._client.get(POD, pod, namespace=owner.namespace)
            except NotFound:
                self._expectations.met(owner.uid, pod)
        waits = bool(self._expectations.awaited(owner.uid)) or await self._is_gone(owner)
        if waits:
            self._queue.add_after(owner.key, EXPECTATION_TIMEOUT_SECONDS)
        return waits

    async def _is_gone(self, owner: ApiObject) -> bool:
        """Race: the garbage collector deletes pods of a deleted owner; while the cache still has the owner, replacing
        them would loop."""
        if owner.uid not in self._in_doubt:
            return False
        try:
            fresh = await self._client.get(self._kind, owner.name, namespace=owner.namespace)
        except NotFound:
            return True
        if fresh.uid == owner.uid:
            self._in_doubt.discard(owner.uid)
        return fresh.uid != owner.uid

    async def create_pod(self, owner: ApiObject, body: Callable[[str], dict[str, Any]]) -> ApiError | None:
        """Create a pod with a generated name; return the server's error, if any."""
        name = f"{owner.name[:_STEM]}-{''.join(self._rng.choices(ALPHABET, k=SUFFIX))}"
        self._expectations.expect(owner.uid, name, now=self._clock.monotonic())
        try:
            await self._client.create(POD, body(name), namespace=owner.namespace)
        except Unreachable:
            # It may exist or not: the expectation stays.
            self._queue.add_after(owner.key, EXPECTATION_TIMEOUT_SECONDS)
            return None
        except AlreadyExists:
            # The next sync chooses another name.
            self._expectations.met(owner.uid, name)
            self._queue.add(owner.key)
            return None
        except ApiError as error:
            self._expectations.met(owner.uid, name)
            # Without the random suffix, so that repeated events are equal.
            error.message = error.message.replace(name, f"{owner.name}-")
            self._record_failure(owner, "FailedCreate", "Error creating", error)
            return error
        self._recorder.record(owner, self._kind, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return None

    async def delete_pod(self, owner: ApiObject, pod: Pod) -> ApiError | None:
        """Delete a pod; return the server's error, if any."""
        self._deleting.add(pod.uid)
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid)
        except (ApiError, Unreachable) as error:
            self._deleting.discard(pod.uid)
            if isinstance(error, NotFound):
                return None
            if isinstance(error, Unreachable):
                raise
            # On a conflict another pod has the name, or the cache is behind: the retry decides.
            if not isinstance(error, Conflict):
                self._record_failure(owner, "FailedDelete", "Error deleting", error)
            return error
        self._recorder.record(owner, self._kind, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        return None

    def _record_failure(self, owner: ApiObject, reason: str, action: str, error: ApiError) -> None:
        if not is_namespace_terminating(error):
            self._recorder.record(owner, self._kind, "Warning", reason, f"{action}: {error.message}")


class RevisionHistory:
    """The ControllerRevisions of StatefulSets or DaemonSets."""

    def __init__(self, context: Context, kind: Kind[ApiObject]) -> None:
        self._client = context.client
        self._kind = kind
        self.informer = context.informers.of(CONTROLLER_REVISION)
        self.informer.add_index(*BY_OWNER)

    async def settle(self, owner: StatefulSet | DaemonSet, *, current: str) -> Revisions | None:
        """Record the owner's template as the latest revision; `current` is the name in the owner's status. None if the
        namespace is terminating, or if the name is taken: then the next sync has another."""
        newest = pod_rules.revision_of(owner)
        stored = self._of(owner)
        known = next((revision for revision in stored if revision.name == newest.name), None)
        number = max((revision.revision for revision in stored), default=0) + 1
        if known is None:
            body = pod_rules.revision_body(self._kind, owner, newest, number=number)
            try:
                await self._client.create(CONTROLLER_REVISION, body, namespace=owner.namespace)
            except AlreadyExists as taken:
                if not await self._take_over(owner, newest.name, taken):
                    return None
            except ApiError as refusal:
                if is_namespace_terminating(refusal):
                    return None
                raise
        elif known.revision != number - 1:
            # An older template was restored, by `kubectl rollout undo` or by hand.
            meta = {"resourceVersion": known.metadata.resource_version}
            patch = MergePatch({"metadata": meta, "revision": number})
            await self._client.patch(CONTROLLER_REVISION, known.name, patch, namespace=known.namespace)
        before = next((revision for revision in stored if revision.name == current), None)
        return Revisions(pod_rules.recorded_revision(before) if before is not None else newest, newest)

    async def _take_over(self, owner: StatefulSet | DaemonSet, name: str, taken: AlreadyExists) -> bool:
        """Whether the revision of this name is the owner's, or is now. If a controller of another kind has it, the
        collision count changes the owner's next name."""
        there = await self._client.get(CONTROLLER_REVISION, name, namespace=owner.namespace)
        holder = there.controller
        if holder is None and not there.deleting:
            # Orphaned by an owner that was deleted without its dependents.
            patch = pod_rules.adoption_patch(self._kind, owner, there)
            await self._client.patch(CONTROLLER_REVISION, name, patch, namespace=owner.namespace)
            return True
        if holder is not None and (holder.api_version, holder.kind) != (self._kind.api_version, self._kind.kind):
            collisions = (owner.status.collision_count or 0) + 1
            await patch_status(self._client, self._kind, owner, {"collisionCount": collisions})
            return False
        if holder is None or holder.uid != owner.uid:
            # It will be deleted with an earlier owner of this name.
            raise taken
        return True

    async def trim(self, owner: ApiObject, in_use: set[str], limit: int | None) -> None:
        """Delete the oldest unused revisions above the limit."""
        kept = pod_rules.HISTORY_LIMIT if limit is None else limit
        for old in pod_rules.outdated_revisions(self._of(owner), in_use, kept):
            with contextlib.suppress(NotFound):
                await self._client.delete(CONTROLLER_REVISION, old.name, namespace=old.namespace, uid=old.uid)

    def _of(self, owner: ApiObject) -> list[ControllerRevision]:
        return list(self.informer.by_index(BY_OWNER.name, owner.uid))
