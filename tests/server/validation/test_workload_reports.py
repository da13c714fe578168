"""What controllers may report of Deployments, ReplicaSets, DaemonSets and budgets."""

import pytest

from builders import Body
from mooring.api.kinds import DAEMON_SET, DEPLOYMENT, DISRUPTION_BUDGET, REPLICA_SET, Kind
from mooring.api.patches.contract import MergePatch
from server.harness import Harness, problems
from server.validation.test_workloads import BUDGET, WORKLOAD


@pytest.mark.parametrize(
    ("kind", "body", "status", "expected"),
    [
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            {"replicas": 1, "readyReplicas": 2, "availableReplicas": 1},
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
            id="a deployment",
        ),
        pytest.param(
            REPLICA_SET,
            WORKLOAD,
            {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2},
            ["status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"],
            id="a replica set",
        ),
        pytest.param(
            DAEMON_SET,
            WORKLOAD,
            {"numberReady": -1},
            ["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
            id="a daemon set",
        ),
        pytest.param(
            DISRUPTION_BUDGET,
            BUDGET,
            {"disruptionsAllowed": -1},
            ["status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0"],
            id="a budget",
        ),
    ],
)
async def test_reports_must_add_up(server: Harness, kind: Kind, body: Body, status: Body, expected: list[str]) -> None:
    await server.create(kind, body)
    patch = MergePatch({"status": status})
    assert await problems(server.patch(kind, "a", patch, subresource="status")) == expected


@pytest.mark.parametrize("kind", [DEPLOYMENT, DAEMON_SET], ids=lambda kind: kind.kind)
async def test_collisions_are_only_ever_added(server: Harness, kind: Kind) -> None:
    await server.create(kind, WORKLOAD)
    await server.patch(kind, "a", MergePatch({"status": {"collisionCount": 2}}), subresource="status")
    less = server.patch(kind, "a", MergePatch({"status": {"collisionCount": 1}}), subresource="status")
    assert await problems(less) == ["status.collisionCount: Invalid value: 1: cannot be decremented"]
