"""G75: random gangs without late claims, scheduled by kube-scheduler and by ours: equal conditions, messages, nodes.

Nodes are compared where scores leave few choices: kube-scheduler's placement has to be among those that our decision
draws with its scoring. The gate of topology constraints is off: with it, kube-scheduler words all refusals differently.
Once a quorum is bound, its condition is not compared: its next attempt, for the others, may overwrite True with False.
kube-scheduler adds members to a new PodGroup in the order of a Go map, and may pop the group between two of them. Its
members have scheduling gates until all are in the queue: one gated member keeps the whole group out of an attempt.
`MOORING_DIFFERENTIAL_SEEDS=FIRST-LAST` runs more than the ten of `make conformance`.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import NODE, POD, POD_GROUP
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pod_groups import SCHEDULED
from mooring.api.views.pods import Pod
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.scheduler.framework.group_cycle import GroupCycle, GroupInput, run_to_end
from mooring.scheduler.registry import KUBE_SCHEDULER
from mooring.volumes.group import GroupPlan
from support.builders import Body, node_body, pod_body
from support.builders.groups import member_body, pod_group_body
from support.conformance.control_plane import ControlPlane
from support.conformance.gang_cluster import NAMESPACE
from support.conformance.random_requests import Dice
from support.conformance.releases import Release
from support.conformance.scheduler_pair import (
    KUBE,
    MOORING,
    POLL_INTERVAL_SECONDS,
    TIMEOUT_SECONDS,
    our_scheduler,
)
from support.scheduler.snapshots import a_snapshot

SEEDS: Final = os.environ.get("MOORING_DIFFERENTIAL_SEEDS", "") or "1-10"
GATE: Final = "--feature-gates=GenericWorkload=true"
#: The scheduling gate of members for kube-scheduler.
HELD: Final = "mooring.example/held"
UNLIMITED: Final = ("--kube-api-qps=1000", "--kube-api-burst=2000")
#: Until both schedulers have observed what was created or deleted.
OBSERVE_SECONDS: Final = 0.4
#: Draws of our decision, and the most placements among them for which every one comes up.
DRAWS: Final = 120
MAX_PLACEMENTS: Final = 12


@dataclass
class RandomGang:
    nodes: list[Body] = field(default_factory=list)
    residents: list[Body] = field(default_factory=list)
    group: Body = field(default_factory=dict)
    #: Without scheduler, in kube-scheduler's order.
    members: list[Body] = field(default_factory=list)


def draw_gang(seed: int) -> RandomGang:
    """Small nodes that differ, so that scores do too; requests that just fit, or do not."""
    dice, gang = Dice(seed), RandomGang()
    for number in range(dice.number(2, 5)):
        name = f"s{seed}-node-{number}"
        labels = {well_known.HOSTNAME: name, well_known.ZONE: dice.one_of("a", "b")}
        offered = {"cpu": str(dice.number(2, 8)), "memory": f"{dice.number(8, 32)}Gi", "pods": "110"}
        gang.nodes.append(node_body(name=name, labels=labels, allocatable=offered, unschedulable=dice.maybe(0.1)))
        if dice.maybe(0.4):
            resident = pod_body(name=f"s{seed}-resident-{number}", node=name, requests={"cpu": "1", "memory": "2Gi"})
            gang.residents.append(resident)
    size = dice.number(2, 5)
    gang.group = pod_group_body(name=f"s{seed}", min_count=dice.number(1, size))
    apart = dice.maybe(0.2)
    for number in range(size):
        affinity: Body = {}
        if apart:
            term = {"topologyKey": well_known.HOSTNAME, "labelSelector": {"matchLabels": {"gang": f"s{seed}"}}}
            affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        body = member_body(
            group=f"s{seed}",
            name=f"s{seed}-member-{number}",
            labels={"gang": f"s{seed}"},
            requests={"cpu": dice.one_of("500m", "1", "2", "3"), "memory": dice.one_of("1Gi", "4Gi")},
            node_selector={well_known.ZONE: dice.one_of("a", "b")} if dice.maybe(0.2) else None,
            affinity=affinity or None,
        )
        gang.members.append(body)
    return gang


class Scheduled(NamedTuple):
    """What a scheduler has reported: the condition of the PodGroup, and the messages of members without node."""

    condition: tuple[str, str, str]
    messages: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.condition} {dict(self.messages)}"


class GangStage:
    """One gang on the server, for one scheduler after the other."""

    def __init__(self, client: HttpClient, gang: RandomGang) -> None:
        self._client = client
        self._gang = gang
        self._names = [body["metadata"]["name"] for body in gang.members]
        self._group = gang.group["metadata"]["name"]
        self._quorum: int = gang.group["spec"]["schedulingPolicy"]["gang"]["minCount"]

    async def set_up(self) -> None:
        for body in self._gang.nodes:
            await self._client.create(NODE, body)
        for body in self._gang.residents:
            await self._client.create(POD, body, namespace=NAMESPACE)

    async def clear(self) -> None:
        for body in self._gang.residents:
            await self._client.delete(POD, body["metadata"]["name"], namespace=NAMESPACE, grace_seconds=0)
        for body in self._gang.nodes:
            await self._client.delete(NODE, body["metadata"]["name"])

    async def run(self, scheduler: str, expected: Scheduled | None = None) -> tuple[Scheduled | None, dict[str, str]]:
        """The report, which is the expected one unless the time is over, and the nodes of bound members."""
        # Caches are current before the attempt: the PodGroup comes last, and members wait for it.
        gates = [{"name": HELD}] if scheduler == KUBE else []
        for body in self._gang.members:
            body["spec"] |= {"schedulerName": scheduler, "schedulingGates": gates}
            await self._client.create(POD, body, namespace=NAMESPACE)
        await asyncio.sleep(OBSERVE_SECONDS)
        await self._client.create(POD_GROUP, self._gang.group, namespace=NAMESPACE)
        if gates:
            await asyncio.sleep(OBSERVE_SECONDS)
            for name in self._names:
                ungated = MergePatch({"spec": {"schedulingGates": None}})
                await self._client.patch(POD, name, ungated, namespace=NAMESPACE)
        found: Scheduled | None = None
        pods: list[Pod] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while found is None or (expected is not None and found != expected):
                    await asyncio.sleep(POLL_INTERVAL_SECONDS)
                    pods = [await self._client.get(POD, name, namespace=NAMESPACE) for name in self._names]
                    found = await self._look(pods) or found
        await self._take_back()
        return found, {pod.name: pod.spec.node_name for pod in pods if pod.spec.node_name}

    async def _look(self, pods: list[Pod]) -> Scheduled | None:
        condition = (await self._client.get(POD_GROUP, self._group, namespace=NAMESPACE)).scheduled
        messages = {pod.name: _message(pod) for pod in pods if not pod.spec.node_name}
        if condition is None or not all(messages.values()):
            return None
        written = (condition.status, condition.reason, condition.message)
        is_kube = self._gang.members[0]["spec"]["schedulerName"] == KUBE
        if is_kube and len(pods) - len(messages) >= self._quorum:
            written = ("True", SCHEDULED, "")
        return Scheduled(written, messages)

    async def _take_back(self) -> None:
        for name in self._names:
            await self._client.delete(POD, name, namespace=NAMESPACE, grace_seconds=0)
        with suppress(NotFound):
            await self._client.delete(POD_GROUP, self._group, namespace=NAMESPACE)
            # No controller removes the protection finalizer here.
            unprotected = MergePatch({"metadata": {"finalizers": None}})
            await self._client.patch(POD_GROUP, self._group, unprotected, namespace=NAMESPACE)
        await asyncio.sleep(OBSERVE_SECONDS)

    async def placements(self) -> Counter[tuple[tuple[str, str], ...]]:
        """How often our decision with kube-scheduler's scoring draws each placement."""
        objects = [*(await self._client.list(NODE)).items, *(await self._client.list(POD)).items]
        members = [_view(body) for body in self._gang.members]
        given = GroupInput(members, self._quorum)
        drawn: Counter[tuple[tuple[str, str], ...]] = Counter()
        for seed in range(DRAWS):
            snapshot = a_snapshot(*objects)
            snapshot.schedules_groups = True
            result = run_to_end(GroupCycle(snapshot, KUBE_SCHEDULER, random.Random(seed), given))
            if isinstance(result, GroupPlan):
                drawn[_placement({one.pod.name: one.node for one in result.members.values()})] += 1
        return drawn


def _view(body: Body) -> Pod:
    metadata = body["metadata"] | {"uid": body["metadata"]["name"]}
    return POD.decode(msgspec.json.encode(body | {"metadata": metadata}))


def _placement(nodes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(nodes.items()))


def _message(pod: Pod) -> str:
    condition = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    if condition is None or condition.status != "False" or condition.reason == "SchedulingGated":
        return ""
    return f"{condition.reason}: {condition.message}"


def seeds() -> Iterator[int]:
    first, _, last = SEEDS.partition("-")
    return iter(range(int(first), int(last or first) + 1))


async def test_g75_gangs_without_late_claims_are_scheduled_alike(
    start_kube: Callable[[], ControlPlane], release: Release
) -> None:
    if release.minor < 37:
        pytest.skip("this release has no PodGroups")
    kube = start_kube()
    client = HttpClient(kube.access, component="tester", clock=SystemClock())
    different: list[str] = []
    compared = 0
    with kube.scheduler(GATE, *UNLIMITED):
        async with our_scheduler(client):
            for seed in seeds():
                stage = GangStage(client, draw_gang(seed))
                await stage.set_up()
                try:
                    drawn = await stage.placements()
                    ours, _ = await stage.run(MOORING)
                    theirs, nodes = await stage.run(KUBE, ours)
                finally:
                    await stage.clear()
                if ours is None or theirs != ours:
                    different.append(f"seed {seed}\n    kube-scheduler: {theirs}\n    mooring:        {ours}")
                elif nodes and len(drawn) <= MAX_PLACEMENTS:
                    compared += 1
                    if _placement(nodes) not in drawn:
                        different.append(f"seed {seed}: {nodes} is none of {len(drawn)} placements: {drawn}")
    await client.close()
    assert not different, "\n".join(different)
    assert compared
