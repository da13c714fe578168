"""Mooring's scheduler, PV controller, node agent and StatefulSet controller on kube-apiserver.

The same code as in `mooring up`, with an HTTP client instead of the in-process one.
"""

import asyncio
import json
import random
from collections.abc import Callable

import pytest

from mooring.api.kinds import VOLUME
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster import control_plane
from mooring.cluster.bootstrap import Layout, local_volume
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import KUBECTL_TIMEOUT, TIMEOUT_SECONDS
from support.scenarios import anti_affinity
from support.scenarios.anti_affinity import EXAMPLE
from support.scenarios.placements import Placed, placements


def placed(kube: ControlPlane) -> list[Placed]:
    pods, claims, volumes = (kube.kubectl_json("get", kind)["items"] for kind in ("pods", "pvc", "pv"))
    return placements(pods, claims, volumes)


async def until(kube: ControlPlane, phases: list[str]) -> list[Placed]:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            now = await asyncio.to_thread(placed, kube)
            if [p.phase for p in now] == phases:
                return now
            await asyncio.sleep(0.5)


@pytest.mark.req("T43.anti-affinity")
@pytest.mark.version_matrix(
    "kube-apiserver", "scheduler, PV controller, node agent, StatefulSet controller", "StatefulSet with local volumes"
)
async def test_anti_affinity_set_runs_as_far_as_volumes_exist(
    start_kube: Callable[[], ControlPlane],
) -> None:
    kube = start_kube()
    client = HttpClient(kube.access, component="mooring", clock=SystemClock())
    plane = control_plane.ControlPlane(lambda _: client, Layout(), clock=SystemClock(), rng=random.Random(1))
    async with asyncio.timeout(3 * TIMEOUT_SECONDS), control_plane.running_control_plane(plane):
        for volume in (await client.list(VOLUME)).items:
            if volume.name.startswith("local-node-3-"):
                await client.delete(VOLUME, volume.name)
        kube.kubectl("apply", "-f", str(EXAMPLE))
        waiting = await until(kube, ["Running", "Running", "Pending"])
        anti_affinity.assert_third_waits(waiting)
        kube.kubectl("wait", "pod/db-2", "--for=condition=PodScheduled=false", KUBECTL_TIMEOUT)

        missing = {"apiVersion": "v1", "kind": "PersistentVolume", **local_volume("node-3", 3)}
        kube.kubectl("create", "-f", "-", stdin=json.dumps(missing))
        complete = await until(kube, ["Running"] * 3)
        anti_affinity.assert_all_placed(complete)
    await client.close()
