"""The StatefulSet controller against the real API server in memory, with nodes that run its pods."""

import msgspec
import pytest

from mooring.api.kinds import CLAIM, CONTROLLER_REVISION, DAEMON_SET, NAMESPACE, POD, STATEFUL_SET
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.control.component import Component, Context
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.workloads.daemonset_controller import DaemonSetController
from mooring.controllers.workloads.statefulset_controller import StatefulSetController
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import NodeTemplate
from support.builders import claim_body, pod_body
from support.builders.stateful_sets import set_body
from support.partial_control_plane import Plane, flaky, run_plane

#: Pods of these tests name their node: who else would place them is not what is tested.
ON_NODE = {"nodeName": "node-1"}


def _node_agent(context: Context) -> Component:
    return NodeAgent(context, [NodeTemplate("node-1")])


PARTS = [StatefulSetController, GarbageCollector, _node_agent]


async def _ready(plane: Plane, replicas: int) -> bool:
    found = await plane.get(STATEFUL_SET, "web")
    said = found.status
    return said.ready_replicas == said.replicas == replicas and said.observed_generation == found.metadata.generation


async def _change(plane: Plane, spec: dict[str, object]) -> None:
    await plane.client.patch(STATEFUL_SET, "web", MergePatch({"spec": spec}), namespace="default")


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.4, id="with lost answers")])
@pytest.mark.req("T43.statefulset")
def test_set_comes_up_grows_shrinks_and_goes(policy: str, share: float) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(policy=policy, template=ON_NODE))
        await plane.until(lambda: _ready(plane, 3))
        assert await plane.names(POD) == ["web-0", "web-1", "web-2"]
        await _change(plane, {"replicas": 5})
        await plane.until(lambda: _ready(plane, 5))
        await _change(plane, {"replicas": 1})
        await plane.until(lambda: _ready(plane, 1))
        assert await plane.names(POD) == ["web-0"]
        await plane.client.delete(STATEFUL_SET, "web", namespace="default")
        await plane.pass_time()
        assert await plane.names(POD) == []

    run_plane(PARTS, scenario, client=flaky(share))


def test_claims_are_made_and_stay() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body(name="data-web-0", labels={"prepared": "by-hand"}))
        await plane.create(STATEFUL_SET, set_body(replicas=1, claims=["data", "log"]))
        await plane.pass_time()
        assert await plane.names(CLAIM) == ["data-web-0", "log-web-0"]
        assert (await plane.get(CLAIM, "data-web-0")).metadata.labels == {"prepared": "by-hand"}
        assert await plane.events_about("web") == [
            "SuccessfulCreate: create Claim log-web-0 Pod web-0 in StatefulSet web success",
            "SuccessfulCreate: create Pod web-0 in StatefulSet web successful",
        ]
        # The pod does not run, so nothing protects its claim.
        await plane.client.delete(CLAIM, "log-web-0", namespace="default")
        unprotected = MergePatch({"metadata": {"finalizers": None}})
        gone = (await plane.get(CLAIM, "log-web-0")).uid
        await plane.client.patch(CLAIM, "log-web-0", unprotected, namespace="default")
        await plane.pass_time(1.0)
        assert (await plane.get(CLAIM, "log-web-0")).uid != gone
        await plane.client.delete(STATEFUL_SET, "web", namespace="default")
        await plane.pass_time()
        assert await plane.names(CLAIM) == ["data-web-0", "log-web-0"]

    run_plane(PARTS, scenario)


def test_update_reaches_every_pod_once() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(template=ON_NODE))
        await plane.until(lambda: _ready(plane, 3))
        old = (await plane.get(STATEFUL_SET, "web")).status.current_revision
        await _change(plane, set_body(template=ON_NODE, image="example.com/web:2")["spec"])
        await plane.until(lambda: _rolled_out(plane))
        pods = (await plane.client.list(POD)).items
        assert [pod.spec.containers[0].image for pod in pods] == ["example.com/web:2"] * 3
        assert (await plane.get(STATEFUL_SET, "web")).status.current_revision != old
        deleted = [said for said in await plane.events_about("web") if said.startswith("SuccessfulDelete")]
        assert deleted == [
            f"SuccessfulDelete: delete Pod web-{ordinal} in StatefulSet web successful" for ordinal in range(3)
        ]

    run_plane(PARTS, scenario)


async def _rolled_out(plane: Plane) -> bool:
    found = await plane.get(STATEFUL_SET, "web")
    said = found.status
    seen = said.observed_generation == found.metadata.generation
    return seen and said.updated_replicas == said.ready_replicas == 3 and said.current_revision == said.update_revision


def test_pod_that_fails_at_once_is_replaced_with_backoff() -> None:
    """No node has room for it: every new pod is refused as soon as it is there."""
    huge = {"containers": [{"name": "main", "image": "example.com/web:1", "resources": {"requests": {"cpu": "99"}}}]}

    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(replicas=1, template=ON_NODE | huge))
        seen: set[str] = set()
        for _ in range(600):
            await plane.pass_time(1.0)
            seen |= {pod.uid for pod in (await plane.client.list(POD)).items}
        assert 5 <= len(seen) <= 12
        assert any(
            said == "RecreatingFailedPod: StatefulSet default/web is recreating failed Pod web-0"
            for said in await plane.events_about("web")
        )

    run_plane(PARTS, scenario)


def test_foreign_pod_of_that_name_is_reported_and_waited_for() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod_body(name="web-1", node="node-1"))
        await plane.create(STATEFUL_SET, set_body(template=ON_NODE, policy="Parallel"))
        await plane.pass_time()
        assert 'FailedCreate: create Pod web-1 in StatefulSet web failed error: pods "web-1" already exists' in (
            await plane.events_about("web")
        )
        said = (await plane.get(STATEFUL_SET, "web")).status
        assert (said.replicas, said.ready_replicas) == (2, 2)
        await plane.client.delete(POD, "web-1", namespace="default")
        await plane.until(lambda: _ready(plane, 3), within=2.0)

    run_plane(PARTS, scenario)


def test_set_made_again_while_its_old_pods_go() -> None:
    async def scenario(plane: Plane) -> None:
        hold = set_body(template=ON_NODE, replicas=1)
        hold["spec"]["template"]["metadata"]["finalizers"] = ["example.com/hold"]
        first = await plane.create(STATEFUL_SET, hold)
        await plane.until(lambda: _ready(plane, 1))
        await plane.client.delete(STATEFUL_SET, "web", namespace="default")
        second = await plane.create(STATEFUL_SET, set_body(template=ON_NODE, replicas=1))
        await plane.pass_time()
        old = await plane.get(POD, "web-0")
        assert old.deleting
        assert old.controller is not None
        assert old.controller.uid == first.uid
        await plane.client.patch(POD, "web-0", MergePatch({"metadata": {"finalizers": None}}), namespace="default")
        await plane.until(lambda: _ready(plane, 1), within=2.0)
        new = (await plane.get(POD, "web-0")).controller
        assert new is not None
        assert new.uid == second.uid

    run_plane(PARTS, scenario)


async def _images(plane: Plane) -> list[str]:
    return [pod.spec.containers[0].image for pod in (await plane.client.list(POD)).items]


def _revised(number: int, **how: object) -> dict[str, object]:
    spec: dict[str, object] = set_body(template=ON_NODE, image=f"example.com/web:{number}")["spec"]
    return spec | how


def test_the_partition_keeps_old_pods_and_makes_them_again_as_they_were() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(template=ON_NODE))
        await plane.until(lambda: _ready(plane, 3))
        held = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
        await _change(plane, _revised(2, **held))
        await plane.pass_time()
        assert await _images(plane) == ["example.com/web:1", "example.com/web:1", "example.com/web:2"]
        await plane.client.delete(POD, "web-0", namespace="default")
        await plane.pass_time()
        assert await _images(plane) == ["example.com/web:1", "example.com/web:1", "example.com/web:2"]
        said = (await plane.get(STATEFUL_SET, "web")).status
        assert (said.current_replicas, said.updated_replicas) == (2, 1)
        assert said.current_revision != said.update_revision

    run_plane(PARTS, scenario)


def test_revisions_are_kept_numbered_and_can_be_brought_back() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(template=ON_NODE))
        for number in (2, 3):
            await plane.until(lambda: _rolled_out(plane))
            await _change(plane, _revised(number))
        await plane.until(lambda: _rolled_out(plane))
        stored = (await plane.client.list(CONTROLLER_REVISION)).items
        by_number = {one.revision: one for one in stored}
        assert sorted(by_number) == [1, 2, 3]
        # What `kubectl rollout undo --to-revision=1` sends.
        undo = StrategicPatch(msgspec.json.decode(by_number[1].data))
        await plane.client.patch(STATEFUL_SET, "web", undo, namespace="default")
        await plane.pass_time(1.0)
        await plane.until(lambda: _rolled_out(plane))
        assert await _images(plane) == ["example.com/web:1"] * 3
        stored = (await plane.client.list(CONTROLLER_REVISION)).items
        assert sorted(one.revision for one in stored) == [2, 3, 4]
        assert len(stored) == 3

    run_plane(PARTS, scenario)


def test_old_revisions_are_deleted() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(template=ON_NODE, replicas=1))
        for number in range(2, 7):
            await plane.until(lambda: _ready(plane, 1))
            await _change(plane, _revised(number, replicas=1, revisionHistoryLimit=2))
            await plane.pass_time()
        stored = (await plane.client.list(CONTROLLER_REVISION)).items
        assert sorted(one.revision for one in stored) == [4, 5, 6]

    run_plane(PARTS, scenario)


@pytest.mark.parametrize("daemon_set_first", [True, False])
def test_daemon_set_of_the_same_name_and_template_has_revisions_of_its_own(daemon_set_first: bool) -> None:
    async def scenario(plane: Plane) -> None:
        stateful = set_body(replicas=1, template=ON_NODE)
        spec = {field: stateful["spec"][field] for field in ("selector", "template")}
        daemon = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
        sets = [(DAEMON_SET, daemon), (STATEFUL_SET, stateful)]
        for kind, body in sets if daemon_set_first else reversed(sets):
            await plane.create(kind, body)
            await plane.pass_time(10.0)
        assert await _ready(plane, 1)
        owners = [(await plane.get(POD, name)).controller for name in await plane.names(POD)]
        assert [owner and owner.kind for owner in owners] == ["StatefulSet", "DaemonSet"]
        listed = (await plane.client.list(CONTROLLER_REVISION)).items
        assert sorted(one.controller.kind for one in listed if one.controller) == ["DaemonSet", "StatefulSet"]
        collided = (await plane.get(DAEMON_SET, "web")).status, (await plane.get(STATEFUL_SET, "web")).status
        assert [status.collision_count or 0 for status in collided] == [not daemon_set_first, daemon_set_first]

    run_plane([*PARTS, DaemonSetController], scenario)


def test_orphans_are_taken_in() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(template=ON_NODE))
        await plane.until(lambda: _ready(plane, 3))
        before = [pod.uid for pod in (await plane.client.list(POD)).items]
        await plane.client.delete(STATEFUL_SET, "web", namespace="default", propagation="Orphan")
        await plane.pass_time()
        assert all(pod.controller is None for pod in (await plane.client.list(POD)).items)
        again = await plane.create(STATEFUL_SET, set_body(template=ON_NODE))
        await plane.until(lambda: _ready(plane, 3))
        pods = (await plane.client.list(POD)).items
        assert [pod.uid for pod in pods] == before
        assert [pod.controller.uid for pod in pods if pod.controller is not None] == [again.uid] * 3

    run_plane(PARTS, scenario)


def test_a_pod_that_no_longer_matches_is_let_go() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(template=ON_NODE, replicas=1))
        await plane.until(lambda: _ready(plane, 1))
        other = MergePatch({"metadata": {"labels": {"app": "debug"}}})
        await plane.client.patch(POD, "web-0", other, namespace="default")
        await plane.pass_time()
        assert (await plane.get(POD, "web-0")).controller is None
        assert any("already exists" in said for said in await plane.events_about("web"))
        await plane.client.delete(POD, "web-0", namespace="default")
        await plane.until(lambda: _ready(plane, 1), within=2.0)

    run_plane(PARTS, scenario)


@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.3, id="with lost answers")])
def test_claims_go_when_the_set_is_scaled_or_deleted(share: float) -> None:
    async def scenario(plane: Plane) -> None:
        body = set_body(claims=["data"], retention="Delete", when_scaled="Delete", policy="Parallel")
        await plane.create(STATEFUL_SET, body)
        await plane.pass_time()
        assert await plane.names(CLAIM) == ["data-web-0", "data-web-1", "data-web-2"]
        await _change(plane, {"replicas": 1})
        await plane.pass_time(300.0)
        assert await _unprotected(plane) == ["data-web-0"]
        await plane.client.delete(STATEFUL_SET, "web", namespace="default")
        await plane.pass_time(300.0)
        assert await _unprotected(plane) == []

    run_plane(PARTS, scenario, client=flaky(share))


async def _unprotected(plane: Plane) -> list[str]:
    """Claims that stay; no controller removes the protection finalizer here."""
    return [claim.name for claim in (await plane.client.list(CLAIM)).items if not claim.deleting]


def test_minimum_ready_time_holds_the_next_pod_back() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(template=ON_NODE, min_ready=20))
        await plane.pass_time(15.0)
        said = (await plane.get(STATEFUL_SET, "web")).status
        assert (said.replicas, said.ready_replicas, said.available_replicas) == (1, 1, 0)
        await plane.pass_time(60.0)
        said = (await plane.get(STATEFUL_SET, "web")).status
        assert (said.replicas, said.available_replicas) == (3, 3)

    run_plane(PARTS, scenario)


def test_it_keeps_quiet_in_a_namespace_that_goes() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.client.create(NAMESPACE, {"metadata": {"name": "acc"}})
        body = set_body(template=ON_NODE)
        body["metadata"]["namespace"] = "acc"
        await plane.create(STATEFUL_SET, body)
        await plane.pass_time()
        await plane.client.delete(NAMESPACE, "acc")
        await plane.client.delete(POD, "web-1", namespace="acc")
        await plane.pass_time(600.0)
        assert not any(said.startswith("Failed") for said in await plane.events_about("web"))

    run_plane(PARTS, scenario)


def test_a_set_that_shrinks_while_its_pods_wait_lets_them_go() -> None:
    """No scheduler binds the pods of this test; they stay pending."""

    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(claims=["data"], policy="Parallel"))
        await plane.pass_time()
        await _change(plane, {"replicas": 1})
        await plane.pass_time()
        assert await plane.names(POD) == ["web-0"]
        assert await plane.names(CLAIM) == ["data-web-0", "data-web-1", "data-web-2"]
        assert "SuccessfulDelete: delete Pod web-2 in StatefulSet web successful" in await plane.events_about("web")

    run_plane(PARTS, scenario)


def test_two_instances_do_not_keep_each_other_busy() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(template=ON_NODE, claims=["data"], policy="Parallel"))
        await plane.pass_time()
        before = await plane.client.list(STATEFUL_SET)
        await plane.pass_time(600.0)
        assert (await plane.client.list(STATEFUL_SET)).items == before.items
        assert len(before.items[0].metadata.resource_version) < 4

    run_plane([StatefulSetController, *PARTS], scenario)


def test_set_at_rest_is_left_alone() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STATEFUL_SET, set_body(template=ON_NODE, claims=["data"], policy="Parallel"))
        await plane.pass_time()
        before = [await plane.client.list(kind) for kind in (STATEFUL_SET, POD, CLAIM)]
        await plane.pass_time(3600.0)
        after = [await plane.client.list(kind) for kind in (STATEFUL_SET, POD, CLAIM)]
        assert [listing.items for listing in after] == [listing.items for listing in before]

    run_plane(PARTS, scenario)
