"""Pods that compete for a slow CSI driver run in about the order of their creation, not all half-way first."""

import asyncio
import random
from collections.abc import Mapping

import pytest

from mooring.api.kinds import BY_KIND, CLAIM, POD
from mooring.cluster.bootstrap import Layout
from mooring.control.workqueue import ConcurrencyLimit
from mooring.csi.contract import CreateVolume, Driver, DriverVolume
from support.builders import claim_body, pod_body
from support.simulation.cluster import ExtraComponents, SimulatedCluster, simulate
from support.simulation.faults import FaultPlan
from support.simulation.storage import CONTROLLER, HostpathStorage

#: Pods of one second; creation times have no fractions.
BURST = 10
BURSTS = 3
#: Seconds of a CreateVolume call; the driver handles one at a time.
CREATE_SECONDS = 1.0
#: Of requests and responses in seconds.
LATENCY = 0.02


class SlowDriver:
    """Delays the CreateVolume calls of a driver, one after the other."""

    def __init__(self, driver: Driver) -> None:
        self.created = 0
        self._create_volume = driver.create_volume
        self._lock = asyncio.Lock()
        setattr(driver, "create_volume", self._delayed)  # noqa: B010  # a method of an instance, for once

    async def _delayed(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        async with self._lock:
            await asyncio.sleep(CREATE_SECONDS)
            volume = await self._create_volume(request, secrets=secrets)
            self.created += 1
            return volume


@pytest.mark.parametrize("seed", range(2))
def test_pods_become_complete_one_after_the_other(seed: int) -> None:
    layout = Layout(nodes=3, zones=1, local_volumes=0)
    storage = HostpathStorage(layout, rollback=True, fast=2 * BURST * BURSTS * 2**30)
    slow: list[SlowDriver] = []

    def extra_components(rng: random.Random) -> ExtraComponents:
        made = storage.extra_components(rng)
        slow.append(SlowDriver(made.drivers[CONTROLLER]))
        return made

    async def create(cluster: SimulatedCluster, pod: int) -> None:
        claims = [f"p{pod}-{name}" for name in ("data", "log")]
        for claim in claims:
            body = claim_body(name=claim, storage_class="fast", size="1Gi")
            await cluster.client.create(CLAIM, body, namespace="default")
        await cluster.client.create(POD, pod_body(name=f"p{pod}", claims=claims), namespace="default")

    async def scenario(cluster: SimulatedCluster) -> list[tuple[int, int]]:
        """The pods as they begin to run, each with the number of volumes created until then."""
        for body in storage.objects():
            await cluster.client.create(BY_KIND[body["apiVersion"], body["kind"]], body)
        await cluster.clock.sleep(10.0)
        for burst in range(BURSTS):
            for number in range(BURST):
                await create(cluster, burst * BURST + number)
            await cluster.clock.sleep(1.0)
        order: dict[int, int] = {}
        while len(order) < BURST * BURSTS:
            await cluster.clock.sleep(CREATE_SECONDS / 4)
            running = (await cluster.client.list(POD, namespace="default", fields="status.phase=Running")).items
            for pod in running:
                order.setdefault(int(pod.name[1:]), slow[0].created)
        return list(order.items())

    plan = FaultPlan((), LATENCY)
    order = simulate(scenario, layout=layout, seed=seed, plan=plan, extra_components=extra_components)
    bursts = [pod // BURST for pod, _ in order]
    assert bursts == sorted(bursts), order
    for rank, (_, volumes) in enumerate(order):
        assert volumes <= 2 * (rank + 1) + ConcurrencyLimit.INITIAL, "volumes of other pods were created first"
