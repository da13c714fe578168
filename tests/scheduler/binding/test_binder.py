"""Pods with several existing volumes, with a coordinator beside the scheduler: all are given, or none."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mooring.api import well_known
from mooring.api.errors import ApiError, Conflict, Forbidden, ServerTimeout, ServiceUnavailable
from mooring.api.kinds import CLAIM, NAMESPACE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.control.component import Component, Context
from mooring.control.feature_gates import PROVISIONING_ROLLBACK, FeatureRollout
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.scheduler.binding.binder import BIND_TIMEOUT, Binder, BindFailed
from mooring.scheduler.component import Scheduler
from mooring.volumes.binding import (
    HOLD_NAMESPACE,
    HOLD_PREFIX,
    BindingPlan,
    HoldState,
    Provisioning,
    StaticBinding,
    hold_state,
)
from mooring.volumes.holds import objects
from support.builders import claim_body, class_body, node_body, pod_body, volume_body
from support.partial_control_plane import Build, Plane, run_plane
from support.scheduler.cluster import SmallWorld, in_world


class Bound:
    """A pod with one claim, bound late, and a volume on the chosen node; the binder is at work on it."""

    def __init__(self, world: SmallWorld) -> None:
        self.world = world
        self.binder = Binder(world.context, driver_over_limit=lambda pod, node: "")
        world.put(NODE, node_body(name="n1"))
        self.pod: Pod = world.put(POD, pod_body(claims=["claim-1"]))
        self.claim: Claim = world.put(CLAIM, claim_body())
        self.volume: Volume = world.put(VOLUME, volume_body(node="n1"))

    @property
    def static(self) -> BindingPlan:
        promised = self.volume.assumed_for(self.claim.reference, by_controller=True)
        return BindingPlan("n1", static=(StaticBinding(self.claim, promised),))

    @property
    def dynamic(self) -> BindingPlan:
        return BindingPlan("n1", provision=(Provisioning(self.claim.assumed_on("n1")),))

    async def start(self, plan: BindingPlan | None = None) -> "asyncio.Task[str]":
        """Begin, and wait until the binder waits. The task ends with the failure's text, or ""."""
        await self.binder.wakeups.follow()
        await self.world.settle()

        async def outcome() -> str:
            try:
                await self.binder.bind(self.pod, plan or self.static)
            except BindFailed as failure:
                return str(failure)
            return ""

        task = asyncio.create_task(outcome())
        await self.world.settle()
        return task


def test_volume_then_wait_then_pod() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        task = await one.start()
        written = world.body(VOLUME, "volume-1")
        assert written["spec"]["claimRef"] == {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": "default",
            "name": "claim-1",
            "uid": one.claim.uid,
            "resourceVersion": one.claim.metadata.resource_version,
        }
        assert written["metadata"]["annotations"] == {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
        assert world.node_of("pod-1") == "", "the pod waits for its volume"

        world.finish_binding("claim-1", "volume-1")
        assert await task == ""
        assert world.node_of("pod-1") == "n1"
        assert world.client.writes == ["patch persistentvolumes/volume-1", "bind pod-1 to n1"]

    in_world(scenario)


@pytest.mark.req("T15.order")
def test_binder_waits_for_events_without_requests() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        task = await one.start()
        asked = len(world.client.requests)
        await world.clock.sleep(500)
        assert len(world.client.requests) == asked
        began = world.clock.monotonic()
        world.finish_binding("claim-1", "volume-1")
        assert await task == ""
        assert world.clock.monotonic() - began < 0.01

    in_world(scenario)


def test_a_volume_the_user_reserved_by_name_only_gets_the_uid() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        one.volume = world.change(
            VOLUME, "volume-1", {"spec": {"claimRef": {"namespace": "default", "name": "claim-1"}}}
        )
        promised = one.volume.assumed_for(one.claim.reference, by_controller=False)
        task = await one.start(BindingPlan("n1", static=(StaticBinding(one.claim, promised),)))
        written = world.body(VOLUME, "volume-1")
        assert written["spec"]["claimRef"]["uid"] == one.claim.uid
        assert "annotations" not in written["metadata"]
        task.cancel()

    in_world(scenario)


def test_volumes_are_written_in_order_and_provisioning_after_them() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        second = world.put(CLAIM, claim_body(name="claim-2"))
        third = world.put(CLAIM, claim_body(name="claim-3"))
        spare = world.put(VOLUME, volume_body(name="a-volume", node="n1"))
        plan = BindingPlan(
            "n1",
            static=(*one.static.static, StaticBinding(second, spare.assumed_for(second.reference, by_controller=True))),
            provision=(Provisioning(third),),
        )
        task = await one.start(plan)
        assert world.client.writes == [
            "patch persistentvolumes/volume-1",
            "patch persistentvolumes/a-volume",
            "patch persistentvolumeclaims/claim-3",
        ]
        assert world.body(CLAIM, "claim-3")["metadata"]["annotations"] == {well_known.SELECTED_NODE: "n1"}
        task.cancel()

    in_world(scenario)


def test_pod_with_bound_claims_is_bound_without_waiting() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        world.change(VOLUME, "volume-1", {"spec": {"claimRef": {"name": "claim-1", "uid": one.claim.uid}}})
        world.finish_binding("claim-1", "volume-1")
        assert await (await one.start(BindingPlan("n1"))) == ""
        assert world.node_of("pod-1") == "n1"

    in_world(scenario)


PREBIND = 'running PreBind plugin "VolumeBinding": '
BIND = 'binding rejected: running Bind plugin "DefaultBinder": '


def claim_ref_cleared(one: Bound) -> None:
    one.world.change(VOLUME, "volume-1", {"spec": {"claimRef": None}})


def volume_deleted(one: Bound) -> None:
    one.world.delete(VOLUME, "volume-1")


def claim_deleted(one: Bound) -> None:
    one.world.delete(CLAIM, "claim-1")


def pod_deleted(one: Bound) -> None:
    one.world.delete(POD, "pod-1")


def node_deleted(one: Bound) -> None:
    one.world.delete(NODE, "n1")


def bound_elsewhere(one: Bound) -> None:
    elsewhere = one.world.put(VOLUME, volume_body(name="far", node="n2"))
    one.world.change(VOLUME, elsewhere.name, {"spec": {"claimRef": {"name": "claim-1", "uid": one.claim.uid}}})
    one.world.finish_binding("claim-1", "far")


def node_relabelled(one: Bound) -> None:
    one.world.change(NODE, "n1", {"metadata": {"labels": {well_known.HOSTNAME: "renamed"}}})
    one.world.finish_binding("claim-1", "volume-1")


@pytest.mark.parametrize(
    ("happens", "want"),
    [
        pytest.param(
            claim_ref_cleared,
            'binding volumes: ClaimRef got reset for pv "volume-1"',
            marks=pytest.mark.req("T16.claimref-cleared"),
            id="claimRef cleared",
        ),
        pytest.param(
            volume_deleted,
            'binding volumes: failed to check binding: persistentvolume "volume-1" not found',
            marks=pytest.mark.req("T16.pv-deleted"),
            id="volume deleted",
        ),
        pytest.param(
            claim_deleted,
            'binding volumes: failed to check binding: persistentvolumeclaim "claim-1" not found',
            marks=pytest.mark.req("T16.pvc-deleted"),
            id="claim deleted",
        ),
        pytest.param(
            pod_deleted, 'binding volumes: pod does not exist any more: pod "pod-1" not found', id="pod deleted"
        ),
        pytest.param(node_deleted, 'binding volumes: failed to get node "n1": node "n1" not found', id="node deleted"),
        pytest.param(
            bound_elsewhere,
            'binding volumes: pv "far" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
            marks=pytest.mark.req("T47.affinity"),
            id="bound to a volume the node does not reach",
        ),
        pytest.param(
            node_relabelled,
            'binding volumes: pv "volume-1" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
            marks=pytest.mark.req("T47.affinity"),
            id="the node was relabelled meanwhile",
        ),
    ],
)
def test_what_goes_wrong_while_it_waits_is_noticed_at_once(happens: Callable[[Bound], None], want: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        task = await one.start()
        began = world.clock.monotonic()
        happens(one)
        assert await task == PREBIND + want
        assert world.clock.monotonic() - began < 0.01
        assert world.client.writes == ["patch persistentvolumes/volume-1"], "the pod was not bound"

    in_world(scenario)


@pytest.mark.req("T16.selected-node-cleared")
def test_a_provisioner_that_gives_up_is_noticed_at_once() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        task = await one.start(one.dynamic)
        assert world.body(CLAIM, "claim-1")["metadata"]["annotations"] == {well_known.SELECTED_NODE: "n1"}
        world.change(CLAIM, "claim-1", {"metadata": {"annotations": {well_known.SELECTED_NODE: None}}})
        assert await task == PREBIND + 'binding volumes: selectedNode annotation reset for PVC "claim-1"'

    in_world(scenario)


@pytest.mark.req("T16.timeout")
def test_it_gives_up_after_ten_minutes() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        task = await one.start()
        began = world.clock.monotonic()
        assert await task == PREBIND + "binding volumes: context deadline exceeded"
        assert world.clock.monotonic() - began == pytest.approx(BIND_TIMEOUT, abs=1)

    in_world(scenario)


@pytest.mark.req("T16.conflict")
def test_volume_bound_to_another_claim_first() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        plan = one.static
        world.change(VOLUME, "volume-1", {"spec": {"claimRef": {"name": "other", "uid": "other"}}})
        said = await (await one.start(plan))
        assert said.startswith(PREBIND + 'Operation cannot be fulfilled on persistentvolumes "volume-1"')
        assert world.body(VOLUME, "volume-1")["spec"]["claimRef"]["name"] == "other"

    in_world(scenario)


@pytest.mark.req("T16.api-error")
@pytest.mark.parametrize(
    ("request_", "error", "want"),
    [
        pytest.param("patch persistentvolumes", Forbidden("no"), PREBIND + "no", id="writing the volume is forbidden"),
        pytest.param("patch persistentvolumes", ApiError("oops"), PREBIND + "oops", id="the server fails"),
        pytest.param(
            "bind",
            Conflict("pod is gated"),
            BIND + "pod is gated",
            id="the pod is refused",
        ),
    ],
)
def test_what_the_server_refuses_fails(request_: str, error: ApiError, want: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        world.client.faults[request_] = [error]
        task = await one.start()
        if not task.done():
            world.finish_binding("claim-1", "volume-1")
        assert await task == want
        assert world.node_of("pod-1") == ""

    in_world(scenario)


@pytest.mark.req("T16.api-error")
@pytest.mark.parametrize(
    ("errors", "want"),
    [
        pytest.param([ApiError("oops")] * 3, "", id="an internal error, three times"),
        pytest.param([ServiceUnavailable("later")] * 9, "", id="unavailable, longer"),
        pytest.param([ApiError("oops")] * 4, BIND + "oops", id="an internal error, four times"),
    ],
)
def test_the_binding_is_repeated_after_an_error_of_the_server(errors: list[ApiError], want: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        world.client.faults["bind"] = list(errors)
        task = await one.start()
        world.finish_binding("claim-1", "volume-1")
        assert await task == want
        assert world.node_of("pod-1") == ("" if want else "n1")

    in_world(scenario)


@pytest.mark.req("T16.lost-answer")
@pytest.mark.parametrize("request_", ["patch persistentvolumes", "bind"])
@pytest.mark.parametrize(
    "responses",
    [
        pytest.param(["before"], id="the write did not happen"),
        pytest.param(["after"], id="the write happened"),
        pytest.param(["before", "after", "before"], id="again and again"),
    ],
)
def test_a_lost_answer_is_right_in_both_cases(request_: str, responses: list[str]) -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        world.client.faults[request_] = list(responses)
        world.client.faults["get pods"] = ["before"]
        task = await one.start()
        await world.settle(30)
        world.finish_bindings()
        assert await task == ""
        assert world.node_of("pod-1") == "n1"
        assert world.body(VOLUME, "volume-1")["spec"]["claimRef"]["uid"] == one.claim.uid

    in_world(scenario)


@pytest.mark.req("T16.lost-answer")
def test_a_lost_answer_to_the_selected_node() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        world.client.faults["patch persistentvolumeclaims"] = ["after"]
        task = await one.start(one.dynamic)
        await world.settle(30)
        world.change(VOLUME, "volume-1", {"spec": {"claimRef": {"name": "claim-1", "uid": one.claim.uid}}})
        world.finish_binding("claim-1", "volume-1")
        assert await task == ""

    in_world(scenario)


def test_lost_response_and_concurrent_binding() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        task = await one.start()
        world.client.faults["bind"] = ["before"]
        world.finish_binding("claim-1", "volume-1")
        await world.settle(0.01)
        world.api.bind("default", "pod-1", {"metadata": {"uid": one.pod.uid}, "target": {"name": "n2"}})
        said = await task
        assert 'already assigned to node "n2"' in said
        assert world.node_of("pod-1") == "n2"

    in_world(scenario)


def test_a_server_that_stays_away_ends_the_attempt() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        world.client.faults["patch persistentvolumes"] = [ServerTimeout("busy")] * 10_000
        assert await (await one.start()) == PREBIND + "busy"
        assert world.clock.monotonic() == pytest.approx(BIND_TIMEOUT, rel=0.05)

    in_world(scenario)


@pytest.mark.req("T15.many")
def test_many_pods_bind_at_once() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        tasks = []
        for number in range(20):
            claim = world.put(CLAIM, claim_body(name=f"c{number}"))
            volume = world.put(VOLUME, volume_body(name=f"v{number}", node="n1"))
            pod = world.put(POD, pod_body(name=f"p{number}", claims=[f"c{number}"]))
            promised = volume.assumed_for(claim.reference, by_controller=True)
            tasks.append((pod, BindingPlan("n1", static=(StaticBinding(claim, promised),))))
        await one.binder.wakeups.follow()
        await world.settle()
        async with asyncio.TaskGroup() as group:
            for pod, plan in tasks:
                group.create_task(one.binder.bind(pod, plan))
            await world.settle()
            assert all("claimRef" in world.body(VOLUME, f"v{number}")["spec"] for number in range(20)), "none waits"
            for number in reversed(range(20)):
                world.finish_binding(f"c{number}", f"v{number}")
        assert all(world.node_of(f"p{number}") == "n1" for number in range(20))

    in_world(scenario)


Scenario = Callable[[Plane], Awaitable[None]]


def coordinator(context: Context) -> Component:
    return Coordinator(context, CoordinatorSettings(renews_lease=True))


def play(scenario: Scenario, *, coordinated: bool = True, rollout: FeatureRollout | None = None) -> None:
    async def run(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        await plane.create(STORAGE_CLASS, class_body(name="local"))
        for node in ("n1", "n2"):
            await plane.create(NODE, node_body(name=node))
        for name in ("a", "b"):
            await plane.create(CLAIM, claim_body(name=name))
        await plane.pass_time(6)  # the coordinator has shown itself by now
        await scenario(plane)

    builds: list[Build] = [Scheduler, PersistentVolumeController]
    run_plane([*builds, coordinator] if coordinated else builds, run, rollout=rollout)


async def add_volumes(plane: Plane, node: str, count: int) -> None:
    for number in range(count):
        await plane.create(VOLUME, volume_body(name=f"{node}-{number}", node=node))


async def node_of(plane: Plane, pod: str = "p") -> str:
    return (await plane.get(POD, pod)).spec.node_name


async def states(plane: Plane) -> dict[str, HoldState]:
    volumes = (await plane.client.list(VOLUME)).items
    return {volume.name: hold_state(volume, hold_namespace=HOLD_NAMESPACE) for volume in volumes}


@pytest.mark.req("T38.static", "T38.none")
def test_both_volumes_are_held_then_given() -> None:
    async def scenario(plane: Plane) -> None:
        await add_volumes(plane, "n2", 2)
        await plane.create(POD, pod_body(name="p", claims=("a", "b")))

        async def runs() -> bool:
            return await node_of(plane) == "n2"

        await plane.until(runs, within=10)
        assert set((await states(plane)).values()) == {HoldState.COMMITTED}
        assert any(said.startswith("VolumeCommitted") for said in await plane.events_about("a"))
        assert objects.UNUSED_LABEL not in (await plane.get(VOLUME, "n2-0")).metadata.labels

    play(scenario)


def test_without_a_coordinator_they_are_given_one_by_one() -> None:
    async def scenario(plane: Plane) -> None:
        await add_volumes(plane, "n2", 2)
        await plane.create(POD, pod_body(name="p", claims=("a", "b")))

        async def runs() -> bool:
            return await node_of(plane) == "n2"

        await plane.until(runs, within=10)
        assert not any(said.startswith("VolumeCommitted") for said in await plane.events_about("a"))

    play(scenario, coordinated=False)


@pytest.mark.req("T38.static")
def test_a_hold_that_a_dead_scheduler_left_is_lifted_and_the_pod_runs_elsewhere() -> None:
    """The scheduler died after its first write; before its next write, the other volume was bound to another claim."""

    async def scenario(plane: Plane) -> None:
        claim = await plane.get(CLAIM, "a")
        held = volume_body(name="n1-0", node="n1")
        held["metadata"] |= objects.hold_metadata(claim, "n1", since="2026-01-02T03:04:05Z")
        held["metadata"]["annotations"].pop(objects.SINCE)
        held["spec"]["claimRef"] = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{claim.uid}"}
        await plane.create(VOLUME, held)
        await add_volumes(plane, "n2", 2)
        await plane.create(POD, pod_body(name="p", claims=("a", "b")))

        async def runs() -> bool:
            return await node_of(plane) == "n2"

        await plane.until(runs, within=60)
        await plane.pass_time(5)
        assert (await states(plane))["n1-0"] is HoldState.FREE

    play(scenario)


@pytest.mark.req("T35.upgrade", "T35.downgrade")
@pytest.mark.parametrize("held_back", [True, False])
def test_existing_volumes_are_held_only_while_no_instance_lacks_the_feature(held_back: bool) -> None:
    rollout = FeatureRollout()

    async def scenario(plane: Plane) -> None:
        # The Lease of a coordinator, which is of another version, or elected.
        rollout.update({})
        await plane.pass_time(10)
        rollout.update({PROVISIONING_ROLLBACK: "an instance"} if held_back else {})
        await add_volumes(plane, "n1", 2)
        await plane.create(POD, pod_body(name="p", claims=("a", "b")))
        await plane.until(lambda: runs_on(plane, "p", "n1"), within=10)
        told = await plane.events_about("a")
        assert any(each.startswith("VolumeCommitted") for each in told) is not held_back

    play(scenario, rollout=rollout)


async def runs_on(plane: Plane, pod: str, node: str) -> bool:
    return (await plane.get(POD, pod)).spec.node_name == node
