"""Orphans are adopted by the first owner whose selector matches, in either selector syntax."""

import pytest

from mooring.api.kinds import POD, REPLICA_SET
from mooring.api.patches.contract import MergePatch
from mooring.controllers.workloads.replicaset_controller import ReplicaSetController
from support.builders import Body, pod_body
from support.partial_control_plane import Plane, run_plane

TEMPLATE = {
    "metadata": {"labels": {"app": "web", "tier": "front"}},
    "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
}

SELECTORS = [
    pytest.param({"matchLabels": {"app": "web"}}, id="one label"),
    pytest.param({"matchLabels": {"tier": "front", "app": "web"}}, id="two labels"),
    pytest.param({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}, id="one of several"),
    pytest.param({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, id="any value of a label"),
    pytest.param({"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}, id="the lack of a label"),
]


def owner(selector: Body) -> Body:
    spec = {"replicas": 1, "selector": selector, "template": TEMPLATE}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
    }


def orphan(**labels: str) -> Body:
    return pod_body(name="orphan", node="node-1", labels={"app": "web", "tier": "front"} | labels)


async def owned(plane: Plane) -> list[str]:
    return sorted(pod.name for pod in (await plane.client.list(POD)).items if pod.controller is not None)


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("pod_first", [True, False], ids=["the pod comes first", "the owner comes first"])
def test_an_orphan_that_is_chosen_is_taken_in(selector: Body, pod_first: bool) -> None:
    async def scenario(plane: Plane) -> None:
        bodies = [(POD, orphan()), (REPLICA_SET, owner(selector))]
        for kind, body in bodies if pod_first else reversed(bodies):
            await plane.create(kind, body)
            await plane.pass_time(1.0)
        assert await owned(plane) == ["orphan"], "the set's own pod goes first: it is unscheduled"

    run_plane([ReplicaSetController], scenario)


def test_an_orphan_of_other_labels_is_left_alone_until_it_has_them() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, orphan(app="other"))
        await plane.create(REPLICA_SET, owner({"matchLabels": {"app": "web"}}))
        await plane.pass_time(1.0)
        assert "orphan" not in await owned(plane)
        patch = MergePatch({"metadata": {"labels": {"app": "web"}}})
        await plane.client.patch(POD, "orphan", patch, namespace="default")
        await plane.pass_time(1.0)
        assert await owned(plane) == ["orphan"], "it is placed, the other is not"

    run_plane([ReplicaSetController], scenario)
