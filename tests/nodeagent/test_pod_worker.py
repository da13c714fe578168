"""Lives of pods on nodes, against the real API server in memory, in virtual time."""

from functools import partial
from typing import Unpack

import pytest

from mooring.api import well_known
from mooring.api.errors import Conflict
from mooring.api.kinds import CONFIG_MAP, NODE, POD, SECRET, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.client.contract import Deletion, V
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import POWER, NodeTemplate
from support.builders import Body, pod_body
from support.partial_control_plane import Plane, flaky, run_plane


def agent(context: Context) -> Component:
    return NodeAgent(context, [NodeTemplate("node-1", capacity={"cpu": "2", "memory": "1Gi", "pods": "10"})])


pod = partial(pod_body, node="node-1")


async def _pod(plane: Plane, name: str = "pod-1") -> Pod:
    return await plane.get(POD, name)


@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.3, id="with lost answers")])
def test_a_pod_does_what_its_annotations_say(share: float) -> None:
    said = {"mooring.dev/start-after": "5s", "mooring.dev/run-for": "60s", "mooring.dev/exit-code": "2"}

    async def scenario(plane: Plane) -> None:
        body = pod(annotations=said)
        body["spec"]["restartPolicy"] = "Never"
        await plane.create(POD, body)
        await plane.pass_time(3.0)
        assert (await _pod(plane)).status.container_statuses[0].state.waiting is not None
        await plane.pass_time(20.0)
        assert (await _pod(plane)).status.phase == "Running"
        await plane.pass_time(80.0)
        ended = (await _pod(plane)).status
        assert ended.phase == "Failed"
        state = ended.container_statuses[0].state.terminated
        assert state is not None
        assert state.exit_code == 2

    run_plane([agent], scenario, client=flaky(share))


def test_ended_pod_releases_resources() -> None:
    async def scenario(plane: Plane) -> None:
        body = pod(name="first", requests={"cpu": "2"}, annotations={"mooring.dev/run-for": "5s"})
        body["spec"]["restartPolicy"] = "Never"
        await plane.create(POD, body)
        await plane.pass_time(10.0)
        await plane.create(POD, pod(name="second", requests={"cpu": "2"}))
        await plane.pass_time(1.0)
        assert (await _pod(plane, "second")).status.phase == "Running"

    run_plane([agent], scenario)


def test_invalid_annotation_fails_only_its_pod() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod(annotations={"mooring.dev/run-for": "soon"}))
        await plane.create(POD, pod(name="other"))
        await plane.pass_time(1.0)
        refused = (await _pod(plane)).status
        assert (refused.phase, refused.reason) == ("Failed", "InvalidScript")
        assert "mooring.dev/run-for: invalid duration 'soon'" in refused.message
        assert (await _pod(plane, "other")).status.phase == "Running"
        await plane.client.delete(POD, "pod-1", namespace="default")
        await plane.pass_time(1.0)
        assert await plane.names(POD) == ["other"]

    run_plane([agent], scenario)


def test_invalid_annotation_does_not_end_running_pod() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod())
        await plane.pass_time(1.0)
        wrong = MergePatch({"metadata": {"annotations": {"mooring.dev/run-for": "soon"}}})
        await plane.client.patch(POD, "pod-1", wrong, namespace="default")
        await plane.pass_time()
        assert (await _pod(plane)).status.phase == "Running"
        assert any(line.startswith("InvalidScript: ") for line in await plane.events_about("pod-1"))

    run_plane([agent], scenario)


def test_a_pod_takes_the_time_it_needs_to_stop() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod(annotations={"mooring.dev/stop-after": "20s"}))
        await plane.pass_time(1.0)
        await plane.client.delete(POD, "pod-1", namespace="default")
        await plane.pass_time(15.0)
        assert (await _pod(plane)).deleting
        await plane.pass_time(10.0)
        assert await plane.names(POD) == []

    run_plane([agent], scenario)


PROJECTED: Body = {"name": "all", "projected": {"sources": [{"secret": {"name": "password"}}]}}


@pytest.mark.parametrize(
    ("volume", "missing"),
    [
        pytest.param({"name": "all", "configMap": {"name": "settings"}}, (CONFIG_MAP, "settings"), id="a ConfigMap"),
        pytest.param({"name": "all", "secret": {"secretName": "password"}}, (SECRET, "password"), id="a Secret"),
        pytest.param(PROJECTED, (SECRET, "password"), id="a Secret in a projected volume"),
        pytest.param({"name": "all", "configMap": {"name": "a", "optional": True}}, None, id="an optional one"),
        pytest.param({"name": "all", "emptyDir": {}}, None, id="an empty folder"),
        pytest.param({"name": "all", "hostPath": {"path": "/tmp"}}, None, id="a folder of the node"),
    ],
)
def test_pods_wait_for_what_their_volumes_are_made_of(volume: Body, missing: tuple[object, str] | None) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod(volumes=[volume]))
        await plane.pass_time(10.0)
        if missing is None:
            assert (await _pod(plane)).status.phase == "Running"
            return
        kind, name = missing
        waiting = (await _pod(plane)).status
        assert waiting.phase == "Pending"
        state = waiting.container_statuses[0].state.waiting
        assert state is not None
        assert state.reason == "ContainerCreating"
        what = "configmap" if kind is CONFIG_MAP else "secret"
        [said] = await plane.events_about("pod-1")
        assert said == f'FailedMount: MountVolume.SetUp failed for volume "all" : {what} "{name}" not found'
        made: Body = {"metadata": {"name": name, "namespace": "default"}}
        await plane.create(CONFIG_MAP if kind is CONFIG_MAP else SECRET, made)
        await plane.pass_time(130.0)
        assert (await _pod(plane)).status.phase == "Running"

    run_plane([agent], scenario)


def test_pods_of_a_node_without_power_stay_as_they_are() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod(name="old"))
        await plane.pass_time(1.0)
        await plane.client.patch(NODE, "node-1", MergePatch({"metadata": {"annotations": {POWER: "off"}}}))
        await plane.create(POD, pod(name="new"))
        await plane.client.delete(POD, "old", namespace="default")
        await plane.pass_time()
        assert (await _pod(plane, "old")).deleting
        assert (await _pod(plane, "new")).status.phase == "Pending"
        await plane.client.patch(NODE, "node-1", MergePatch({"metadata": {"annotations": {POWER: None}}}))
        await plane.pass_time(1.0)
        assert await plane.names(POD) == ["new"]
        assert (await _pod(plane, "new")).status.phase == "Running"

    run_plane([agent], scenario)


def test_heartbeats_of_a_node_do_not_touch_its_pods() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod())
        await plane.pass_time()
        before = await _pod(plane)
        await plane.client.patch(NODE, "node-1", MergePatch({"metadata": {"labels": {well_known.ZONE: "a"}}}))
        await plane.pass_time(3600.0)
        assert await _pod(plane) == before

    run_plane([agent], scenario)


class ConflictOnce(LocalClient):
    """Refuses the first deletion of a pod with 409, about something else than its uid."""

    refuses = True

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        if kind is POD and self.refuses:
            self.refuses = False
            raise Conflict("the server refused")
        await super().delete(kind, name, namespace=namespace, **options)


def test_pod_is_removed_after_a_conflict_at_its_last_deletion() -> None:
    """Once taken for "another pod has the name": the pod stayed for good."""

    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod())
        await plane.pass_time(5.0)
        await plane.client.delete(POD, "pod-1", namespace="default")
        await plane.pass_time()
        assert await plane.names(POD) == []

    run_plane([agent], scenario, client=ConflictOnce)
