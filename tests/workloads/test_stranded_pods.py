"""Pods whose node is gone."""

from builders import node_body, pod_body
from mooring.api.kinds import NODE, POD
from mooring.workloads.stranded_pods import QUARANTINE_SECONDS, StrandedPodCollector
from partial_plane import Plane, flaky, run_plane

COLLECTOR = [StrandedPodCollector]
A_LITTLE = 5.0


def test_pods_go_some_time_after_their_node() -> None:
    async def scenario(plane: Plane) -> None:
        for name in ("node-1", "node-2"):
            await plane.create(NODE, node_body(name=name))
            await plane.create(POD, pod_body(name=f"on-{name}", node=name))
        await plane.create(POD, pod_body(name="unplaced"))
        await plane.client.delete(NODE, "node-1")
        await plane.pass_time(QUARANTINE_SECONDS - A_LITTLE)
        assert await plane.names(POD) == ["on-node-1", "on-node-2", "unplaced"]
        await plane.pass_time(2 * A_LITTLE)
        assert await plane.names(POD) == ["on-node-2", "unplaced"]

    run_plane(COLLECTOR, scenario)


def test_pod_that_was_being_deleted_goes_too() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(NODE, node_body())
        await plane.create(POD, pod_body(node="node-1"))
        await plane.client.delete(POD, "pod-1", namespace="default")
        await plane.client.delete(NODE, "node-1")
        await plane.pass_time(2 * QUARANTINE_SECONDS)
        assert await plane.names(POD) == []

    run_plane(COLLECTOR, scenario)


def test_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(NODE, node_body())
        await plane.create(POD, pod_body(node="node-1"))
        await plane.client.delete(NODE, "node-1")
        await plane.pass_time(A_LITTLE)
        await plane.create(NODE, node_body())
        await plane.pass_time(3600.0)
        assert await plane.names(POD) == ["pod-1"]

    run_plane(COLLECTOR, scenario)


def test_pod_that_names_a_node_that_never_was_goes() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod_body(node="nowhere"))
        await plane.pass_time(2 * QUARANTINE_SECONDS)
        assert await plane.names(POD) == []

    run_plane(COLLECTOR, scenario, client=flaky(0.4))
