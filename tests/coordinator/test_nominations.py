"""After a rollback the coordinator nominates the pod to another node: which one, when, and what it never overwrites."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from mooring.api.kinds import CLAIM, NODE, POD
from mooring.api.patches.contract import MergePatch
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.control.component import Component, Context
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.coordinator.nominations import MAX_NOMINATIONS, Nominations, admits
from mooring.volumes.binding import HoldState
from mooring.volumes.holds.transitions import Intent, IntentPhase
from support.builders import node_body, pod_body
from support.builders.held_pods import Group
from support.partial_control_plane import Plane, run_plane

Scenario = Callable[[Group], Awaitable[None]]


def run_nominating(scenario: Scenario, *schedulers: str) -> None:
    def build(context: Context) -> Component:
        return Coordinator(context, CoordinatorSettings(nominate_for=frozenset(schedulers)))

    async def run(plane: Plane) -> None:
        group = Group(plane)
        await group.begin()
        await scenario(group)

    run_plane([build], run)


async def fail_on(group: Group, node: str) -> None:
    """As kube-scheduler and the provisioner do: `a` is held on the node, `b` fails, `a` is rolled back."""
    for claim in "ab":
        await group.select(claim, node)
    await nominate(group, node)
    await group.hold("a", node)
    await group.intend("b", Intent(1, node, IntentPhase.FAILED))
    await group.select("b", None)
    await group.becomes("a", HoldState.ROLLING_BACK, within=30)


async def nominate(group: Group, node: str | None) -> None:
    patch = MergePatch({"status": {"nominatedNodeName": node}})
    await group.client.patch(POD, "p", patch, namespace="default", subresource="status")


async def nominated(group: Group) -> str:
    await group.plane.pass_time(1)
    return (await group.plane.get(POD, "p")).status.nominated_node_name


@pytest.mark.req("R1.other-node")
def test_pod_is_nominated_to_another_node_once_its_claims_are_free() -> None:
    async def scenario(group: Group) -> None:
        await fail_on(group, "n1")
        await nominate(group, None)
        assert await nominated(group) == "", "claim a still has a selected node, which a scheduler has to follow"
        await group.select("a", None)
        assert await nominated(group) == "n2"

    run_nominating(scenario, "default-scheduler")


def test_nomination_that_the_failed_attempt_clears_is_written_again() -> None:
    """A kube-scheduler that is late clears it; one that cannot place the pod clears each, so they are bounded."""

    async def scenario(group: Group) -> None:
        await fail_on(group, "n1")
        await nominate(group, None)
        await group.select("a", None)
        for _ in range(MAX_NOMINATIONS):
            assert await nominated(group) == "n2"
            await nominate(group, None)
        assert await nominated(group) == ""

    run_nominating(scenario, "default-scheduler")


def test_node_that_a_scheduler_nominated_is_kept() -> None:
    async def scenario(group: Group) -> None:
        await fail_on(group, "n1")
        await group.select("a", None)
        assert await nominated(group) == "n1"

    run_nominating(scenario, "default-scheduler")


@pytest.mark.parametrize("schedulers", [(), ("mooring-scheduler",)])
def test_pods_of_other_schedulers_are_not_nominated(schedulers: tuple[str, ...]) -> None:
    async def scenario(group: Group) -> None:
        await fail_on(group, "n1")
        await nominate(group, None)
        await group.select("a", None)
        assert await nominated(group) == ""

    run_nominating(scenario, *schedulers)


def test_pod_without_another_node_is_not_nominated() -> None:
    async def scenario(group: Group) -> None:
        await group.client.patch(NODE, "n2", MergePatch({"spec": {"unschedulable": True}}))
        await fail_on(group, "n1")
        await nominate(group, None)
        await group.select("a", None)
        assert await nominated(group) == ""

    run_nominating(scenario, "default-scheduler")


def test_deleted_claims_and_pods_leave_nothing_behind() -> None:
    async def scenario(group: Group) -> None:
        await fail_on(group, "n1")
        await group.client.delete(POD, "p", namespace="default", grace_seconds=0)
        await group.client.delete(CLAIM, "a", namespace="default")
        await group.plane.pass_time(1)

    built: list[Coordinator] = []

    def build(context: Context) -> Component:
        built.append(Coordinator(context, CoordinatorSettings(nominate_for=frozenset({"default-scheduler"}))))
        return built[0]

    async def run(plane: Plane) -> None:
        group = Group(plane)
        await group.begin()
        await scenario(group)
        assert len(built[0]._nominations) == 0

    run_plane([build], run)


def test_every_node_is_tried_before_one_is_tried_again() -> None:
    nominations, nodes = Nominations(), ("a", "b", "c", "d")
    failed, tried = "c", []
    for _ in nodes:
        nominations.rolled_back("uid", failed)
        tried.append(failed)
        failed = nominations.choose("uid", [node for node in nodes if node != failed])
        nominations.nominated("uid", failed)
    assert tried == ["c", "d", "a", "b"]
    assert failed == "c"


def test_node_that_the_scheduler_did_not_follow_counts_as_tried() -> None:
    nominations = Nominations()
    nominations.rolled_back("uid", "a")
    nominations.nominated("uid", nominations.choose("uid", ["b", "c"]))
    nominations.rolled_back("uid", "a")
    assert nominations.choose("uid", ["b", "c"]) == "c"


TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "selector", "admitted"),
    [
        pytest.param({}, {}, True, id="plain"),
        pytest.param({"unschedulable": True}, {}, False, id="cordoned"),
        pytest.param({"taints": [TAINT]}, {}, False, id="taint"),
        pytest.param({"taints": [TAINT | {"effect": "PreferNoSchedule"}]}, {}, True, id="soft taint"),
        pytest.param({}, {"disk": "ssd"}, True, id="selector"),
        pytest.param({}, {"disk": "hdd"}, False, id="other selector"),
    ],
)
def test_labels_and_taints_exclude_nodes(node: dict[str, Any], selector: dict[str, str], admitted: bool) -> None:
    body = node_body(name="n", labels={"disk": "ssd"})
    body["spec"] = node
    pod = msgspec.convert(pod_body(name="p", node_selector=selector), Pod)
    assert admits(msgspec.convert(body, Node), pod) is admitted


@pytest.mark.parametrize(("value", "admitted"), [("ssd", True), ("hdd", False)])
def test_required_affinity_excludes_nodes(value: str, admitted: bool) -> None:
    body = pod_body(name="p")
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    body["spec"]["affinity"] = {"nodeAffinity": required}
    node = msgspec.convert(node_body(name="n", labels={"disk": "ssd"}), Node)
    assert admits(node, msgspec.convert(body, Pod)) is admitted
