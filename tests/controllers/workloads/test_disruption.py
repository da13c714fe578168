"""How many pods of a budget may go: the figures, and evictions against the real API server."""

from typing import Any

import pytest

from mooring.api import kinds
from mooring.api.errors import TooManyRequests
from mooring.api.kinds import DISRUPTION_BUDGET, POD, REPLICA_SET
from mooring.api.views.pods import Pod
from mooring.control.component import Component, Context
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.workloads.disruption import Expected, next_expiry, status
from mooring.controllers.workloads.disruption_controller import DisruptionController
from mooring.controllers.workloads.replicaset_controller import ReplicaSetController
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import NodeTemplate
from support.builders import Body, a_pod, metadata, viewed
from support.builders.deployments import set_body
from support.partial_control_plane import Plane, run_plane

NOW = 1767225600.0


def budget_body(
    *, least: int | str | None = None, most: int | str | None = None, granted: dict[str, str] | None = None
) -> Body:
    spec: Body = {"selector": {"matchLabels": {"app": "web"}}}
    if least is not None:
        spec["minAvailable"] = least
    if most is not None:
        spec["maxUnavailable"] = most
    body: Body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name="web", namespace="default"),
        "spec": spec,
    }
    return body | ({"status": {"disruptedPods": granted}} if granted else {})


a_budget = viewed(kinds.DISRUPTION_BUDGET, budget_body)


def pods(healthy: int, ill: int = 0) -> list[Pod]:
    ready = [{"type": "Ready", "status": "True"}]
    return [
        a_pod(name=f"web-{number}", phase="Running", conditions=ready if number < healthy else [])
        for number in range(healthy + ill)
    ]


@pytest.mark.parametrize(
    ("given", "there", "expected", "want"),
    [
        pytest.param({"least": 2}, pods(3), 3, (3, 2, 1), id="two must stay"),
        pytest.param({"least": 3}, pods(3), 3, (3, 3, 0), id="all must stay"),
        pytest.param({"least": "50%"}, pods(3), 3, (3, 2, 1), id="half must stay, rounded up"),
        pytest.param({"most": 1}, pods(3), 3, (3, 2, 1), id="one may be missing"),
        pytest.param({"most": 1}, pods(2, ill=1), 3, (2, 2, 0), id="one is missing already"),
        pytest.param({"most": "30%"}, pods(10), 10, (10, 7, 3), id="a share may be missing"),
        pytest.param({"most": 1}, pods(2), 5, (2, 4, 0), id="others are still to come"),
        pytest.param({"most": 9}, pods(3), 3, (3, 0, 3), id="all may be missing"),
        pytest.param({"least": 0}, [], 0, (0, 0, 0), id="no pods"),
        pytest.param(
            {"least": 1, "granted": {"web-0": "2026-01-01T00:00:00Z"}}, pods(3), 3, (2, 1, 1), id="one was granted"
        ),
        pytest.param(
            {"least": 1, "granted": {"web-0": "2025-12-31T00:00:00Z"}}, pods(3), 3, (3, 1, 2), id="granted, never taken"
        ),
    ],
)
def test_figures(given: dict[str, Any], there: list[Pod], expected: int, want: tuple[int, int, int]) -> None:
    said = status(a_budget(**given), there, Expected(expected), now=NOW)
    assert (said["currentHealthy"], said["desiredHealthy"], said["disruptionsAllowed"]) == want


def test_what_cannot_be_counted_allows_nothing() -> None:
    said = status(a_budget(most=1), pods(3), Expected(0, "found no controllers for pod 'web-0'"), now=NOW)
    assert said["disruptionsAllowed"] == 0
    [condition] = said["conditions"]
    assert (condition["reason"], condition["message"]) == ("SyncFailed", "found no controllers for pod 'web-0'")


def test_unfinished_eviction_expires() -> None:
    assert next_expiry(a_budget(least=1), now=NOW) is None
    assert next_expiry(a_budget(least=1, granted={"web-0": "2026-01-01T00:00:00Z"}), now=NOW) == 120.0


def _node_agent(context: Context) -> Component:
    return NodeAgent(context, [NodeTemplate("node-1")])


def test_evictions_are_granted_one_at_a_time() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(REPLICA_SET, set_body(replicas=3, owner=""))
        await plane.create(DISRUPTION_BUDGET, budget_body(most=1))
        await plane.pass_time()
        assert (await plane.get(DISRUPTION_BUDGET, "web")).status.disruptions_allowed == 1
        first, second, _ = await plane.names(POD)
        await plane.client.evict(first, namespace="default")
        with pytest.raises(TooManyRequests):
            await plane.client.evict(second, namespace="default")
        await plane.pass_time()
        said = (await plane.get(DISRUPTION_BUDGET, "web")).status
        assert (said.current_healthy, said.disruptions_allowed, said.disrupted_pods) == (3, 1, {})
        await plane.client.evict(second, namespace="default")

    run_plane([DisruptionController, ReplicaSetController, GarbageCollector, _node_agent], scenario)
