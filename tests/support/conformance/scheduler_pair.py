"""The same pod scheduled by kube-scheduler and by Mooring's scheduler, on one API server.

No PV controller runs, so only the schedulers change objects: a pod is scheduled when it has its node or when its claims
got volumes or a selected node, and unschedulable when its condition says so. The objects are restored before the next
pod is created.
"""

import asyncio
import copy
import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import (
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    DISRUPTION_BUDGET,
    NODE,
    POD,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from mooring.api.kinds import NAMESPACE as NAMESPACES
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.client.http import HttpClient
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.control.component import Context
from mooring.scheduler.component import Scheduler
from mooring.scheduler.framework.cycle import run_cycle
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.registry import DEFAULT, KUBE_SCHEDULER
from mooring.volumes.state import ConflictReason
from support.builders import Body
from support.conformance.random_clusters import NAMESPACE, RandomCluster, Waiting
from support.scheduler.snapshots import a_snapshot

KUBE: Final = well_known.DEFAULT_SCHEDULER
MOORING: Final = "mooring"

#: Seconds until the current result of a scheduler counts as final. kube-scheduler detects only once a second that a
#: pod it binds is deleted, and backs off for another.
TIMEOUT_SECONDS: Final = 30.0
POLL_INTERVAL_SECONDS: Final = 0.03
#: Until kube-scheduler has observed what was created, and until it has noticed that a pod it binds is gone.
OBSERVE_SECONDS: Final = 0.1
SETTLE_SECONDS: Final = 1.2
PLACEMENT_ATTEMPTS: Final = 3
#: Draws among nodes with equal scores, of which there are five at most.
TIE_DRAWS: Final = 60
#: In the order of dependencies; pods come last.
SNAPSHOT_KINDS: Final = (NODE, NAMESPACES, STORAGE_CLASS, CSI_NODE, STORAGE_CAPACITY, CSI_DRIVER, VOLUME, CLAIM)
#: Maximum number of concurrent requests.
MAX_CONCURRENT_REQUESTS: Final = 16


class Verdict(NamedTuple):
    """Unschedulable with a reason and a message, or scheduled (neither), or victims are evicted for it."""

    reason: str = ""
    message: str = ""
    victims: tuple[str, ...] = ()

    @property
    def changes_nothing(self) -> bool:
        return bool(self.reason)


@dataclass(frozen=True)
class Difference:
    pod: str
    kube: Verdict | None
    mooring: Verdict | None

    def __str__(self) -> str:
        return f"{self.pod}\n    kube-scheduler: {_shown(self.kube)}\n    mooring:        {_shown(self.mooring)}"


def _shown(verdict: Verdict | None) -> str:
    if verdict is None:
        return "(nothing)"
    if verdict.victims:
        return f"evicts {', '.join(verdict.victims)}"
    return f"{verdict.reason}: {verdict.message}" if verdict.reason else "placed"


@asynccontextmanager
async def our_scheduler(client: HttpClient) -> AsyncIterator[Informers]:
    """Our scheduler running, and its informers."""
    clock, rng = SystemClock(), random.Random(0)
    informers = Informers(client, clock, rng)
    recorder = EventRecorder(client, clock, MOORING, rng)
    scheduler = Scheduler(Context(client, informers, recorder, clock, rng), profiles={MOORING: DEFAULT})
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in (informers.run(), recorder.run(), scheduler.run())]
        while not scheduler.ready:  # noqa: ASYNC110  readiness is asked for, as a probe would
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
        yield informers
        for task in tasks:
            task.cancel()


class Stage:
    """One cluster on the server, from its first object to its last."""

    def __init__(self, client: HttpClient, informers: Informers, cluster: RandomCluster) -> None:
        """`informers` are our scheduler's."""
        self._client = client
        self._informers = informers
        self._cluster = cluster
        free = [body for kind, body in cluster.objects if kind is VOLUME and "claimRef" not in body["spec"]]
        #: Objects that a pod may have changed.
        self._volumes = {body["metadata"]["name"]: body for body in (*free, *(body for _, body in cluster.reserved))}

    async def set_up(self) -> None:
        """Create volumes before the claims bound to them."""
        objects = [*self._cluster.objects, *self._cluster.reserved, *self._cluster.misleading]
        await self._abreast(self._create(kind, body) for kind, body in objects if kind is not CLAIM)
        await self._abreast(self._create(kind, body) for kind, body in objects if kind is CLAIM)

    async def clear(self) -> None:
        objects = [*self._cluster.objects, *self._cluster.reserved, *self._cluster.misleading]
        await self._abreast(self._delete(kind, body) for kind, body in objects)

    async def differences(self) -> list[Difference]:
        """Unschedulable pods change nothing and can be pending together; schedulable ones are created one by one."""
        mine = [await self._alone(one, MOORING) for one in self._cluster.waiting]
        await self._abreast(self._delete(kind, body) for kind, body in self._cluster.misleading)
        pairs = list(zip(self._cluster.waiting, mine, strict=True))
        refused = [(one, verdict) for one, verdict in pairs if verdict is not None and verdict.changes_nothing]
        placed = [(one, verdict) for one, verdict in pairs if verdict is None or not verdict.changes_nothing]
        found = await self._refused_together(refused)
        # Pods without volumes are bound at once; pods with volumes keep kube-scheduler busy longer.
        for one, verdict in sorted(placed, key=lambda pair: len(pair[0].claims)):
            theirs = await self._alone(one, KUBE, expected=verdict)
            if not _same(one, theirs, verdict):
                found.append(Difference(one.name, theirs, verdict))
        return found

    async def misplacements(self) -> tuple[int, list[str]]:
        """The pods that kube-scheduler placed although several nodes were feasible, as a number, and those of them that
        are on a node without the best of our scores."""
        compared, found = 0, []
        await self._abreast(self._delete(kind, body) for kind, body in self._cluster.misleading)
        for one in self._cluster.waiting:
            for attempt in range(PLACEMENT_ATTEMPTS):
                ours, feasible = await self._best_nodes(one)
                if feasible < 2:
                    break
                node = await self._placed_by_kube(one)
                compared += attempt == 0
                if node in ours:
                    break
                # kube-scheduler may have counted what an earlier pod had: again, after it has seen that gone.
                await asyncio.sleep(SETTLE_SECONDS)
            else:
                found.append(f"{one.name} on {node or 'no node'}, not on one of {sorted(ours)}")
        return compared, found

    async def _best_nodes(self, one: Waiting) -> tuple[set[str], int]:
        """The nodes with the best score for a pod by kube-scheduler's formula, and the number of feasible ones."""
        await self._abreast(self._create(CLAIM, claim) for claim in one.claims)
        pods, *others = [list((await self._client.list(kind)).items) for kind in (POD, *SNAPSHOT_KINDS)]
        snapshot = a_snapshot(*(item for items in others for item in items), *pods)
        created = await self._client.create(POD, _with_scheduler(one, "none"), namespace=NAMESPACE)
        await self._delete(POD, one.pod)
        # Ties are drawn: every best node comes up.
        decisions = [
            run_cycle(CycleState(created, snapshot), KUBE_SCHEDULER, random.Random(n)) for n in range(TIE_DRAWS)
        ]
        return {decision.node for decision in decisions}, decisions[0].ranking.feasible

    async def _placed_by_kube(self, one: Waiting) -> str:
        """The node that kube-scheduler chose: the pod's, or the nominated one while its volumes are bound."""
        node = ""
        await asyncio.sleep(OBSERVE_SECONDS)
        await self._client.create(POD, _with_scheduler(one, KUBE), namespace=NAMESPACE)
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not node:
                    await asyncio.sleep(POLL_INTERVAL_SECONDS)
                    pod = await self._client.get(POD, one.name, namespace=NAMESPACE)
                    node = pod.spec.node_name or pod.status.nominated_node_name
        await self._take_back(one)
        if one.claims:
            await asyncio.sleep(SETTLE_SECONDS)
        return node

    async def _refused_together(self, refused: list[tuple[Waiting, Verdict]]) -> list[Difference]:
        await self._abreast(self._send(one, KUBE) for one, _ in refused)
        theirs = await asyncio.gather(*(self._verdict(one, expected) for one, expected in refused))
        await self._take_back(*(one for one, _ in refused))
        pairs = zip(refused, theirs, strict=True)
        return [Difference(one.name, outcome, mine) for (one, mine), outcome in pairs if not _same(one, outcome, mine)]

    async def _alone(self, one: Waiting, scheduler: str, *, expected: Verdict | None = None) -> Verdict | None:
        await self._send(one, scheduler)
        verdict = await self._verdict(one, expected)
        await self._take_back(one)
        return verdict

    async def _send(self, one: Waiting, scheduler: str) -> None:
        await self._abreast(self._create(CLAIM, claim) for claim in one.claims)
        await self._client.create(POD, _with_scheduler(one, scheduler), namespace=NAMESPACE)

    async def _verdict(self, one: Waiting, expected: Verdict | None) -> Verdict | None:
        """The scheduler's result, polled until it is the expected one or time is up."""
        outcome: Verdict | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while outcome is None or (expected is not None and outcome != expected):
                    await asyncio.sleep(POLL_INTERVAL_SECONDS)
                    outcome = await self._look(one) or outcome
        return outcome

    async def _look(self, one: Waiting) -> Verdict | None:
        pod = await self._client.get(POD, one.name, namespace=NAMESPACE)
        if pod.spec.node_name or await self._has_volumes(one):
            return Verdict()
        if pod.status.nominated_node_name:
            # Victims are evicted one after the other.
            await asyncio.sleep(10 * POLL_INTERVAL_SECONDS)
            victims = await self._victims()
            return Verdict(victims=victims) if victims else None
        return _refusal(pod)

    async def _victims(self) -> tuple[str, ...]:
        residents = {body["metadata"]["name"] for body in self._cluster.residents}
        pods = (await self._client.list(POD, namespace=NAMESPACE)).items
        return tuple(sorted(pod.name for pod in pods if pod.deleting and pod.name in residents))

    async def _has_volumes(self, one: Waiting) -> bool:
        """Whether a claim of the pod got a volume, or a selected node that it did not have before."""
        uids: set[str] = set()
        for body in one.claims:
            claim = await self._client.get(CLAIM, body["metadata"]["name"], namespace=NAMESPACE)
            uids.add(claim.uid)
            if claim.selected_node is not None and well_known.SELECTED_NODE not in body["metadata"].get(
                "annotations", {}
            ):
                return True
        if not uids:
            return False
        volumes = (await self._client.list(VOLUME)).items
        return any(volume.spec.claim_ref is not None and volume.spec.claim_ref.uid in uids for volume in volumes)

    async def _take_back(self, *pods: Waiting) -> None:
        """Delete the pods and their claims, and restore the volumes."""
        await self._abreast(self._delete(POD, one.pod) for one in pods)
        await self._abreast(self._delete(CLAIM, claim) for one in pods for claim in one.claims)
        for volume in (await self._client.list(VOLUME)).items:
            body = self._volumes.get(volume.name)
            reference = volume.spec.claim_ref
            if body is not None and reference is not None and (reference.uid or "claimRef" not in body["spec"]):
                await self._delete(VOLUME, body)
                await self._create(VOLUME, body)
        gone = await self._victims()
        for body in self._cluster.residents:
            if body["metadata"]["name"] in gone:
                await self._delete(POD, body)
                await self._create(POD, body)

    async def _create(self, kind: Kind[ApiObject], body: Body) -> None:
        made = await self._client.create(kind, body, namespace=NAMESPACE if kind.namespaced else "")
        if isinstance(made, Claim) and made.fully_bound:
            await self._give(made)
        if kind in (VOLUME, DISRUPTION_BUDGET) or (kind is POD and "startTime" in body["status"]):
            status = MergePatch({"status": body["status"]})
            namespace = NAMESPACE if kind.namespaced else ""
            made = await self._client.patch(kind, made.name, status, namespace=namespace, subresource="status")
        await self._seen(kind, made)

    async def _seen(self, kind: Kind[ApiObject], made: ApiObject) -> None:
        """Ours has one attempt per pod here, so its informers must be current. kube-scheduler gets more attempts."""
        seen = self._informers.of(kind)
        while (known := seen.get(made.key)) is None or _version(known) < _version(made):  # noqa: ASYNC110  tens of ms
            await asyncio.sleep(POLL_INTERVAL_SECONDS / 10)

    async def _give(self, claim: Claim) -> None:
        """Write the claim's uid into the volume's claimRef, as the PV controller does last."""
        owner = MergePatch({"spec": {"claimRef": {"uid": claim.uid}}})
        with suppress(NotFound):
            await self._seen(VOLUME, await self._client.patch(VOLUME, claim.spec.volume_name, owner))

    async def _delete(self, kind: Kind[ApiObject], body: Body) -> None:
        namespace = NAMESPACE if kind.namespaced else ""
        name = body["metadata"]["name"]
        with suppress(NotFound):
            await self._client.delete(kind, name, namespace=namespace, grace_seconds=0)
        if kind in (CLAIM, VOLUME):
            # No controller removes the protection finalizer here.
            with suppress(NotFound):
                await self._client.patch(
                    kind, name, MergePatch({"metadata": {"finalizers": None}}), namespace=namespace
                )

    async def _abreast(self, requests: Iterable[Coroutine[object, object, None]]) -> None:
        limit = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

        async def send(request: Coroutine[object, object, None]) -> None:
            async with limit:
                await request

        await asyncio.gather(*(send(request) for request in requests))


def _with_scheduler(one: Waiting, scheduler: str) -> Body:
    body = copy.deepcopy(one.pod)
    body["spec"]["schedulerName"] = scheduler
    return body


def _version(thing: ApiObject) -> int:
    return int(thing.metadata.resource_version)


def _same(one: Waiting, theirs: Verdict | None, ours: Verdict | None) -> bool:
    """Whether both results are equal, except for a listed difference: if one claim has nothing to bind and another no
    capacity, ours reports the former and kube-scheduler what it found first.
    """
    if theirs is None or ours is None or len(one.claims) < 2:
        return theirs == ours
    return (theirs.reason, _counted(theirs.message)) == (ours.reason, _counted(ours.message))


def _counted(message: str) -> list[Counter[str]]:
    """Number of nodes by reason, with equivalent reasons merged; preemption messages separately."""
    return [_reasons(part) for part in message.split(" preemption: ")]


def _reasons(message: str) -> Counter[str]:
    counted: Counter[str] = Counter()
    for part in message.partition(": ")[2].rstrip(".").split(", "):
        count, _, reason = part.partition(" ")
        if count.isdigit():
            counted[ConflictReason.NO_VOLUME if reason == ConflictReason.STORAGE_CAPACITY else reason] += int(count)
        else:
            counted[part] += 1
    return counted


def _refusal(pod: Pod) -> Verdict | None:
    condition = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    if condition is None or condition.status != "False":
        return None
    return Verdict(condition.reason, condition.message)
