"""The StatefulSet controller's shell: watches sets, pods, claims and revisions, and does what `statefulset` asks for.

Pods that match a set and that nobody controls are taken in; one that somebody else controls and that has the name of a
pod to be made is reported on the set. In a namespace that goes it keeps quiet.
"""

from typing import Final

import structlog

from mooring.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from mooring.api.kinds import CLAIM, POD, STATEFUL_SET
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.workload import StatefulSet
from mooring.client.indexes import POD_BY_CLAIM
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.workloads import statefulset, statefulset_status
from mooring.workloads.owned_pods import OwnedPods
from mooring.workloads.ownership import compiled
from mooring.workloads.patience import Patience
from mooring.workloads.refusals import namespace_goes
from mooring.workloads.revision_history import RevisionHistory
from mooring.workloads.revisions import Revisions
from mooring.workloads.stateful_identity import Body, ordinal_of, revision, revision_of
from mooring.workloads.statefulset import Action, CreatePod, DeletePod, OwnClaim, ReplacePod, RestoreClaims, World

WORKERS: Final = 2

log = structlog.get_logger(__name__)


class StatefulSetController:
    name = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._queue = context.work_queue("statefulset")
        self._sets = context.informers.of(STATEFUL_SET)
        self._claims = context.informers.of(CLAIM)
        self._pods = OwnedPods(
            context,
            STATEFUL_SET,
            self._queue,
            selector=lambda owner: compiled(owner.spec.selector),
            named=lambda owner, pod: ordinal_of(owner, pod) is not None,
        )
        self._pods.informer.add_index(*POD_BY_CLAIM)
        self._history = RevisionHistory(context, STATEFUL_SET)
        self._patience = Patience()
        self.ready = False

    async def run(self) -> None:
        await self._sets.subscribe(self._on_set)
        await self._pods.watch()
        await self._pods.informer.subscribe(self._on_pod)
        await self._claims.subscribe(self._on_claim)
        await self._history.informer.synced.wait()
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_set(self, _: StatefulSet | None, after: StatefulSet | None) -> None:
        if after is not None:
            self._queue.add(after.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if after is None and before is not None:
            # Whoever owned it, its name is free now, and a set may have waited for that.
            stem, _, _ = before.key.rpartition("-")
            if self._sets.get(stem) is not None:
                self._queue.add(stem)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        """A claim that went away may have to be made again, and one with another owner lets its pod go."""
        if before is not None and (
            after is None or before.metadata.owner_references != after.metadata.owner_references
        ):
            for pod in self._pods.informer.by_index(POD_BY_CLAIM.name, before.key):
                if pod.controller is not None and pod.controller.kind == STATEFUL_SET.kind:
                    self._queue.add(f"{pod.namespace}/{pod.controller.name}")

    async def _sync(self, key: str) -> None:
        stateful_set = self._sets.get(key)
        if stateful_set is None or stateful_set.deleting:
            # SEEN: the garbage collector removes the pods, or they are meant to be orphaned.
            return
        pods = await self._pods.of(stateful_set)
        try:
            revisions = await self._history.settle(
                stateful_set, revision(stateful_set), current=stateful_set.status.current_revision
            )
        except ApiError as refusal:
            if namespace_goes(refusal):
                return
            raise
        await self._write_status(stateful_set, pods, revisions)
        world = World(revisions, pods, lambda name: self._claim(stateful_set, name), self._clock.now())
        plan = statefulset.plan(stateful_set, world)
        if plan.again is not None:
            self._queue.add_after(key, plan.again)
        refused = [error for action in plan.actions if (error := await self._do(stateful_set, action)) is not None]
        if refused:
            raise refused[0]
        in_use = {revisions.current.name, revisions.update.name, *(revision_of(pod) for pod in pods)}
        await self._history.trim(stateful_set, in_use, stateful_set.spec.revision_history_limit)

    def _claim(self, stateful_set: StatefulSet, name: str) -> Claim | None:
        return self._claims.get(f"{stateful_set.namespace}/{name}")

    async def _do(self, stateful_set: StatefulSet, action: Action) -> ApiError | None:
        """Carry an action out. What the server refused is told to people and returned: other ordinals may do better."""
        match action:
            case CreatePod(body, claims):
                refused = await self._create_claims(stateful_set, body["metadata"]["name"], claims)
                return refused if refused is not None else await self._create_pod(stateful_set, body)
            case RestoreClaims(pod, claims):
                return await self._create_claims(stateful_set, pod, claims)
            case OwnClaim(claim, owners):
                return await self._own_claim(stateful_set, claim, owners)
            case ReplacePod(pod):
                return await self._replace(stateful_set, pod)
            case DeletePod(pod, why):
                return await self._delete(stateful_set, pod, why)

    async def _create_claims(self, stateful_set: StatefulSet, pod: str, bodies: tuple[Body, ...]) -> ApiError | None:
        for body in bodies:
            what = f"create Claim {body['metadata']['name']} Pod {pod} in StatefulSet {stateful_set.name}"
            try:
                await self._client.create(CLAIM, body, namespace=stateful_set.namespace)
            except AlreadyExists:
                # SEEN: the cache is behind, or somebody prepared the claim; it is used as it is.
                continue
            except ApiError as error:
                return self._failed(stateful_set, "FailedCreate", what, error)
            self._done(stateful_set, "SuccessfulCreate", f"{what} success")
        return None

    async def _own_claim(self, stateful_set: StatefulSet, claim: Claim, owners: list[Body]) -> ApiError | None:
        meta = {"resourceVersion": claim.metadata.resource_version, "ownerReferences": owners or None}
        try:
            await self._client.patch(CLAIM, claim.name, MergePatch({"metadata": meta}), namespace=claim.namespace)
        except NotFound:
            return None
        except ApiError as error:
            return error
        log.info("claim retention set", set=stateful_set.key, claim=claim.name, owners=[o["kind"] for o in owners])
        return None

    async def _create_pod(self, stateful_set: StatefulSet, body: Body) -> ApiError | None:
        name = body["metadata"]["name"]
        what = f"create Pod {name} in StatefulSet {stateful_set.name}"
        try:
            await self._client.create(POD, body, namespace=stateful_set.namespace)
        except AlreadyExists as error:
            if await self._owns(stateful_set, name):
                # SEEN: the cache is behind.
                return None
            return self._failed(stateful_set, "FailedCreate", what, error)
        except ApiError as error:
            return self._failed(stateful_set, "FailedCreate", what, error)
        self._done(stateful_set, "SuccessfulCreate", f"{what} successful")
        return None

    async def _owns(self, stateful_set: StatefulSet, pod: str) -> bool:
        try:
            found = await self._client.get(POD, pod, namespace=stateful_set.namespace)
        except NotFound:
            return False
        return found.controller is not None and found.controller.uid == stateful_set.uid

    async def _replace(self, stateful_set: StatefulSet, pod: Pod) -> ApiError | None:
        wait = self._patience.wait(pod.key, pod.uid, now=self._clock.monotonic())
        if wait > 0:
            self._queue.add_after(stateful_set.key, wait)
            return None
        failed = pod.status.phase == "Failed"
        kind, reason = ("Warning", "RecreatingFailedPod") if failed else ("Normal", "RecreatingTerminatedPod")
        how = "failed" if failed else "terminated"
        message = f"StatefulSet {stateful_set.key} is recreating {how} Pod {pod.name}"
        self._recorder.record(stateful_set, STATEFUL_SET, kind, reason, message)
        return await self._delete(stateful_set, pod, f"it is {pod.status.phase}")

    async def _delete(self, stateful_set: StatefulSet, pod: Pod, why: str) -> ApiError | None:
        what = f"delete Pod {pod.name} in StatefulSet {stateful_set.name}"
        log.info("deleting pod", set=stateful_set.key, pod=pod.name, why=why)
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid)
        except NotFound:
            return None
        except Conflict as error:
            # Mostly that another pod has the name; the next look, at newer news, tells.
            return error
        except ApiError as error:
            return self._failed(stateful_set, "FailedDelete", what, error)
        self._done(stateful_set, "SuccessfulDelete", f"{what} successful")
        return None

    def _done(self, stateful_set: StatefulSet, reason: str, message: str) -> None:
        log.info(message, set=stateful_set.key)
        self._recorder.record(stateful_set, STATEFUL_SET, "Normal", reason, message)

    def _failed(self, stateful_set: StatefulSet, reason: str, what: str, error: ApiError) -> ApiError | None:
        """Tells people; None if there is no point in trying again."""
        if namespace_goes(error):
            return None
        message = f"{what} failed error: {error.message}"
        self._recorder.record(stateful_set, STATEFUL_SET, "Warning", reason, message)
        return error

    async def _write_status(self, stateful_set: StatefulSet, pods: list[Pod], revisions: Revisions) -> None:
        wanted = statefulset_status.status(stateful_set, pods, revisions, now=self._clock.now())
        if wanted == statefulset_status.reported(stateful_set):
            return
        meta = {"resourceVersion": stateful_set.metadata.resource_version}
        patch = MergePatch({"metadata": meta, "status": wanted})
        name, namespace = stateful_set.name, stateful_set.namespace
        await self._client.patch(STATEFUL_SET, name, patch, namespace=namespace, subresource="status")
