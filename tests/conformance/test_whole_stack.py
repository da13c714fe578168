"""Mooring's own scheduler, PV controller, node agent and StatefulSets on the real kube-apiserver: the same code as in
`mooring up`, with an HTTP client instead of the one in process."""

import asyncio
import json
import random
from collections.abc import Callable

import pytest

from conformance.control_plane import ControlPlane
from conformance.waiting import KUBECTL_PATIENCE, PATIENCE
from mooring.api.kinds import VOLUME
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster import wiring
from mooring.cluster.bootstrap import Layout, local_volume
from scenarios import anti_affinity
from scenarios.anti_affinity import EXAMPLE
from scenarios.placements import Placed, placements


def placed(kube: ControlPlane) -> list[Placed]:
    pods, claims, volumes = (kube.kubectl_json("get", kind)["items"] for kind in ("pods", "pvc", "pv"))
    return placements(pods, claims, volumes)


async def until(kube: ControlPlane, phases: list[str]) -> list[Placed]:
    async with asyncio.timeout(PATIENCE):
        while True:
            now = await asyncio.to_thread(placed, kube)
            if [p.phase for p in now] == phases:
                return now
            await asyncio.sleep(0.5)


@pytest.mark.req("T43.anti-affinity")
async def test_the_anti_affinity_set_comes_up_and_a_missing_volume_keeps_one_pod_waiting(
    start_kube: Callable[[], ControlPlane],
) -> None:
    kube = start_kube()
    client = HttpClient(kube.access, component="mooring", clock=SystemClock())
    plane = wiring.ControlPlane(lambda _: client, Layout(), clock=SystemClock(), rng=random.Random(1))
    async with asyncio.timeout(3 * PATIENCE), wiring.running(plane):
        for volume in (await client.list(VOLUME)).items:
            if volume.name.startswith("local-node-3-"):
                await client.delete(VOLUME, volume.name)
        kube.kubectl("apply", "-f", str(EXAMPLE))
        waiting = await until(kube, ["Running", "Running", "Pending"])
        anti_affinity.assert_third_waits(waiting)
        kube.kubectl("wait", "pod/db-2", "--for=condition=PodScheduled=false", KUBECTL_PATIENCE)

        missing = {"apiVersion": "v1", "kind": "PersistentVolume", **local_volume("node-3", 3)}
        kube.kubectl("create", "-f", "-", stdin=json.dumps(missing))
        complete = await until(kube, ["Running"] * 3)
        anti_affinity.assert_all_placed(complete)
    await client.close()
