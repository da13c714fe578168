"""A real cluster with gangs and storage that the test controls: nodes without kubelets, and a provisioner with pools.

kube-scheduler has the gate GenericWorkload on; kube-controller-manager binds claims. The provisioner behaves as
external-provisioner with a CSI driver whose pools are per node: it creates a volume where the pool of the selected node
suffices, and else removes the selected node, as for the gRPC code ResourceExhausted. Published capacity is what the
test publishes, and need not agree with the pools.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec

from mooring.api import quantity, well_known
from mooring.api.errors import AlreadyExists, Conflict
from mooring.api.kinds import (
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    EVENT,
    NODE,
    POD,
    POD_GROUP,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
)
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import Condition
from mooring.api.views.storage import Claim
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from support.builders import Body, claim_body, class_body, node_body, pod_body, volume_body
from support.builders.drivers import capacity_body, driver_body
from support.builders.groups import member_body, pod_group_body
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import TIMEOUT_SECONDS

DRIVER: Final = "node.example"
#: Class whose volumes the pools provide, late.
POOLED: Final = "node"
NAMESPACE: Final = "default"
RACK: Final = "example.com/rack"
GATES: Final = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
CONTROLLERS: Final = ("persistentvolume-binder-controller",)
#: An administrator's change of a pool is observed by the next poll.
POLL_SECONDS: Final = 0.1


class GangCluster:
    """`pools` are what the driver has left, in bytes, by node; `selected` are the nodes that each claim was given."""

    def __init__(self, kube: ControlPlane, client: HttpClient, *, driver: str = DRIVER) -> None:
        self.kube = kube
        self._driver = driver
        self.client = client
        self.pools: dict[str, int] = {}
        self.selected: dict[str, list[str]] = {}

    async def add_nodes(self, racks: Mapping[str, str], *, cpu: str = "16") -> None:
        for name, rack in racks.items():
            labels = {well_known.HOSTNAME: name, RACK: rack}
            body = node_body(name=name, labels=labels, allocatable={"cpu": cpu, "memory": "32Gi", "pods": "110"})
            await self.client.create(NODE, body)
            driver = {"name": self._driver, "nodeID": name, "topologyKeys": [well_known.HOSTNAME]}
            csi_node = {"metadata": {"name": name}, "spec": {"drivers": [driver]}}
            await self.client.create(CSI_NODE, csi_node)

    async def add_pools(self, free: Mapping[str, str]) -> None:
        """The class, and capacity of each node as it is."""
        await self.client.create(CSI_DRIVER, driver_body(name=DRIVER, tracks_capacity=True))
        await self.client.create(STORAGE_CLASS, class_body(name=POOLED, provisioner=DRIVER))
        for node, amount in free.items():
            self.pools[node] = quantity.parse(amount) // quantity.NANOS_PER_UNIT
            topology = {"matchLabels": {well_known.HOSTNAME: node}}
            figure = capacity_body(name=node, storage_class=POOLED, topology=topology, capacity=amount, largest=amount)
            await self.client.create(STORAGE_CAPACITY, figure, namespace=NAMESPACE)

    async def publish(self) -> None:
        """Publish what the pools have, as the provisioner's poll does."""
        for node, free in self.pools.items():
            await self.client.patch(
                STORAGE_CAPACITY,
                node,
                MergePatch({"capacity": str(free), "maximumVolumeSize": str(free)}),
                namespace=NAMESPACE,
            )

    async def add_gang(
        self, claims: Sequence[str], *, topology: str = "", nodes: Sequence[str] = (), more: Sequence[Body] = ()
    ) -> None:
        """The gang `g` of one member per claim, all needed: member i has claim `c-i`, of this size."""
        await self.client.create(
            POD_GROUP, pod_group_body(min_count=len(claims), topology=topology), namespace=NAMESPACE
        )
        for body in more:
            await self.client.create(CLAIM, body, namespace=NAMESPACE)
        for number, size in enumerate(claims):
            claim = claim_body(name=f"c-{number}", storage_class=POOLED, size=size)
            await self.client.create(CLAIM, claim, namespace=NAMESPACE)
            where = {well_known.HOSTNAME: nodes[number]} if nodes else None
            pod = member_body(name=f"g-{number}", claims=[f"c-{number}"], requests={"cpu": "1"}, node_selector=where)
            await self.client.create(POD, pod, namespace=NAMESPACE)

    async def add_local_gang(self, *, small_claims: int = 2) -> None:
        """The gang `g` of two, pinned to n1 and n2, for existing volumes: `g-0` has one claim; `g-1` has small ones and
        a large one, whose volume `d` kube-scheduler writes last. A pod with a claim of 5Gi would get `d`."""
        await self.client.create(STORAGE_CLASS, class_body(name="local"))
        small = [f"b-{number}" for number in range(small_claims)]
        for name, node, size in (("a", "n1", "1Gi"), *((each, "n2", "1Gi") for each in small), ("d", "n2", "10Gi")):
            await self.client.create(VOLUME, volume_body(name=name, node=node, size=size))
            await self.client.create(CLAIM, claim_body(name=f"c-{name}", size=size), namespace=NAMESPACE)
        await self.client.create(POD_GROUP, pod_group_body(min_count=2), namespace=NAMESPACE)
        members = {"g-0": ("n1", ["c-a"]), "g-1": ("n2", [*(f"c-{name}" for name in small), "c-d"])}
        for name, (node, claims) in members.items():
            body = member_body(name=name, claims=claims, node_selector={well_known.HOSTNAME: node})
            await self.client.create(POD, body, namespace=NAMESPACE)

        async def available() -> bool:
            return {volume.status.phase for volume in (await self.client.list(VOLUME)).items} == {"Available"}

        await self.until(available)

    async def add_single_pod(self) -> None:
        """The pod `p`, which needs a local volume of 5Gi."""
        await self.client.create(CLAIM, claim_body(name="c-p", size="5Gi"), namespace=NAMESPACE)
        await self.client.create(POD, pod_body(name="p", claims=["c-p"]), namespace=NAMESPACE)

    async def reserved(self) -> set[str]:
        """Volumes with a claimRef."""
        return {volume.name for volume in (await self.client.list(VOLUME)).items if volume.spec.claim_ref is not None}

    async def bound(self) -> dict[str, str]:
        """Pods and their nodes."""
        pods = (await self.client.list(POD, namespace=NAMESPACE)).items
        return {pod.name: pod.spec.node_name for pod in pods if pod.spec.node_name}

    async def condition(self) -> Condition | None:
        return (await self.client.get(POD_GROUP, "g", namespace=NAMESPACE)).scheduled

    async def rejections(self, pod: str) -> list[str]:
        """The messages of the pod's events FailedScheduling, one per occurrence."""
        listed = msgspec.json.decode(
            self.kube.kubectl(
                "get", "events", "-n", NAMESPACE, "-o", "json", f"--field-selector=involvedObject.name={pod}"
            )
        )
        told: list[str] = []
        for event in listed["items"]:
            if event["reason"] == "FailedScheduling":
                times = (event.get("series") or {}).get("count") or event.get("count") or 1
                told += [event["message"]] * times
        return told

    async def events_on_group(self) -> list[str]:
        events = (await self.client.list(EVENT, namespace=NAMESPACE)).items
        return [event.reason for event in events if event.involved_object.kind == POD_GROUP.kind]

    async def until(self, holds: Callable[[], Awaitable[bool]], *, timeout: float = TIMEOUT_SECONDS) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not await holds():
                    await SystemClock().sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(await self._account()) from None

    async def _account(self) -> str:
        events = self.kube.kubectl("get", "events", "-n", NAMESPACE)
        state = (await self.bound(), await self.condition(), self.selected, self.pools)
        return "\n".join((*map(str, state), events))

    async def provision(self) -> None:
        """Serve claims with a selected node, one after the other, until cancelled."""
        while True:
            claims = (await self.client.list(CLAIM, namespace=NAMESPACE)).items
            volumes = {volume.name for volume in (await self.client.list(VOLUME)).items}
            for claim in sorted(claims, key=lambda claim: claim.name):
                node = claim.metadata.annotations.get(well_known.SELECTED_NODE, "")
                waits = claim.storage_class == POOLED and not claim.spec.volume_name
                if node and waits and f"pv-{claim.name}" not in volumes:
                    await self._serve(claim, node)
            await SystemClock().sleep(POLL_SECONDS)

    async def _serve(self, claim: Claim, node: str) -> None:
        self.selected.setdefault(claim.name, []).append(node)
        wanted = quantity.parse(claim.spec.resources.requests["storage"]) // quantity.NANOS_PER_UNIT
        if wanted > self.pools[node]:
            annotations = {well_known.SELECTED_NODE: None}
            body: dict[str, Any] = {"resourceVersion": claim.metadata.resource_version, "annotations": annotations}
            with suppress(Conflict):  # decided again in the next round
                await self.client.patch(CLAIM, claim.name, MergePatch({"metadata": body}), namespace=NAMESPACE)
            return
        self.pools[node] -= wanted
        reference = {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": claim.name, "uid": claim.uid}
        body = volume_body(
            name=f"pv-{claim.name}",
            size=str(wanted),
            storage_class=POOLED,
            node=node,
            claim_ref=reference,
            annotations={well_known.PROVISIONED_BY: DRIVER},
        )
        try:
            await self.client.create(VOLUME, body)
        except AlreadyExists:
            self.pools[node] += wanted


@asynccontextmanager
async def gang_cluster(kube: ControlPlane) -> AsyncIterator[GangCluster]:
    """A cluster whose claims are served until the end of the block."""
    client = HttpClient(kube.access, component="test", clock=SystemClock())
    cluster = GangCluster(kube, client)
    try:
        with kube.controllers(*CONTROLLERS, options=("--pvclaimbinder-sync-period=1s",)):
            serving = asyncio.create_task(cluster.provision())
            try:
                yield cluster
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
    finally:
        await client.close()
