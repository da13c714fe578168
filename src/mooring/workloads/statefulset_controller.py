"""The StatefulSet controller's shell: watches sets, pods and claims, and does what `statefulset` asks for.

A set's pods are those it is the controller of; pods without an owner are not adopted. One that has the name of a pod
to be made is reported on the set.
"""

from typing import Final

import structlog

from mooring.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from mooring.api.kinds import CLAIM, POD, STATEFUL_SET
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.workload import StatefulSet
from mooring.client.indexes import BY_OWNER, POD_BY_CLAIM
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.workloads import statefulset
from mooring.workloads.patience import Patience
from mooring.workloads.stateful_identity import Body
from mooring.workloads.statefulset import Action, CreatePod, DeletePod, ReplacePod, RestoreClaims

WORKERS: Final = 2

log = structlog.get_logger(__name__)


class StatefulSetController:
    name = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._sets = context.informers.of(STATEFUL_SET)
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(CLAIM)
        self._pods.add_index(*BY_OWNER)
        self._pods.add_index(*POD_BY_CLAIM)
        self._queue = context.work_queue("statefulset")
        self._patience = Patience()
        #: The generation of each set, by uid, whose unsupported wishes were reported.
        self._reported: dict[str, int] = {}
        self.ready = False

    async def run(self) -> None:
        self._sets.on_change(self._on_set)
        self._pods.on_change(self._on_pod)
        self._claims.on_change(self._on_claim)
        for synced in (self._sets.synced, self._pods.synced, self._claims.synced):
            await synced.wait()
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_set(self, before: StatefulSet | None, after: StatefulSet | None) -> None:
        if after is not None:
            self._queue.add(after.key)
        elif before is not None:
            self._reported.pop(before.uid, None)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            owner = pod.controller if pod is not None else None
            if pod is not None and owner is not None and owner.kind == STATEFUL_SET.kind:
                self._queue.add(f"{pod.namespace}/{owner.name}")
        if after is None and before is not None:
            # Whoever owned it, its name is free now, and a set may have waited for that.
            stem, _, _ = before.key.rpartition("-")
            if self._sets.get(stem) is not None:
                self._queue.add(stem)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        """A claim that went away may have to be made again for the pod that uses it."""
        if after is None and before is not None:
            for pod in self._pods.by_index(POD_BY_CLAIM.name, before.key):
                self._on_pod(None, pod)

    async def _sync(self, key: str) -> None:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return
        owned = self._pods.by_index(BY_OWNER.name, stateful_set.uid)
        pods = [pod for pod in owned if pod.controller is not None and pod.controller.uid == stateful_set.uid]
        self._report_unsupported(stateful_set)
        await self._write_status(stateful_set, pods)
        actions = statefulset.next_actions(stateful_set, pods, has_claim=lambda name: self._has(stateful_set, name))
        refused = [error for action in actions if (error := await self._do(stateful_set, action)) is not None]
        if refused:
            raise refused[0]

    def _has(self, stateful_set: StatefulSet, claim: str) -> bool:
        return self._claims.get(f"{stateful_set.namespace}/{claim}") is not None

    def _report_unsupported(self, stateful_set: StatefulSet) -> None:
        generation = stateful_set.metadata.generation
        if self._reported.get(stateful_set.uid) != generation:
            self._reported[stateful_set.uid] = generation
            for problem in statefulset.unsupported(stateful_set):
                self._recorder.record(stateful_set, STATEFUL_SET, "Warning", "Unsupported", problem)

    async def _do(self, stateful_set: StatefulSet, action: Action) -> ApiError | None:
        """Carry an action out. What the server refused is told to people and returned: other ordinals may do better."""
        match action:
            case CreatePod(body, claims):
                refused = await self._create_claims(stateful_set, body["metadata"]["name"], claims)
                return refused if refused is not None else await self._create_pod(stateful_set, body)
            case RestoreClaims(pod, claims):
                return await self._create_claims(stateful_set, pod, claims)
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
        except (NotFound, Conflict):
            # SEEN: that very pod is gone already.
            return None
        except ApiError as error:
            return self._failed(stateful_set, "FailedDelete", what, error)
        self._done(stateful_set, "SuccessfulDelete", f"{what} successful")
        return None

    def _done(self, stateful_set: StatefulSet, reason: str, message: str) -> None:
        log.info(message, set=stateful_set.key)
        self._recorder.record(stateful_set, STATEFUL_SET, "Normal", reason, message)

    def _failed(self, stateful_set: StatefulSet, reason: str, what: str, error: ApiError) -> ApiError:
        message = f"{what} failed error: {error.message}"
        self._recorder.record(stateful_set, STATEFUL_SET, "Warning", reason, message)
        return error

    async def _write_status(self, stateful_set: StatefulSet, pods: list[Pod]) -> None:
        wanted = statefulset.status(stateful_set, pods)
        if wanted == statefulset.reported(stateful_set):
            return
        body = {"metadata": {"resourceVersion": stateful_set.metadata.resource_version}, "status": wanted}
        await self._client.patch(
            STATEFUL_SET,
            stateful_set.name,
            MergePatch(body),
            namespace=stateful_set.namespace,
            subresource="status",
        )
