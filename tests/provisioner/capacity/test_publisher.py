"""When the driver was last asked about everything is on record, and only then.

The publisher against the real API server in memory: objects made, kept, refreshed and removed.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

import pytest
from prometheus_client import CollectorRegistry

from mooring.api import well_known
from mooring.api.errors import Forbidden
from mooring.api.kinds import (
    CLAIM,
    CSI_NODE,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from mooring.api.patches.contract import MergePatch
from mooring.api.times import from_time, to_micro_time
from mooring.api.views.storage import StorageCapacity
from mooring.client.contract import WatchEvent, WatchEventType
from mooring.control.component import Component, Context
from mooring.control.feature_gates import parse_feature_gates
from mooring.csi.contract import (
    Capacity,
    Code,
    ControllerCapability,
    DriverError,
    Topology,
    VolumeCapability,
)
from mooring.provisioner.component import Provisioner
from mooring.provisioner.settings import NodeDeployment, ProvisionerSettings
from mooring.volumes.binding import HOLD_NAMESPACE
from support.builders import node_body, pod_body
from support.csi_drivers.recording import DRIVER, KEY, FakeCsiDriver
from support.partial_control_plane import Plane, flaky, run_plane
from support.provisioner.cluster import (
    CAPACITY,
    GI,
    ask,
    bound,
    coordinator_lease,
    csi_node,
    furnish,
    immediate_class,
    plane_of,
    provisioner,
    selected,
    waiting_class,
)
from support.provisioner.crashing_process import CrashingClient, V, alive

POLL = CAPACITY.poll_interval


@pytest.mark.req("C17.last-polled")
def test_the_last_complete_poll_is_on_record() -> None:
    driver = FakeCsiDriver({"node-1": GI, "node-2": GI})

    async def polled(plane: Plane) -> float:
        lease = await plane.get(LEASE, "capacity-disks-example-com")
        assert lease.spec.renew_time is not None
        return from_time(lease.spec.renew_time)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.pass_time(POLL + 1)
        first = await polled(plane)
        await plane.pass_time(POLL)
        second = await polled(plane)
        assert POLL - 1 < second - first < POLL + 1
        driver.errors["capacity"] = [DriverError(Code.UNAVAILABLE, "away")] * 1000
        await plane.pass_time(3 * POLL)
        assert await polled(plane) == second, "no response since"

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


async def published(plane: Plane) -> dict[tuple[str, str], str]:
    """node and class -> capacity."""
    return {_place(each): str(each.capacity) for each in await objects(plane)}


async def objects(plane: Plane) -> tuple[StorageCapacity, ...]:
    return (await plane.client.list(STORAGE_CAPACITY)).items


def _place(found: StorageCapacity) -> tuple[str, str]:
    assert found.node_topology is not None
    return found.node_topology.match_labels.get(KEY, ""), found.storage_class_name


def polled_after(plane: Plane, want: dict[tuple[str, str], str]) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return await published(plane) == want

    return look


@pytest.fixture
def driver() -> FakeCsiDriver:
    return FakeCsiDriver({"node-1": 10 * GI, "node-2": 20 * GI})


BOTH = {("node-1", "made"): "10Gi", ("node-2", "made"): "20Gi"}


@pytest.mark.req("C6.objects", "C7.per-class", "C8.create", "C10.none")
def test_one_object_per_segment_and_class(driver: FakeCsiDriver) -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(
            plane, waiting_class(parameters={"a": "b", "csi.storage.k8s.io/fstype": "xfs"}), immediate_class(name="now")
        )
        await plane.until(polled_after(plane, BOTH), within=2.0)
        for found in await objects(plane):
            assert found.name.startswith("csisc-")
            assert found.metadata.labels == {
                "csi.storage.k8s.io/drivername": DRIVER,
                "csi.storage.k8s.io/managed-by": "external-provisioner",
            }
        assert {tuple(sorted(parameters)) for parameters, _ in driver.asked} == {("a", "csi.storage.k8s.io/fstype")}

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


@pytest.mark.req("T31.capacity-off")
def test_nothing_is_published_or_removed_while_the_gate_is_off(driver: FakeCsiDriver) -> None:
    async def scenario(plane: Plane) -> None:
        labels = {"csi.storage.k8s.io/drivername": DRIVER, "csi.storage.k8s.io/managed-by": "external-provisioner"}
        earlier = {"metadata": {"name": "csisc-earlier", "namespace": "default", "labels": labels}}
        await plane.create(STORAGE_CAPACITY, earlier | {"storageClassName": "gone", "capacity": "1Gi"})
        await furnish(plane)
        await ask(plane, size="4Gi")
        await plane.until(lambda: bound(plane), within=5.0)
        await plane.pass_time(3 * POLL)
        assert [each.name for each in await objects(plane)] == ["csisc-earlier"]
        assert driver.asked == []

    off = parse_feature_gates("CSIStorageCapacity=false")
    run_plane(plane_of(driver, capacity=CAPACITY), scenario, gates=off)


@pytest.mark.req("C10.classes", "C7.per-class")
@pytest.mark.parametrize("matters", [True, False], ids=["parameters matter", "parameters do not matter"])
def test_figures_of_classes_are_what_the_driver_says_of_their_parameters(driver: FakeCsiDriver, matters: bool) -> None:
    if matters:
        driver.share = lambda parameters: 2 if parameters.get("mirrored") == "yes" else 1

    async def scenario(plane: Plane) -> None:
        await furnish(plane, waiting_class(), waiting_class(name="safe", parameters={"mirrored": "yes"}))
        half = {("node-1", "safe"): "5Gi", ("node-2", "safe"): "10Gi"}
        whole = {(node, "safe"): size for (node, _), size in BOTH.items()}
        await plane.until(polled_after(plane, BOTH | (half if matters else whole)), within=2.0)

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


@pytest.mark.req("C8.unchanged", "C9.poll")
def test_polling_writes_only_what_changed(driver: FakeCsiDriver) -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.until(polled_after(plane, BOTH), within=2.0)
        before = {each.name: each.metadata.resource_version for each in await objects(plane)}
        asked = len(driver.asked)
        await plane.pass_time(2 * POLL + 1)
        assert len(driver.asked) >= asked + 4
        assert {each.name: each.metadata.resource_version for each in await objects(plane)} == before
        driver.capacity["node-1"] = 5 * GI
        await plane.until(polled_after(plane, BOTH | {("node-1", "made"): "5Gi"}), within=POLL + 1)
        assert len({each.name for each in await objects(plane)} & set(before)) == 2

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


@pytest.mark.req("C9.volume-created", "C9.volume-deleted", "C9.one-second")
def test_capacity_is_updated_after_creation_and_deletion(driver: FakeCsiDriver) -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane, waiting_class(), waiting_class(name="other"))
        twice = BOTH | {(node, "other"): size for (node, _), size in BOTH.items()}
        await plane.until(polled_after(plane, twice), within=2.0)
        await ask(plane, size="4Gi")
        await plane.until(lambda: bound(plane), within=5.0)
        less = twice | {("node-1", "made"): "6Gi", ("node-1", "other"): "6Gi"}
        await plane.until(polled_after(plane, less), within=1.0)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.until(lambda: _gone(plane), within=5.0)
        await plane.until(polled_after(plane, twice), within=1.0)

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


@pytest.mark.req("C16.proof")
def test_objects_record_a_poll_after_every_volume(driver: FakeCsiDriver) -> None:
    """Also where the figures stay the same: a scheduler stops counting the volume as on its way only then."""
    room = dict(driver.capacity)

    async def scenario(plane: Plane) -> None:
        another = {well_known.CAPACITY_POOL: "another"}
        elsewhere = waiting_class(name="elsewhere", parameters={"pool": "full"}, annotations=another)
        driver.share = lambda parameters: 2**60 if "pool" in parameters else 1
        await furnish(plane, waiting_class(), waiting_class(name="other"), elsewhere)
        await plane.pass_time(5.0)
        await ask(plane)
        await plane.until(lambda: bound(plane), within=5.0)
        driver.capacity["node-1"] = room["node-1"] + GI
        await plane.pass_time(2.0)
        (volume,) = (await plane.client.list(VOLUME)).items
        made = from_time(volume.metadata.annotations[well_known.VOLUME_CREATED_AT])
        recorded = {
            _place(found)
            for found in await objects(plane)
            if from_time(found.metadata.annotations[well_known.CAPACITY_POLLED_AT]) > made
        }
        assert recorded == {("node-1", "made"), ("node-1", "other")}, "of the class and of those in its pool"

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


@pytest.mark.req("T17.no-room", "C17.after-failure")
def test_the_figure_is_fresh_before_the_node_is_given_back(driver: FakeCsiDriver) -> None:
    """Another client took the capacity: the scheduler must not select the same node on the old value."""

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.until(polled_after(plane, BOTH), within=2.0)
        driver.capacity["node-1"] = 0
        seen: list[str] = []
        await ask(plane)

        async def given_back() -> bool:
            if await selected(plane) is None:
                seen.append((await published(plane))["node-1", "made"])
            return bool(seen)

        await plane.until(given_back, within=5.0)
        assert seen == ["0"]
        (figure,) = [each for each in await objects(plane) if _place(each)[0] == "node-1"]
        claim = await plane.client.get(CLAIM, "claim-1", namespace="default")
        order = [int(each.metadata.resource_version) for each in (figure, claim)]
        assert order == sorted(order), "the figure is written first"

    run_plane(plane_of(driver, ProvisionerSettings(strict_topology=True), CAPACITY), scenario)


@pytest.mark.parametrize("held", [False, True], ids=["bound at once", "held"])
def test_failure_on_a_node_polls_the_segment_of_that_node(driver: FakeCsiDriver, held: bool) -> None:
    """Each retry would poll every node of the cluster otherwise."""
    settings = ProvisionerSettings(rollback=held, namespace=HOLD_NAMESPACE, worker_threads=5)

    async def scenario(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        if held:
            await plane.client.create(LEASE, coordinator_lease(plane), namespace=HOLD_NAMESPACE)
        await furnish(plane)
        await plane.until(polled_after(plane, BOTH), within=2.0)
        driver.asked.clear()
        driver.errors["create"] = [DriverError(Code.INTERNAL, "no disk")] * 3
        claims = ("claim-1", "claim-2") if held else ("claim-1",)
        await plane.create(POD, pod_body(name="p", claims=claims))
        for name in claims:
            await ask(plane, name)
        await plane.pass_time(8.0)
        assert len(driver.requests) > 3
        assert {place[KEY] for _, place in driver.asked if place is not None} == {"node-1"}
        assert len(driver.asked) >= 2

    run_plane(plane_of(driver, settings, CAPACITY), scenario)


@pytest.mark.req("C9.class-change", "C9.node-change", "C8.obsolete")
def test_nodes_and_classes_that_come_and_go(driver: FakeCsiDriver) -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.until(polled_after(plane, BOTH), within=2.0)
        driver.capacity["node-3"] = GI
        await plane.create(NODE, node_body(name="node-3"))
        await plane.create(CSI_NODE, csi_node("node-3"))
        await plane.pass_time(2.0)
        assert await published(plane) == BOTH, "its label is still missing"
        label = MergePatch({"metadata": {"labels": {KEY: "node-3"}}})
        await plane.client.patch(NODE, "node-3", label)
        await plane.until(polled_after(plane, BOTH | {("node-3", "made"): "1Gi"}), within=2.0)
        await plane.client.delete(CSI_NODE, "node-3")
        await plane.until(polled_after(plane, BOTH), within=2.0)
        await plane.client.delete(STORAGE_CLASS, "made")
        await plane.until(polled_after(plane, {}), within=2.0)

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


@pytest.mark.req("C8.recreate")
def test_deleted_capacity_object_is_recreated(driver: FakeCsiDriver) -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.until(polled_after(plane, BOTH), within=2.0)
        for found in await objects(plane):
            await plane.client.delete(STORAGE_CAPACITY, found.name, namespace="default")
        await plane.until(polled_after(plane, BOTH), within=2.0)

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


def test_publishers_that_disagree_do_not_spin(driver: FakeCsiDriver) -> None:
    """One deletes what the other creates, as a leader does that was frozen and lost its lease meanwhile."""

    async def delete_all(plane: Plane) -> None:
        async with aclosing(plane.client.watch(STORAGE_CAPACITY, after=None)) as events:
            async for event in events:
                if event.change is WatchEventType.ADDED:
                    await plane.client.delete(STORAGE_CAPACITY, event.object.name, namespace="default")

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        deleting = asyncio.create_task(delete_all(plane))
        await plane.pass_time(POLL)
        deleting.cancel()
        assert 2 * POLL < len(driver.asked) < 6 * POLL, "each of the two objects is created once a second"

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


class SlowCapacityDriver(FakeCsiDriver):
    """Its GetCapacity responses take a second."""

    async def get_capacity(
        self,
        *,
        capabilities: Sequence[VolumeCapability],
        parameters: Mapping[str, str],
        accessible_from: Topology | None,
    ) -> Capacity:
        response = await super().get_capacity(
            capabilities=capabilities, parameters=parameters, accessible_from=accessible_from
        )
        await asyncio.sleep(1)
        return response


@pytest.mark.parametrize("ahead", [0.0, 30.0, 1e6], ids=["same-clock", "clock-ahead", "impossible-time"])
def test_newer_figure_of_another_instance_is_not_replaced_by_an_older_poll(ahead: float) -> None:
    """This instance is paused between its poll and its write; another one leads meanwhile and deletes a volume."""
    driver = SlowCapacityDriver({"node-1": 10 * GI, "node-2": 20 * GI})

    async def is_polled() -> bool:
        return ({}, {KEY: "node-1"}) in driver.asked

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.until(polled_after(plane, BOTH), within=5.0)
        driver.capacity["node-1"] = 8 * GI
        driver.asked.clear()
        await plane.until(is_polled, within=POLL + 1)
        driver.capacity["node-1"] = 9 * GI
        (stored,) = [one for one in await objects(plane) if _place(one)[0] == "node-1"]
        newer = {well_known.CAPACITY_POLLED_AT: to_micro_time(plane.clock.now() + ahead)}
        body = {"metadata": {"annotations": newer}, "capacity": "9Gi"}
        await plane.client.patch(STORAGE_CAPACITY, stored.name, MergePatch(body), namespace="default")
        seen: set[str] = set()
        for _ in range(20):
            await plane.pass_time(0.2)
            seen.add((await published(plane))[("node-1", "made")])
        assert seen == {"9Gi"} or ahead == 1e6
        await plane.pass_time(POLL + 2)
        assert (await published(plane))[("node-1", "made")] == "9Gi"

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


@pytest.mark.req("C8.adopt", "C10.obsolete")
def test_restart_adopts_own_objects_only(driver: FakeCsiDriver) -> None:
    ours = {"csi.storage.k8s.io/drivername": DRIVER, "csi.storage.k8s.io/managed-by": "external-provisioner"}

    async def before(plane: Plane, name: str, labels: dict[str, str], node: str, storage_class: str = "made") -> None:
        await plane.create(
            STORAGE_CAPACITY,
            {
                "metadata": {"name": name, "namespace": "default", "labels": labels},
                "nodeTopology": {"matchLabels": {KEY: node}},
                "storageClassName": storage_class,
                "capacity": "1Gi",
            },
        )

    async def scenario(plane: Plane) -> None:
        await before(plane, "csisc-keep", ours, "node-1")
        await plane.pass_time(1.0)
        await before(plane, "csisc-twice", ours, "node-1")
        await before(plane, "csisc-old-node", ours, "node-9")
        await before(plane, "csisc-old-class", ours, "node-1", "gone")
        await before(plane, "csisc-other", ours | {"csi.storage.k8s.io/drivername": "other"}, "node-1")
        await before(plane, "csisc-plain", {}, "node-1")
        await furnish(plane)
        async with alive(plane, provisioner(driver, capacity=CAPACITY)):
            await plane.pass_time(5.0)
        names = {each.name for each in await objects(plane)}
        assert {"csisc-other", "csisc-plain", "csisc-keep"} <= names
        assert not names & {"csisc-twice", "csisc-old-node", "csisc-old-class"}
        assert len(names) == 4
        kept = await plane.get(STORAGE_CAPACITY, "csisc-keep")
        assert kept.capacity == "10Gi"

    run_plane([], scenario)


@pytest.mark.parametrize(
    ("code", "at_once"),
    [
        pytest.param(Code.INVALID_ARGUMENT, True, id="the driver refuses the question"),
        pytest.param(Code.UNAVAILABLE, False, id="the driver is away"),
    ],
)
@pytest.mark.req("C7.error", "C19.driver-away")
def test_a_driver_that_does_not_answer_is_not_promised_for(driver: FakeCsiDriver, code: Code, at_once: bool) -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.until(polled_after(plane, BOTH), within=2.0)
        driver.errors["capacity"] = [DriverError(code, "no")] * 1000
        await plane.pass_time(POLL + 5)
        nothing = dict.fromkeys(BOTH, "None")
        assert await published(plane) == (nothing if at_once else BOTH)
        await plane.pass_time(4 * POLL)
        assert await published(plane) == nothing
        driver.errors.clear()
        await plane.until(polled_after(plane, BOTH), within=400.0)

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


@pytest.mark.req("C7.error")
def test_combinations_that_make_no_sense_get_no_object(driver: FakeCsiDriver) -> None:
    driver.errors["capacity"] = [DriverError(Code.INVALID_ARGUMENT, "no such kind")] * 100

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.pass_time(POLL)
        assert await objects(plane) == ()

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


@pytest.mark.req("C5.segment", "C5.owner")
def test_one_publisher_per_node() -> None:
    """Two instances, each for its own node: neither sees the other's objects."""
    drivers = {name: FakeCsiDriver({name: 10 * GI}, node=name) for name in ("node-1", "node-2")}

    def instance(name: str) -> Callable[[Context], Component]:
        settings = ProvisionerSettings(node_deployment=NodeDeployment(name), worker_threads=2, strict_topology=True)
        return lambda context: Provisioner(context, drivers[name], settings, capacity=CAPACITY)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        want = {("node-1", "made"): "10Gi", ("node-2", "made"): "10Gi"}
        await plane.until(polled_after(plane, want), within=2.0)
        await plane.pass_time(2 * POLL)
        assert await published(plane) == want
        labels = {each.metadata.labels["csi.storage.k8s.io/managed-by"] for each in await objects(plane)}
        assert labels == {"external-provisioner-node-1", "external-provisioner-node-2"}
        await ask(plane, node="node-2", size="3Gi")
        await plane.until(lambda: bound(plane), within=5.0)
        await plane.until(polled_after(plane, want | {("node-2", "made"): "7Gi"}), within=1.0)
        assert drivers["node-1"].requests == []

    run_plane([*plane_of(FakeCsiDriver())[:2], instance("node-1"), instance("node-2")], scenario)


@pytest.mark.req("C19.api-away", "C19.conflict")
@pytest.mark.parametrize("seed", range(4))
def test_lost_answers_leave_exactly_one_object_each(driver: FakeCsiDriver, seed: int) -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.until(polled_after(plane, BOTH), within=120.0)
        await ask(plane, size="2Gi")
        await plane.until(lambda: bound(plane), within=120.0)
        await plane.until(polled_after(plane, BOTH | {("node-1", "made"): "8Gi"}), within=120.0)
        await plane.pass_time(2 * POLL)
        assert len(await objects(plane)) == 2

    run_plane(plane_of(driver, capacity=CAPACITY), scenario, client=flaky(0.3, seed=seed))


@pytest.mark.req("C18.counts")
def test_metrics(driver: FakeCsiDriver) -> None:
    registry = CollectorRegistry()

    def build(context: Context) -> Component:
        return Provisioner(context, driver, ProvisionerSettings(worker_threads=2), capacity=CAPACITY, registry=registry)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.until(polled_after(plane, BOTH), within=2.0)
        await plane.pass_time(1.0)
        assert registry.get_sample_value("csistoragecapacities_desired_goal") == 2
        assert registry.get_sample_value("csistoragecapacities_desired_current") == 2
        assert registry.get_sample_value("csistoragecapacities_obsolete") == 0
        polled = registry.get_sample_value("mooring_capacity_last_poll_timestamp_seconds")
        assert polled is not None
        assert plane.clock.now() - polled < POLL
        calls = {"driver_name": DRIVER, "method_name": "/csi.v1.Controller/GetCapacity", "grpc_status_code": "OK"}
        asked = registry.get_sample_value("csi_sidecar_operations_seconds_count", calls)
        assert asked == len(driver.asked)

    run_plane([*plane_of(driver)[:2], build], scenario)


def test_driver_without_get_capacity_is_not_polled(driver: FakeCsiDriver) -> None:
    driver.able = driver.able - {ControllerCapability.GET_CAPACITY}

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane), within=5.0)
        await plane.pass_time(2 * POLL)
        assert driver.asked == []
        assert await objects(plane) == ()

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


class _Blind(CrashingClient):
    """May not see capacity objects."""

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        if kind is STORAGE_CAPACITY:
            raise Forbidden("csistoragecapacities is forbidden")
        stream = super().watch(kind, after=after, namespace=namespace, labels=labels, fields=fields)
        async with aclosing(stream) as events:
            async for event in events:
                yield event


def test_claims_are_served_although_capacity_cannot_be_published(driver: FakeCsiDriver) -> None:
    made: list[Component] = []

    def build(context: Context) -> Component:
        made.append(provisioner(driver, capacity=CAPACITY)(context))
        return made[0]

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        async with alive(plane, build, _Blind(plane.client), ready=False):
            await ask(plane)
            await plane.until(lambda: bound(plane), within=5.0)
            assert not made[0].ready

    run_plane(plane_of(driver)[:2], scenario)


async def _gone(plane: Plane) -> bool:
    return not (await plane.client.list(VOLUME)).items
