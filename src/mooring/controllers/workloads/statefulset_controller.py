"""The StatefulSet controller: watches sets, pods, claims and revisions, and executes the plan of `statefulset`."""

import structlog

from mooring.api.documents import Body
from mooring.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from mooring.api.kinds import CLAIM, POD, STATEFUL_SET
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.api.views.workloads import StatefulSet
from mooring.backoff import RestartBackoff
from mooring.client.cache import POD_BY_CLAIM
from mooring.client.live_reads import get_or_none
from mooring.control.component import Context, Reconciler
from mooring.controllers.workloads import statefulset
from mooring.controllers.workloads.pod_control import OwnedObjects, RevisionHistory, write_status
from mooring.controllers.workloads.pod_rules import is_namespace_terminating
from mooring.controllers.workloads.statefulset import ordinal_of

log = structlog.get_logger(__name__)


class StatefulSetController(Reconciler[str]):
    name = "statefulset-controller"
    WORKERS = 2

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("statefulset", STATEFUL_SET))
        self._sets = context.informers.of(STATEFUL_SET)
        self._claims = context.informers.of(CLAIM)
        self._pods = OwnedObjects(
            context, STATEFUL_SET, POD, self._queue, named=lambda owner, pod: ordinal_of(owner, pod) is not None
        )
        self._pods.informer.add_index(*POD_BY_CLAIM)
        self._history = RevisionHistory(context, STATEFUL_SET)
        self._backoff = RestartBackoff()

    async def _subscribe(self) -> None:
        await self._pods.watch()
        await self._pods.informer.subscribe(self._on_pod)
        await self._claims.subscribe(self._on_claim)
        await self._history.informer.synced.wait()

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if after is None and before is not None:
            # A set may wait for the name, whichever controller owned the pod.
            stem, _, _ = before.key.rpartition("-")
            if self._sets.get(stem) is not None:
                self._queue.add(stem)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        """A deleted claim may be created again; changed owner references allow the deletion of the pod."""
        if before is not None and (
            after is None or before.metadata.owner_references != after.metadata.owner_references
        ):
            for pod in self._pods.informer.by_index(POD_BY_CLAIM.name, before.key):
                if pod.controller is not None and pod.controller.kind == STATEFUL_SET.kind:
                    self._queue.add(f"{pod.namespace}/{pod.controller.name}")

    async def _sync(self, key: str) -> None:
        stateful_set = self._sets.get(key)
        if stateful_set is None or stateful_set.deleting:
            return
        pods = await self._pods.of(stateful_set)
        revisions = await self._history.settle(stateful_set, current=stateful_set.status.current_revision)
        if revisions is None:
            return
        status = statefulset.stateful_set_status(stateful_set, pods, revisions, now=self._clock.now())
        await write_status(self._client, STATEFUL_SET, stateful_set, status)
        state = statefulset.StatefulSetState(
            revisions, pods, lambda name: self._claims.get(f"{stateful_set.namespace}/{name}"), self._clock.now()
        )
        plan = statefulset.plan_stateful_set(stateful_set, state)
        if plan.again is not None:
            self._queue.add_after(key, plan.again)
        refused = [error for action in plan.actions if (error := await self._do(stateful_set, action)) is not None]
        if refused:
            raise refused[0]
        in_use = {revisions.current.name, revisions.update.name, *(statefulset.revision_of(pod) for pod in pods)}
        await self._history.trim(stateful_set, in_use, stateful_set.spec.revision_history_limit)

    async def _do(self, stateful_set: StatefulSet, action: statefulset.Action) -> ApiError | None:
        """Execute an action; an error is recorded and returned, so that other ordinals are handled too."""
        match action:
            case statefulset.CreatePod(body, claims):
                refused = await self._create_claims(stateful_set, body["metadata"]["name"], claims)
                return refused if refused is not None else await self._create_pod(stateful_set, body)
            case statefulset.RestoreClaims(pod, claims):
                return await self._create_claims(stateful_set, pod, claims)
            case statefulset.OwnClaim(claim, owners):
                return await self._own_claim(stateful_set, claim, owners)
            case statefulset.ReplacePod(pod):
                return await self._replace(stateful_set, pod)
            case statefulset.DeletePod(pod, reason):
                return await self._delete(stateful_set, pod, reason)

    async def _create_claims(self, stateful_set: StatefulSet, pod: str, bodies: tuple[Body, ...]) -> ApiError | None:
        for body in bodies:
            what = f"create Claim {body['metadata']['name']} Pod {pod} in StatefulSet {stateful_set.name}"
            try:
                await self._client.create(CLAIM, body, namespace=stateful_set.namespace)
            except AlreadyExists:
                # Race: the cache is behind; or the claim was created beforehand.
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
        except ApiError as error:
            if isinstance(error, AlreadyExists) and await self._owns(stateful_set, name):
                # Race: the cache is behind.
                return None
            return self._failed(stateful_set, "FailedCreate", what, error)
        self._done(stateful_set, "SuccessfulCreate", f"{what} successful")
        return None

    async def _owns(self, stateful_set: StatefulSet, pod: str) -> bool:
        found = await get_or_none(self._client, POD, pod, namespace=stateful_set.namespace)
        owner = found.controller if found is not None else None
        return owner is not None and owner.uid == stateful_set.uid

    async def _replace(self, stateful_set: StatefulSet, pod: Pod) -> ApiError | None:
        wait = self._backoff.wait(pod.key, pod.uid, now=self._clock.monotonic())
        if wait > 0:
            self._queue.add_after(stateful_set.key, wait)
            return None
        failed = pod.status.phase == "Failed"
        kind, reason = ("Warning", "RecreatingFailedPod") if failed else ("Normal", "RecreatingTerminatedPod")
        how = "failed" if failed else "terminated"
        message = f"StatefulSet {stateful_set.key} is recreating {how} Pod {pod.name}"
        self._recorder.record(stateful_set, STATEFUL_SET, kind, reason, message)
        return await self._delete(stateful_set, pod, f"it is {pod.status.phase}")

    async def _delete(self, stateful_set: StatefulSet, pod: Pod, reason: str) -> ApiError | None:
        what = f"delete Pod {pod.name} in StatefulSet {stateful_set.name}"
        log.info("pod deletion requested", set=stateful_set.key, pod=pod.name, reason=reason)
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid)
        except NotFound:
            return None
        except Conflict as error:
            # Another pod has the name, or the cache is behind: the retry decides.
            return error
        except ApiError as error:
            return self._failed(stateful_set, "FailedDelete", what, error)
        self._done(stateful_set, "SuccessfulDelete", f"{what} successful")
        return None

    def _done(self, stateful_set: StatefulSet, reason: str, message: str) -> None:
        log.info(message, set=stateful_set.key)
        self._recorder.record(stateful_set, STATEFUL_SET, "Normal", reason, message)

    def _failed(self, stateful_set: StatefulSet, reason: str, what: str, error: ApiError) -> ApiError | None:
        """Record an event; None if a retry is useless."""
        if is_namespace_terminating(error):
            return None
        message = f"{what} failed error: {error.message}"
        self._recorder.record(stateful_set, STATEFUL_SET, "Warning", reason, message)
        return error
