"""The workloads of `bench.volume_workloads` in the simulated world, with API server and all components.

    python -m bench.simulated_volume_workloads [--nodes N] [--workloads W ...]

Confirms what `bench.scoring_policies` finds without them. The policy is an annotation of the StorageClass, pods come
one after the other, and a run ends with the first pod that is rejected. Beside it stands what fits when the same pods
are decided without the rest of the cluster.
"""

import argparse
import logging
import random
from collections.abc import Iterator
from functools import partial
from typing import Final

import structlog

from bench.volume_workloads import CLASS, GI, Request, Storage, StorageNodes, Workload, existing_sizes, requests
from mooring.api import well_known
from mooring.api.kinds import BY_KIND, CLAIM, POD, STORAGE_CLASS, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.scoring import CapacityPolicy
from support.builders import claim_body, class_body, pod_body, volume_body
from support.simulation.cluster import SimulatedCluster, no_extra_components, simulate
from support.simulation.storage import HostpathStorage

#: GiB of storage of every node.
NODE_SIZE: Final = 320
#: The share of all storage that churn keeps requested before the load grows.
CHURN_LOAD: Final = 0.75
#: Simulated seconds until a pod runs or is rejected, until its storage is free again, and until that is published.
SETTLED: Final = 120.0
PUBLISHED: Final = 1.0
CASES: Final = (
    (Storage.EXISTING, Workload.UNIFORM),
    (Storage.EXISTING, Workload.MIXED),
    (Storage.PROVISIONED, Workload.UNIFORM),
    (Storage.PROVISIONED, Workload.MIXED),
    (Storage.PROVISIONED, Workload.CHURN),
)


class SimulatedNodes:
    """Places and removes pods through the API server."""

    def __init__(self, cluster: SimulatedCluster, total: int) -> None:
        self._cluster = cluster
        self.total = total
        self.pods: dict[str, Request] = {}

    @property
    def requested(self) -> int:
        return sum(each.total for each in self.pods.values())

    async def place(self, request: Request) -> bool:
        client, names = self._cluster.client, _claims(request)
        for name, size in zip(names, request.sizes, strict=True):
            await client.create(CLAIM, claim_body(name=name, size=size * GI, storage_class=CLASS), namespace="default")
        await client.create(POD, pod_body(name=request.name, claims=names), namespace="default")
        if not await self._cluster.until(partial(self._decided, request.name), within=SETTLED):
            raise TimeoutError(f"{request.name} is neither running nor rejected")
        pod = await client.get(POD, request.name, namespace="default")
        running = pod.status.phase == "Running"
        if running:
            self.pods[request.name] = request
        else:
            # It would take storage that is freed later.
            await self._delete(request)
        await self._cluster.clock.sleep(PUBLISHED)
        return running

    async def remove(self, name: str) -> None:
        """Delete a pod with its claims, and wait until their volumes are deleted."""
        await self._delete(self.pods.pop(name))
        if not await self._cluster.until(self._all_bound, within=SETTLED):
            raise TimeoutError(f"volumes of {name} are not deleted")
        await self._cluster.clock.sleep(PUBLISHED)

    async def _delete(self, request: Request) -> None:
        for kind, names in ((POD, [request.name]), (CLAIM, _claims(request))):
            for name in names:
                await self._cluster.client.delete(kind, name, namespace="default")

    async def _decided(self, name: str) -> bool:
        pod = await self._cluster.client.get(POD, name, namespace="default")
        rejected = any(each.type == "PodScheduled" and each.status == "False" for each in pod.status.conditions)
        return rejected or pod.status.phase == "Running"

    async def _all_bound(self) -> bool:
        expected = sum(len(each.sizes) for each in self.pods.values())
        return len((await self._cluster.client.list(VOLUME)).items) == expected


def _claims(request: Request) -> list[str]:
    return [f"{request.name}-{number}" for number in range(len(request.sizes))]


def unrelated(workload: Workload, seed: int) -> Iterator[Request]:
    """Every pod is its own application, so that no controller has to be simulated."""
    for request in requests(workload, random.Random(f"pods {seed}")):
        yield Request(request.name, request.name, request.sizes)


def simulated(
    policy: CapacityPolicy, storage: Storage, workload: Workload, nodes: int, seed: int = 0
) -> tuple[int, float]:
    """Pods that run, and the share of all storage that they request, at the first rejection."""
    layout = Layout(nodes=nodes, zones=1, local_volumes=0)
    hostpath = HostpathStorage(layout, fast=NODE_SIZE * GI)
    provisioned = storage is Storage.PROVISIONED
    annotations = {well_known.CAPACITY_POLICY: policy.value}
    volumes = {row.name: list(_existing(seed, place, nodes)) for place, row in enumerate(layout.rows())}

    async def scenario(cluster: SimulatedCluster) -> tuple[int, float]:
        for body in hostpath.objects() if provisioned else [class_body(name=CLASS)]:
            kind = BY_KIND[body["apiVersion"], body["kind"]]
            if kind is STORAGE_CLASS:
                body["metadata"]["annotations"] = annotations
            await cluster.client.create(kind, body)
        if not provisioned:
            for node, sizes in volumes.items():
                for number, size in enumerate(sizes):
                    body = volume_body(name=f"{node}-{number}", size=size * GI, storage_class=CLASS, node=node)
                    await cluster.client.create(VOLUME, body)
        await cluster.clock.sleep(10.0)
        total = nodes * NODE_SIZE if provisioned else sum(map(sum, volumes.values()))
        here, coming, rng = SimulatedNodes(cluster, total), unrelated(workload, seed), random.Random(f"churn {seed}")
        if workload is Workload.CHURN:
            while here.requested < CHURN_LOAD * total:
                await here.place(next(coming))
            for _ in range(len(here.pods)):
                await here.remove(rng.choice(list(here.pods)))
                while here.requested < CHURN_LOAD * total and await here.place(next(coming)):
                    pass
        while await here.place(next(coming)):
            pass
        return len(here.pods), here.requested / total

    extra_components = hostpath.extra_components if provisioned else no_extra_components
    return simulate(scenario, layout=layout, seed=seed, extra_components=extra_components)


def _existing(seed: int, place: int, nodes: int) -> Iterator[int]:
    """The sizes that `StorageNodes` draws for the node in this place."""
    rng = random.Random(f"cluster {seed}")
    drawn = [list(existing_sizes(NODE_SIZE, rng)) for _ in range(nodes)]
    yield from drawn[place]


def decided(
    policy: CapacityPolicy, storage: Storage, workload: Workload, nodes: int, seed: int = 0
) -> tuple[int, float]:
    """The same without API server and components."""
    annotations = {well_known.CAPACITY_POLICY: policy.value}
    rng = random.Random(f"cluster {seed}")
    here = StorageNodes(nodes, storage, DEFAULT, rng, node_sizes=(NODE_SIZE,), annotations=annotations)
    coming, leaving = unrelated(workload, seed), random.Random(f"churn {seed}")
    if workload is Workload.CHURN:
        while here.requested < CHURN_LOAD * here.total:
            here.place(next(coming))
        for _ in range(len(here.pods)):
            here.remove(leaving.choice(list(here.pods)))
            while here.requested < CHURN_LOAD * here.total and here.place(next(coming)):
                pass
    while here.place(next(coming)):
        pass
    return len(here.pods), here.requested / here.total


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nodes", type=int, default=6)
    arguments.add_argument("--workloads", nargs="+", choices=[each.value for each in Workload], default=list(Workload))
    given = arguments.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(f"{'first rejection':36} {'simulated world':>24} {'decisions alone':>24}")
    wanted = set(map(Workload, given.workloads))
    for storage, workload in (case for case in CASES if case[1] in wanted):
        for policy in CapacityPolicy:
            cells = [
                f"{pods:4} pods {share:7.1%}"
                for pods, share in (run(policy, storage, workload, given.nodes) for run in (simulated, decided))
            ]
            what = f"{storage.value}, {workload.value}, {policy.value}"
            print(f"{what:36} {cells[0]:>24} {cells[1]:>24}", flush=True)


if __name__ == "__main__":
    main()
