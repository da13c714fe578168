"""The same pod given to the real kube-scheduler and to Mooring's, on one API server: what each says of it.

No PV controller runs, so nothing changes but by the schedulers' own hands: a pod is placed when it has its node or
when its claims were given volumes or a node, and refused when its condition says so. What a pod left behind is put back
as it was before the next one comes.
"""

import asyncio
import copy
import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from builders import Body
from conformance.random_clusters import NAMESPACE, RandomCluster, Waiting
from mooring.api import keys
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, DISRUPTION_BUDGET, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.client.http import HttpClient
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.control.component import Context
from mooring.scheduler.component import Scheduler
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.state import NOT_ENOUGH_SPACE, NOTHING_TO_BIND

KUBE: Final = keys.DEFAULT_SCHEDULER
MOORING: Final = "mooring"

#: Seconds until a scheduler that has not said the last word is taken at its word. kube-scheduler notices only once a
#: second that a pod it binds is gone, and backs off for another.
PATIENCE: Final = 30.0
GLANCE: Final = 0.03
#: At once on the wire.
ABREAST: Final = 16


class Verdict(NamedTuple):
    """Refused with a reason and a message, or placed (neither), or others have to go for it."""

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
        return f"{self.pod}\n    kube-scheduler: {_said(self.kube)}\n    mooring:        {_said(self.mooring)}"


def _said(verdict: Verdict | None) -> str:
    if verdict is None:
        return "(nothing)"
    if verdict.victims:
        return f"evicts {', '.join(verdict.victims)}"
    return f"{verdict.reason}: {verdict.message}" if verdict.reason else "placed"


@asynccontextmanager
async def our_scheduler(client: HttpClient) -> AsyncIterator[Informers]:
    """Ours at work, with what it sees."""
    clock, rng = SystemClock(), random.Random(0)
    informers = Informers(client, clock, rng)
    recorder = EventRecorder(client, clock, MOORING, rng)
    scheduler = Scheduler(Context(client, informers, recorder, clock, rng), profiles={MOORING: DEFAULT})
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in (informers.run(), recorder.run(), scheduler.run())]
        while not scheduler.ready:  # noqa: ASYNC110  readiness is asked for, as a probe would
            await asyncio.sleep(GLANCE)
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
        #: What a pod may have been given.
        self._volumes = {body["metadata"]["name"]: body for body in (*free, *(body for _, body in cluster.reserved))}

    async def set_up(self) -> None:
        """Volumes before the claims that have them."""
        objects = [*self._cluster.objects, *self._cluster.reserved, *self._cluster.misleading]
        await self._abreast(self._create(kind, body) for kind, body in objects if kind is not CLAIM)
        await self._abreast(self._create(kind, body) for kind, body in objects if kind is CLAIM)

    async def clear(self) -> None:
        objects = [*self._cluster.objects, *self._cluster.reserved, *self._cluster.misleading]
        await self._abreast(self._delete(kind, body) for kind, body in objects)

    async def differences(self) -> list[Difference]:
        """Pods that are refused change nothing and can wait together; those that are placed come one by one."""
        mine = [await self._alone(one, MOORING) for one in self._cluster.waiting]
        await self._abreast(self._delete(kind, body) for kind, body in self._cluster.misleading)
        pairs = list(zip(self._cluster.waiting, mine, strict=True))
        refused = [(one, verdict) for one, verdict in pairs if verdict is not None and verdict.changes_nothing]
        placed = [(one, verdict) for one, verdict in pairs if verdict is None or not verdict.changes_nothing]
        found = await self._refused_together(refused)
        # Whoever only needs a node is done at once; who needs volumes keeps kube-scheduler busy for a while.
        for one, verdict in sorted(placed, key=lambda pair: len(pair[0].claims)):
            theirs = await self._alone(one, KUBE, expected=verdict)
            if not _same(one, theirs, verdict):
                found.append(Difference(one.name, theirs, verdict))
        return found

    async def _refused_together(self, refused: list[tuple[Waiting, Verdict]]) -> list[Difference]:
        await self._abreast(self._send(one, KUBE) for one, _ in refused)
        theirs = await asyncio.gather(*(self._verdict(one, expected) for one, expected in refused))
        await self._take_back(*(one for one, _ in refused))
        pairs = zip(refused, theirs, strict=True)
        return [Difference(one.name, said, mine) for (one, mine), said in pairs if not _same(one, said, mine)]

    async def _alone(self, one: Waiting, scheduler: str, *, expected: Verdict | None = None) -> Verdict | None:
        await self._send(one, scheduler)
        verdict = await self._verdict(one, expected)
        await self._take_back(one)
        return verdict

    async def _send(self, one: Waiting, scheduler: str) -> None:
        await self._abreast(self._create(CLAIM, claim) for claim in one.claims)
        body = copy.deepcopy(one.pod)
        body["spec"]["schedulerName"] = scheduler
        await self._client.create(POD, body, namespace=NAMESPACE)

    async def _verdict(self, one: Waiting, expected: Verdict | None) -> Verdict | None:
        """What the scheduler says, given some time to say what is expected."""
        said: Verdict | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while said is None or (expected is not None and said != expected):
                    await asyncio.sleep(GLANCE)
                    said = await self._look(one) or said
        return said

    async def _look(self, one: Waiting) -> Verdict | None:
        pod = await self._client.get(POD, one.name, namespace=NAMESPACE)
        if pod.spec.node_name or await self._has_volumes(one):
            return Verdict()
        if pod.status.nominated_node_name:
            # They are asked to go one after the other.
            await asyncio.sleep(10 * GLANCE)
            victims = await self._victims()
            return Verdict(victims=victims) if victims else None
        return _refusal(pod)

    async def _victims(self) -> tuple[str, ...]:
        residents = {body["metadata"]["name"] for body in self._cluster.residents}
        pods = (await self._client.list(POD, namespace=NAMESPACE)).items
        return tuple(sorted(pod.name for pod in pods if pod.deleting and pod.name in residents))

    async def _has_volumes(self, one: Waiting) -> bool:
        """Whether a claim of the pod was given a volume, or a node that it did not have before."""
        uids: set[str] = set()
        for body in one.claims:
            claim = await self._client.get(CLAIM, body["metadata"]["name"], namespace=NAMESPACE)
            uids.add(claim.uid)
            if claim.selected_node is not None and keys.SELECTED_NODE not in body["metadata"].get("annotations", {}):
                return True
        if not uids:
            return False
        volumes = (await self._client.list(VOLUME)).items
        return any(volume.spec.claim_ref is not None and volume.spec.claim_ref.uid in uids for volume in volumes)

    async def _take_back(self, *pods: Waiting) -> None:
        """The pods and their claims go, and volumes are as they were."""
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
        """Ours has one try per pod here: what it does not know yet must not decide. kube-scheduler gets more."""
        seen = self._informers.of(kind)
        while (known := seen.get(made.key)) is None or _version(known) < _version(made):  # noqa: ASYNC110  tens of ms
            await asyncio.sleep(GLANCE / 10)

    async def _give(self, claim: Claim) -> None:
        """What the PV controller writes last: the volume knows which claim of that name it belongs to."""
        owner = MergePatch({"spec": {"claimRef": {"uid": claim.uid}}})
        with suppress(NotFound):
            await self._seen(VOLUME, await self._client.patch(VOLUME, claim.spec.volume_name, owner))

    async def _delete(self, kind: Kind[ApiObject], body: Body) -> None:
        namespace = NAMESPACE if kind.namespaced else ""
        name = body["metadata"]["name"]
        with suppress(NotFound):
            await self._client.delete(kind, name, namespace=namespace, grace_seconds=0)
        if kind in (CLAIM, VOLUME):
            # Nobody else is here to see that it is not in use.
            with suppress(NotFound):
                await self._client.patch(
                    kind, name, MergePatch({"metadata": {"finalizers": None}}), namespace=namespace
                )

    async def _abreast(self, requests: Iterable[Coroutine[object, object, None]]) -> None:
        limit = asyncio.Semaphore(ABREAST)

        async def send(request: Coroutine[object, object, None]) -> None:
            async with limit:
                await request

        await asyncio.gather(*(send(request) for request in requests))


def _version(thing: ApiObject) -> int:
    return int(thing.metadata.resource_version)


def _same(one: Waiting, theirs: Verdict | None, ours: Verdict | None) -> bool:
    """Whether they say the same, but for what is listed: where for one claim there is nothing to bind and for another
    no room, we say the former and kube-scheduler what it found first."""
    if theirs is None or ours is None or len(one.claims) < 2:
        return theirs == ours
    return (theirs.reason, _counted(theirs.message)) == (ours.reason, _counted(ours.message))


def _counted(message: str) -> list[Counter[str]]:
    """How many nodes for which reason, where the two are one; of preemption apart."""
    return [_reasons(part) for part in message.split(" preemption: ")]


def _reasons(message: str) -> Counter[str]:
    counted: Counter[str] = Counter()
    for part in message.partition(": ")[2].rstrip(".").split(", "):
        count, _, reason = part.partition(" ")
        if count.isdigit():
            counted[NOTHING_TO_BIND if reason == NOT_ENOUGH_SPACE else reason] += int(count)
        else:
            counted[part] += 1
    return counted


def _refusal(pod: Pod) -> Verdict | None:
    condition = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    if condition is None or condition.status != "False":
        return None
    return Verdict(condition.reason, condition.message)
