"""The provisioner against the real API server in memory, in virtual time: volumes made, errors told, nodes freed."""

import pytest
from prometheus_client import CollectorRegistry

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CONFIG_MAP, NODE, SECRET, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.control.component import Component, Context
from mooring.control.feature_gates import parse_feature_gates
from mooring.csi.contract import Code, DriverError, DriverVolume, Topology
from mooring.provisioner.component import Provisioner
from mooring.provisioner.settings import ProvisionerSettings
from support.csi_drivers.recording import DRIVER, KEY, FakeCsiDriver, full
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import (
    GI,
    accounted,
    all_gone,
    ask,
    bound,
    furnish,
    immediate_class,
    plane_of,
    provisioner,
    select,
    selected,
    volumes,
    waiting_class,
)

CAPACITIES = {"node-1": 10 * GI, "node-2": 10 * GI}


@pytest.mark.req("T18.selected-node", "T5.provisioned")
@pytest.mark.parametrize(
    ("storage_class", "node", "where"),
    [
        pytest.param(waiting_class(), "node-2", "node-2", id="on the selected node"),
        pytest.param(
            immediate_class(allowed_topologies=[{KEY: ["node-2"]}]), None, "node-2", id="immediate, where allowed"
        ),
    ],
)
def test_a_claim_gets_its_volume(storage_class: dict[str, object], node: str | None, where: str) -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane, storage_class)
        claim = await ask(plane, node=node)
        await plane.until(lambda: bound(plane), within=5.0)
        (volume,) = await volumes(plane)
        assert volume.name == f"pvc-{claim.uid}"
        assert driver.volumes[volume.name].accessible_from == (Topology({KEY: where}),)
        assert volume.spec.claim_ref is not None
        assert volume.spec.claim_ref.uid == claim.uid
        await plane.pass_time(2.0)
        said = await plane.events_about("claim-1")
        assert 'Provisioning: External provisioner is provisioning volume for claim "default/claim-1"' in said
        assert f"ProvisioningSucceeded: Successfully provisioned volume {volume.name}" in said
        assert accounted(driver, await volumes(plane))

    run_plane(plane_of(driver), scenario)


@pytest.mark.req("T31.volume-scheduling-off")
def test_a_delayed_claim_is_provisioned_at_once_without_volume_scheduling() -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane, node=None)
        await plane.until(lambda: bound(plane), within=5.0)
        assert len(driver.volumes) == 1

    run_plane(plane_of(driver), scenario, gates=parse_feature_gates("VolumeScheduling=false"))


@pytest.mark.req("T6.not-provisioned")
def test_a_delayed_claim_waits_for_its_node() -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane, node=None)
        await plane.pass_time(600.0)
        assert driver.requests == []
        await select(plane, "node-1")
        await plane.until(lambda: bound(plane), within=5.0)

    run_plane(plane_of(driver), scenario)


@pytest.mark.req("T17.no-room")
def test_resource_exhausted_clears_selected_node() -> None:
    driver = FakeCsiDriver({"node-1": GI // 2, "node-2": 10 * GI})

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: _is(selected(plane), None), within=5.0)
        await plane.pass_time(600.0)
        assert len(driver.requests) == 1, "nothing is tried before a node is chosen again"
        (failure,) = [text for text in await plane.events_about("claim-1") if text.startswith("ProvisioningFailed")]
        assert failure == (
            'ProvisioningFailed: failed to provision volume with StorageClass "made": '
            "rpc error: code = ResourceExhausted desc = no capacity left on node-1"
        )
        await select(plane, "node-2")
        await plane.until(lambda: bound(plane), within=5.0)
        assert accounted(driver, await volumes(plane))

    run_plane(plane_of(driver, ProvisionerSettings(strict_topology=True)), scenario)


@pytest.mark.req("T17.vanished-node")
def test_a_node_without_its_driver_is_given_back() -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.create(NODE, {"metadata": {"name": "gone"}})
        await ask(plane, node="gone")
        await plane.until(lambda: _is(selected(plane), None), within=5.0)
        assert driver.requests == []
        assert any("error getting CSINode for selected node" in text for text in await plane.events_about("claim-1"))

    run_plane(plane_of(driver), scenario)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(Code.UNAVAILABLE, id="the driver is away"),
        pytest.param(Code.DEADLINE_EXCEEDED, id="too slow"),
        pytest.param(Code.INTERNAL, id="something broke"),
    ],
)
def test_it_is_tried_again_later_and_later(code: Code) -> None:
    driver = FakeCsiDriver(CAPACITIES)
    driver.errors["create"] = [DriverError(code, "no")] * 4

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        taken = await plane.until(lambda: bound(plane), within=60.0)
        assert 15.0 < taken < 17.0, "1 + 2 + 4 + 8 seconds"
        assert len(set(map(repr, driver.requests))) == 1
        assert driver.made == 1

    run_plane(plane_of(driver), scenario)


def test_infeasible_request_waits_for_new_class() -> None:
    driver = FakeCsiDriver(CAPACITIES)
    driver.errors["create"] = [DriverError(Code.INVALID_ARGUMENT, "no such kind")]

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.pass_time(200.0)
        assert len(driver.requests) == 1
        said = [text for text in await plane.events_about("claim-1") if text.startswith("ProvisioningFailed")]
        assert said[0].startswith(
            "ProvisioningFailed: Volume provisioning failed with infeasible error. Retries will be"
        )
        await plane.client.delete(STORAGE_CLASS, "made")
        await plane.create(STORAGE_CLASS, waiting_class(parameters={"kind": "fast"}))
        await plane.until(lambda: bound(plane), within=300.0)

    run_plane(plane_of(driver), scenario)


def test_same_request_is_repeated_after_cluster_changes() -> None:
    """The answer was lost: whatever node is selected meanwhile, the first volume must not be forgotten."""
    driver = FakeCsiDriver(CAPACITIES)
    driver.lost["create"] = [DriverError(Code.DEADLINE_EXCEEDED, "lost")]

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.pass_time(0.5)
        await select(plane, "node-2")
        await plane.until(lambda: bound(plane), within=30.0)
        assert driver.requests[0] == driver.requests[1]
        assert driver.made == 1
        assert accounted(driver, await volumes(plane))
        assert await plane.names(CONFIG_MAP) == []

    run_plane(plane_of(driver), scenario)


@pytest.mark.parametrize(
    "reclaim", [pytest.param("Delete", id="to be deleted"), pytest.param("Retain", id="to be kept")]
)
def test_a_claim_deleted_while_the_driver_works(reclaim: str) -> None:
    driver = FakeCsiDriver(CAPACITIES)
    driver.lost["create"] = [DriverError(Code.UNAVAILABLE, "lost")] * 2

    async def scenario(plane: Plane) -> None:
        await furnish(plane, waiting_class(reclaim=reclaim))
        await ask(plane)
        await plane.pass_time(0.5)
        assert await plane.names(CONFIG_MAP) != []
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(60.0)
        assert await plane.names(CLAIM) == []
        assert await plane.names(CONFIG_MAP) == []
        known = await volumes(plane)
        assert accounted(driver, known)
        assert [each.status.phase for each in known] == (["Released"] if reclaim == "Retain" else [])

    run_plane(plane_of(driver), scenario)


@pytest.mark.parametrize(
    "reclaim", [pytest.param("Delete", id="to be deleted"), pytest.param("Retain", id="to be kept")]
)
def test_object_deleted_before_binding_is_recreated(
    reclaim: str,
) -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane, waiting_class(reclaim=reclaim))
        await ask(plane, annotations={well_known.STORAGE_PROVISIONER: DRIVER})
        await plane.pass_time(5.0)
        [first] = await volumes(plane)
        await plane.client.delete(VOLUME, first.name)
        if first.metadata.finalizers:
            # With them it would stay, and a terminating volume is not bound.
            await plane.client.patch(VOLUME, first.name, MergePatch({"metadata": {"finalizers": None}}))
        await plane.pass_time(5.0)
        [second] = await volumes(plane)
        assert (second.name, second.uid != first.uid) == (first.name, True)
        assert second.spec.csi == first.spec.csi
        assert accounted(driver, (second,))

    # Without the PV controller, so that the claim is not bound before the deletion.
    run_plane([provisioner(driver)], scenario)


def test_volumes_that_are_too_small_are_not_given_away() -> None:
    driver = FakeCsiDriver(CAPACITIES)
    place = (Topology({KEY: "node-1"}),)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        claim = await ask(plane, node=None)
        driver.volumes[f"pvc-{claim.uid}"] = DriverVolume("small", 1, {}, place)
        await select(plane, "node-1")
        await plane.until(lambda: bound(plane), within=30.0)
        assert driver.deleted == ["small"]
        assert any("created volume capacity 1 less than" in text for text in await plane.events_about("claim-1"))
        assert accounted(driver, await volumes(plane))

    run_plane(plane_of(driver), scenario)


def test_secrets_are_passed_and_a_missing_one_is_reported() -> None:
    driver = FakeCsiDriver(CAPACITIES)
    named = {
        "csi.storage.k8s.io/provisioner-secret-name": "key",
        "csi.storage.k8s.io/provisioner-secret-namespace": "default",
    }

    async def scenario(plane: Plane) -> None:
        await furnish(plane, waiting_class(parameters=named))
        await ask(plane)
        await plane.pass_time(2.0)
        assert driver.requests == []
        assert any(
            'error getting secret default/key: secrets "key" not found' in text
            for text in await plane.events_about("claim-1")
        )
        await plane.create(SECRET, {"metadata": {"name": "key", "namespace": "default"}, "data": {"token": "czNjcmV0"}})
        await plane.until(lambda: bound(plane), within=30.0)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.until(lambda: all_gone(plane), within=30.0)
        assert driver.secrets == [{"token": "s3cret"}] * 2

    run_plane(plane_of(driver), scenario)


def test_populators_are_left_alone() -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane, immediate_class())
        body = {
            "metadata": {"name": "claim-1", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "made",
                "dataSourceRef": {"apiGroup": "x.example.com", "kind": "Seed", "name": "s"},
            },
        }
        await plane.create(CLAIM, body)
        await plane.pass_time(60.0)
        assert driver.requests == []
        assert "Provisioning: Assuming an external populator will provision the volume" in await plane.events_about(
            "claim-1"
        )

    run_plane(plane_of(driver), scenario)


def test_a_class_that_comes_later() -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        ours = {well_known.STORAGE_PROVISIONER: await driver.name()}
        await ask(plane, storage_class="later", annotations=ours)
        await plane.pass_time(3.0)
        assert any('"later" not found' in text for text in await plane.events_about("claim-1"))
        await plane.create(STORAGE_CLASS, waiting_class(name="later"))
        await plane.until(lambda: bound(plane), within=10.0)

    run_plane(plane_of(driver), scenario)


def test_one_claim_in_trouble_does_not_hold_up_others() -> None:
    driver = FakeCsiDriver({"node-1": GI, "node-2": 10 * GI})
    driver.errors["create"] = [DriverError(Code.INTERNAL, "no")]

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane, "bad")
        await ask(plane, "good", node="node-2")
        await plane.until(lambda: bound(plane, "good"), within=0.5)
        await plane.until(lambda: bound(plane, "bad"), within=5.0)

    run_plane(plane_of(driver), scenario)


def test_a_full_cluster_says_so_without_topology() -> None:
    driver = FakeCsiDriver(CAPACITIES)
    driver.whole = frozenset({"CONTROLLER_SERVICE"})
    driver.errors["create"] = [full()] * 3

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane), within=10.0)
        assert await selected(plane) == "node-1", "no other node would help"

    run_plane(plane_of(driver), scenario)


@pytest.mark.req("C18.failures")
def test_metrics_count_what_came_of_claims() -> None:
    driver = FakeCsiDriver({"node-1": GI // 2, "node-2": 10 * GI})
    registry = CollectorRegistry()

    def build(context: Context) -> Component:
        return Provisioner(context, driver, ProvisionerSettings(strict_topology=True), registry=registry)

    def count(name: str) -> float | None:
        return registry.get_sample_value(
            name, {"class": "made"} | ({} if "_delete_" in name or "out" in name else NO_SOURCE)
        )

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        driver.errors["create"] = [DriverError(Code.INTERNAL, "no")]
        await ask(plane)
        await plane.until(lambda: _is(selected(plane), None), within=10.0)
        await select(plane, "node-2")
        await plane.until(lambda: bound(plane), within=10.0)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.until(lambda: all_gone(plane), within=10.0)
        assert count("controller_persistentvolumeclaim_provision_total") == 1
        assert count("controller_persistentvolumeclaim_provision_failed_total") == 1, (
            "RESOURCE_EXHAUSTED does not count as a failure"
        )
        assert count("mooring_provision_out_of_capacity_total") == 1
        assert count("controller_persistentvolumeclaim_provision_duration_seconds_count") == 1
        assert count("controller_persistentvolume_delete_total") == 1

    run_plane([*plane_of(driver)[:2], build], scenario)


NO_SOURCE = {"source": ""}


async def _is(asked: "object", want: object) -> bool:
    return (await asked) == want  # type: ignore[misc]  # any awaitable
