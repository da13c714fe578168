"""DaemonSets: what they do next, and the controller with a scheduler's place taken by hand."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from builders import Body, a_node, a_pod, metadata, node_body, viewed
from mooring.api import keys, kinds
from mooring.api.kinds import CONTROLLER_REVISION, DAEMON_SET, NODE, POD
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.control.component import Component, Context
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.rows import NodeRow
from mooring.scheduler.component import Scheduler
from mooring.workloads.daemon_placement import node_of, template_pod, verdict
from mooring.workloads.daemonset import World, plan, status
from mooring.workloads.daemonset_controller import DaemonSetController
from mooring.workloads.garbage import GarbageCollector
from mooring.workloads.revisions import revision_of
from partial_plane import Plane, flaky, run_plane


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
    word = revision_of("agent", a_set().spec.template).hash if new else "0000000000"
    return a_pod(
        name=name or f"agent-{node}",
        node=node,
        phase=phase,
        labels={"app": "agent", keys.CONTROLLER_REVISION_HASH: word},
        conditions=[{"type": "Ready", "status": "True"}] if ready else [],
        deleting=deleting,
    )


def told(pods: Sequence[Pod], nodes: Sequence[Node] = tuple(NODES), **given: Any) -> list[str]:  # noqa: ANN401
    found = a_set(**given)
    said = plan(found, World(revision_of("agent", found.spec.template), pods, nodes, 0.0))
    return [
        *(f"create on {node}" for node in said.create),
        *(f"delete {pod.name}" for pod in said.delete),
        *(f"replace {pod.name}" for pod in said.replace),
    ]


ALL = [its_pod(f"n{number}") for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("pods", "wanted"),
    [
        pytest.param([], ["create on n1", "create on n2", "create on n3"], id="one for every node"),
        pytest.param(ALL, [], id="complete"),
        pytest.param([*ALL, its_pod("n1", name="more")], ["delete more"], id="one too many"),
        pytest.param([*ALL, its_pod("gone")], ["delete agent-gone"], id="on a node that is gone"),
        pytest.param([*ALL[1:], its_pod("n1", deleting=True)], [], id="waits for one that goes"),
        pytest.param([*ALL[1:], its_pod("n1", phase="Failed")], ["replace agent-n1"], id="failed"),
    ],
)
def test_one_pod_on_every_node(pods: list[Pod], wanted: list[str]) -> None:
    assert told(pods) == wanted


OLD = [its_pod(f"n{number}", new=False) for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("pods", "given", "wanted"),
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
def test_updates(pods: list[Pod], given: dict[str, Any], wanted: list[str]) -> None:
    assert told(pods, **given) == wanted


@pytest.mark.parametrize(
    ("node", "spec", "wanted"),
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
            a_node(taints=[{"key": keys.UNREACHABLE, "effect": "NoExecute"}]), {}, (True, True), id="unreachable"
        ),
        pytest.param(
            a_node(taints=[{"key": keys.UNSCHEDULABLE, "effect": "NoSchedule"}], unschedulable=True),
            {},
            (True, True),
            id="cordoned",
        ),
    ],
)
def test_where_a_pod_is_wanted(node: Node, spec: Body, wanted: tuple[bool, bool]) -> None:
    found = a_set(spec=spec)
    assert verdict(template_pod(revision_of("agent", found.spec.template)), node) == wanted


def test_status() -> None:
    found = a_set()
    pods = [its_pod("n1"), its_pod("n2", new=False), its_pod("n3", ready=False)]
    said = status(found, World(revision_of("agent", found.spec.template), pods, NODES, 0.0))
    assert said["desiredNumberScheduled"] == said["currentNumberScheduled"] == 3
    assert (said["updatedNumberScheduled"], said["numberAvailable"], said["numberUnavailable"]) == (2, 2, 1)


def _node_agent(context: Context) -> Component:
    return NodeAgent(context, [NodeRow(f"n{number}") for number in (1, 2, 3)])


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
@pytest.mark.req("T34")
def test_pods_go_through_the_scheduler_to_every_node_and_follow_nodes_and_template(share: float) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(DAEMON_SET, set_body())
        await plane.until(lambda: _rolled_out(plane, 3), within=300.0)
        pods = (await plane.client.list(POD)).items
        assert sorted(pod.spec.node_name for pod in pods) == ["n1", "n2", "n3"]
        assert all(node_of(pod) == pod.spec.node_name for pod in pods)
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
