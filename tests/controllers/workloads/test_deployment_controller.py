"""Deployments and ReplicaSets against the real API server in memory, with nodes that run their pods."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from mooring.api.kinds import DEPLOYMENT, POD, REPLICA_SET
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import WatchEvent, WatchEventType
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.workloads.deployment import REVISION
from mooring.controllers.workloads.deployment_controller import DeploymentController
from mooring.controllers.workloads.replicaset_controller import ReplicaSetController
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import NodeTemplate
from support.builders import pod_body
from support.builders.deployments import deployment_body, set_body
from support.partial_control_plane import Plane, flaky, run_plane


def _node_agent(context: Context) -> Component:
    return NodeAgent(context, [NodeTemplate("node-1")])


PARTS = [DeploymentController, ReplicaSetController, GarbageCollector, _node_agent]

LOSSES = pytest.mark.parametrize(
    "share", [pytest.param(0.0, id="on a good day"), pytest.param(0.3, id="with lost answers")]
)


async def _done(plane: Plane, replicas: int) -> bool:
    """As `kubectl rollout status` sees it."""
    found = await plane.get(DEPLOYMENT, "web")
    said = found.status
    seen = said.observed_generation == found.metadata.generation
    return seen and said.updated_replicas == said.replicas == said.available_replicas == replicas


async def _change(plane: Plane, **fields: object) -> None:
    patch = MergePatch({"spec": deployment_body(**fields)["spec"]})  # type: ignore[arg-type]  # passed on
    await plane.client.patch(DEPLOYMENT, "web", patch, namespace="default")


async def _images(plane: Plane) -> list[str]:
    return sorted(pod.spec.containers[0].image for pod in (await plane.client.list(POD)).items)


@LOSSES
def test_a_deployment_comes_up_changes_grows_and_goes(share: float) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(DEPLOYMENT, deployment_body())
        await plane.until(lambda: _done(plane, 3), within=300.0)
        await _change(plane, image="example.com/web:2")
        await plane.until(lambda: _done(plane, 3), within=300.0)
        assert await _images(plane) == ["example.com/web:2"] * 3
        await _change(plane, image="example.com/web:2", replicas=7)
        await plane.until(lambda: _done(plane, 7), within=300.0)
        await _change(plane, image="example.com/web:2", replicas=1)
        await plane.until(lambda: _done(plane, 1), within=300.0)
        await plane.pass_time(300.0)
        assert len(await plane.names(POD)) == 1
        assert len(await plane.names(REPLICA_SET)) == 2
        await plane.client.delete(DEPLOYMENT, "web", namespace="default")
        await plane.pass_time(300.0)
        assert await plane.names(POD) == []
        assert await plane.names(REPLICA_SET) == []

    run_plane(PARTS, scenario, client=flaky(share))


class ClientWithoutDeletions(LocalClient):
    """Its watch does not tell which owners are gone: a cache that is behind for good."""

    async def watch(self, kind: Any, *, after: str | None, **scope: str) -> AsyncGenerator[WatchEvent[Any], None]:  # noqa: ANN401
        async with aclosing(super().watch(kind, after=after, **scope)) as events:
            async for event in events:
                if kind is POD or event.change is not WatchEventType.DELETED:
                    yield event


def test_set_of_a_deployment_that_is_gone_is_not_created_again() -> None:
    """The garbage collector deletes the set, and its going would have it created at once, in a loop."""

    async def scenario(plane: Plane) -> None:
        await plane.create(DEPLOYMENT, deployment_body())
        await plane.pass_time(1.0)
        [name] = await plane.names(REPLICA_SET)
        await plane.client.delete(DEPLOYMENT, "web", namespace="default")
        await plane.client.delete(REPLICA_SET, name, namespace="default")
        await plane.pass_time()
        assert await plane.names(REPLICA_SET) == []

    run_plane([DeploymentController], scenario, client=ClientWithoutDeletions)


def test_pods_of_a_set_that_is_gone_are_not_created_again() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(REPLICA_SET, set_body())
        await plane.pass_time(1.0)
        assert len(await plane.names(POD)) == 3
        [name] = await plane.names(REPLICA_SET)
        await plane.client.delete(REPLICA_SET, name, namespace="default")
        for pod in await plane.names(POD):
            await plane.client.delete(POD, pod, namespace="default", grace_seconds=0)
        await plane.pass_time()
        assert await plane.names(POD) == []

    run_plane([ReplicaSetController], scenario, client=ClientWithoutDeletions)


def test_never_too_many_and_never_too_few() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(DEPLOYMENT, deployment_body(replicas=6, surge=2, unavailable=1))
        await plane.until(lambda: _done(plane, 6))
        await _change(plane, replicas=6, surge=2, unavailable=1, image="example.com/web:2")
        while not await _done(plane, 6):
            pods = (await plane.client.list(POD)).items
            assert sum(not pod.deleting for pod in pods) <= 8
            assert sum(pod.ready and not pod.deleting for pod in pods) >= 5
            await plane.clock.sleep(0.001)

    run_plane(PARTS, scenario)


def test_recreate_lets_everything_go_first() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(DEPLOYMENT, deployment_body(strategy="Recreate"))
        await plane.until(lambda: _done(plane, 3))
        await _change(plane, strategy="Recreate", image="example.com/web:2")
        while not await _done(plane, 3):
            assert len(set(await _images(plane))) < 2
            await plane.clock.sleep(0.001)
        assert await _images(plane) == ["example.com/web:2"] * 3

    run_plane(PARTS, scenario)


def test_an_older_template_is_brought_back_with_its_set() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(DEPLOYMENT, deployment_body())
        await plane.until(lambda: _done(plane, 3))
        await _change(plane, image="example.com/web:2")
        await plane.until(lambda: _done(plane, 3))
        assert (await plane.get(DEPLOYMENT, "web")).metadata.annotations[REVISION] == "2"
        # What `kubectl rollout undo` writes: the old set's template without its hash.
        await _change(plane, image="example.com/web:1")
        await plane.until(lambda: _done(plane, 3))
        await plane.pass_time(1.0)
        assert (await plane.get(DEPLOYMENT, "web")).metadata.annotations[REVISION] == "3"
        sets = (await plane.client.list(REPLICA_SET)).items
        assert sorted(one.metadata.annotations[REVISION] for one in sets) == ["2", "3"]

    run_plane(PARTS, scenario)


def test_a_paused_deployment_waits() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(DEPLOYMENT, deployment_body())
        await plane.until(lambda: _done(plane, 3))
        await _change(plane, paused=True, image="example.com/web:2")
        await plane.pass_time()
        assert await _images(plane) == ["example.com/web:1"] * 3
        await _change(plane, paused=False, image="example.com/web:2")
        await plane.until(lambda: _done(plane, 3))
        assert await _images(plane) == ["example.com/web:2"] * 3

    run_plane(PARTS, scenario)


def test_a_deployment_at_rest_is_left_alone() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(DEPLOYMENT, deployment_body())
        await plane.pass_time()
        before = [await plane.client.list(kind) for kind in (DEPLOYMENT, REPLICA_SET, POD)]
        await plane.pass_time(3600.0)
        after = [await plane.client.list(kind) for kind in (DEPLOYMENT, REPLICA_SET, POD)]
        for then, now in zip(before, after, strict=True):
            assert [one.metadata for one in now.items] == [one.metadata for one in then.items]

    run_plane([DeploymentController, ReplicaSetController, *PARTS], scenario)


@LOSSES
def test_a_replica_set_makes_as_many_pods_as_it_is_asked_for_and_no_more(share: float) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(REPLICA_SET, set_body(replicas=20, owner=""))
        most = 0
        for _ in range(600):
            await plane.pass_time(0.5)
            most = max(most, len(await plane.names(POD)))
        assert most == 20
        said = (await plane.get(REPLICA_SET, "web-1")).status
        assert (said.replicas, said.ready_replicas, said.available_replicas) == (20, 20, 20)

    run_plane(PARTS, scenario, client=flaky(share))


def test_a_replica_set_takes_in_what_matches_and_removes_what_is_too_much() -> None:
    async def scenario(plane: Plane) -> None:
        for name in ("a", "b", "c"):
            await plane.create(POD, pod_body(name=name, node="node-1", labels={"app": "web"}))
        await plane.create(POD, pod_body(name="waiting", labels={"app": "web"}))
        await plane.pass_time(5.0)
        await plane.create(REPLICA_SET, set_body(replicas=3, owner=""))
        await plane.pass_time()
        # The unscheduled pod goes first. It stays Terminating: no kubelet ends it.
        pods = (await plane.client.list(POD)).items
        assert sorted(pod.name for pod in pods if not pod.deleting) == ["a", "b", "c"]
        assert all(pod.controller is not None for pod in pods)

    run_plane(PARTS, scenario)


def test_api_server_rejection_is_reported() -> None:
    async def scenario(plane: Plane) -> None:
        body = set_body(owner="")
        body["spec"]["template"]["spec"]["priorityClassName"] = "missing"
        await plane.create(REPLICA_SET, body)
        await plane.pass_time()
        said = await plane.events_about("web-1")
        assert any(line.startswith("FailedCreate: Error creating: ") for line in said)
        [condition] = (await plane.get(REPLICA_SET, "web-1")).status.conditions
        assert (condition.type, condition.reason) == ("ReplicaFailure", "FailedCreate")

    run_plane(PARTS, scenario)
