"""DaemonSets: what they do next, and the controller with a scheduler's place taken by hand."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from mooring.api import kinds, well_known
from mooring.api.kinds import CONTROLLER_REVISION, DAEMON_SET, NODE, POD
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.control.component import Component, Context
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.workloads.daemonset import (
    DaemonSetState,
    daemon_set_status,
    node_of,
    node_suitability,
    plan_daemon_set,
    template_pod,
)
from mooring.controllers.workloads.daemonset_controller import DaemonSetController
from mooring.controllers.workloads.pod_rules import revision_of
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import NodeTemplate
from mooring.scheduler.component import Scheduler
from support.builders import Body, a_node, a_pod, metadata, node_body, viewed
from support.partial_control_plane import Plane, flaky, run_plane


def set_body(
    *,
    image: str = "example.com/agent:1",
    spec: Body | None = None,
    strategy: str = "RollingUpdate",
    unavailable: int | str = 1,
    surge: int | str = 0,
) -> Body:
    how: Body = {"type": strategy}
    if strategy == "RollingUpdate":
        how["rollingUpdate"] = {"maxUnavailable": unavailable, "maxSurge": surge}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name="agent", namespace="default"),
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": how,
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": image}], **(spec or {})},
            },
        },
    }


a_set = viewed(kinds.DAEMON_SET, set_body)
NODES = [a_node(name=f"n{number}") for number in (1, 2, 3)]


def its_pod(
    node: str, *, new: bool = True, ready: bool = True, name: str = "", phase: str = "Running", deleting: bool = False
) -> Pod:
    word = revision_of(a_set()).hash if new else "0000000000"
    return a_pod(
        name=name or f"agent-{node}",
        node=node,
        phase=phase,
        labels={"app": "agent", well_known.CONTROLLER_REVISION_HASH: word},
        conditions=[{"type": "Ready", "status": "True"}] if ready else [],
        deleting=deleting,
    )


def actions(pods: Sequence[Pod], nodes: Sequence[Node] = tuple(NODES), **given: Any) -> list[str]:  # noqa: ANN401
    found = a_set(**given)
    said = plan_daemon_set(found, DaemonSetState(revision_of(found), pods, nodes, 0.0))
    return [
        *(f"create on {node}" for node in said.create),
        *(f"delete {pod.name}" for pod in said.delete),
        *(f"replace {pod.name}" for pod in said.replace),
    ]


ALL = [its_pod(f"n{number}") for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([], ["create on n1", "create on n2", "create on n3"], id="one for every node"),
        pytest.param(ALL, [], id="complete"),
        pytest.param([*ALL, its_pod("n1", name="more")], ["delete more"], id="one too many"),
        pytest.param([*ALL, its_pod("gone")], ["delete agent-gone"], id="on a node that is gone"),
        pytest.param([*ALL[1:], its_pod("n1", deleting=True)], [], id="waits for one that goes"),
        pytest.param([*ALL[1:], its_pod("n1", phase="Failed")], ["replace agent-n1"], id="failed"),
    ],
)
def test_one_pod_on_every_node(pods: list[Pod], want: list[str]) -> None:
    assert actions(pods) == want


OLD = [its_pod(f"n{number}", new=False) for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("pods", "given", "want"),
    [
        pytest.param(OLD, {}, ["delete agent-n1"], id="one at a time"),
        pytest.param(OLD, {"unavailable": "50%"}, ["delete agent-n1", "delete agent-n2"], id="half, rounded up"),
        pytest.param([*OLD[:2], its_pod("n3", ready=False)], {}, [], id="not while a new one starts"),
        pytest.param(
            [*OLD[:2], its_pod("n3", new=False, ready=False)],
            {},
            ["delete agent-n3"],
            id="what does not work goes first",
        ),
        pytest.param(OLD, {"strategy": "OnDelete"}, [], id="not at all when users delete pods"),
        pytest.param(OLD, {"surge": 1, "unavailable": 0}, ["create on n1"], id="the new one comes first"),
        pytest.param(
            [*OLD, its_pod("n1", name="new", ready=False)], {"surge": 1, "unavailable": 0}, [], id="and is waited for"
        ),
        pytest.param(
            [*OLD, its_pod("n1", name="new")],
            {"surge": 1, "unavailable": 0},
            ["delete agent-n1"],
            id="before the old goes",
        ),
    ],
)
def test_updates(pods: list[Pod], given: dict[str, Any], want: list[str]) -> None:
    assert actions(pods, **given) == want


@pytest.mark.parametrize(
    ("node", "spec", "want"),
    [
        pytest.param(a_node(), {}, (True, True), id="any node"),
        pytest.param(a_node(), {"nodeSelector": {"disk": "ssd"}}, (False, False), id="another label"),
        pytest.param(
            a_node(taints=[{"key": "dedicated", "effect": "NoSchedule"}]), {}, (False, True), id="barred, may stay"
        ),
        pytest.param(
            a_node(taints=[{"key": "dedicated", "effect": "NoExecute"}]), {}, (False, False), id="barred, must go"
        ),
        pytest.param(
            a_node(taints=[{"key": well_known.UNREACHABLE, "effect": "NoExecute"}]), {}, (True, True), id="unreachable"
        ),
        pytest.param(
            a_node(taints=[{"key": well_known.UNSCHEDULABLE, "effect": "NoSchedule"}], unschedulable=True),
            {},
            (True, True),
            id="cordoned",
        ),
    ],
)
def test_nodes_that_should_run_a_pod(node: Node, spec: Body, want: tuple[bool, bool]) -> None:
    found = a_set(spec=spec)
    assert node_suitability(template_pod(revision_of(found)), node) == want


def test_status() -> None:
    found = a_set()
    pods = [its_pod("n1"), its_pod("n2", new=False), its_pod("n3", ready=False)]
    said = daemon_set_status(found, DaemonSetState(revision_of(found), pods, NODES, 0.0))
    assert said["desiredNumberScheduled"] == said["currentNumberScheduled"] == 3
    assert (said["updatedNumberScheduled"], said["numberAvailable"], said["numberUnavailable"]) == (2, 2, 1)


def _node_agent(context: Context) -> Component:
    return NodeAgent(context, [NodeTemplate(f"n{number}") for number in (1, 2, 3)])


def _scheduler(context: Context) -> Component:
    return Scheduler(context)


PARTS = [DaemonSetController, GarbageCollector, _node_agent, _scheduler]


async def _rolled_out(plane: Plane, nodes: int) -> bool:
    """As `kubectl rollout status` sees it."""
    found = await plane.get(DAEMON_SET, "agent")
    said = found.status
    seen = said.observed_generation == found.metadata.generation
    return seen and said.updated_number_scheduled == said.number_available == said.desired_number_scheduled == nodes


@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.3, id="with lost answers")])
@pytest.mark.req("T34.daemon-set")
def test_pods_go_through_the_scheduler_to_every_node_and_follow_nodes_and_template(share: float) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(DAEMON_SET, set_body())
        await plane.until(lambda: _rolled_out(plane, 3), within=300.0)
        pods = (await plane.client.list(POD)).items
        assert sorted(pod.spec.node_name for pod in pods) == ["n1", "n2", "n3"]
        assert all(node_of(pod) == pod.spec.node_name for pod in pods)
        if not share:
            told = [await plane.events_about(pod.name) for pod in pods]
            assert all(any(each.startswith("Scheduled: ") for each in of_pod) for of_pod in told)
        await plane.create(NODE, node_body(name="n4") | {"spec": {"providerID": "mooring://n4"}})
        await plane.until(lambda: _rolled_out(plane, 4), within=300.0)
        await plane.client.patch(
            DAEMON_SET,
            "agent",
            MergePatch({"spec": set_body(image="example.com/agent:2")["spec"]}),
            namespace="default",
        )
        await plane.until(lambda: _rolled_out(plane, 4), within=600.0)
        assert {pod.spec.containers[0].image for pod in (await plane.client.list(POD)).items} == {"example.com/agent:2"}
        stored = (await plane.client.list(CONTROLLER_REVISION)).items
        first = next(one for one in stored if one.revision == 1)
        undo = StrategicPatch(msgspec.json.decode(first.data))
        await plane.client.patch(DAEMON_SET, "agent", undo, namespace="default")
        await plane.pass_time(1.0)
        await plane.until(lambda: _rolled_out(plane, 4), within=600.0)
        assert {pod.spec.containers[0].image for pod in (await plane.client.list(POD)).items} == {"example.com/agent:1"}

    run_plane(PARTS, scenario, client=flaky(share))
