"""The provisioner against the real API server in memory, in virtual time: volumes made, errors told, nodes freed."""

import pytest
from prometheus_client import CollectorRegistry

from mooring.api import keys
from mooring.api.kinds import CLAIM, CONFIG_MAP, NODE, SECRET, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.control.component import Component, Context
from mooring.csi.contract import Code, DriverError, DriverVolume, Topology
from mooring.provisioner.component import Provisioner
from mooring.provisioner.settings import Settings
from partial_plane import Plane, run_plane
from provisioner.paper_driver import DRIVER, KEY, PaperDriver, full
from provisioner.world import (
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

ROOM = {"node-1": 10 * GI, "node-2": 10 * GI}


@pytest.mark.req("T18.selected-node", "T5")
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
    driver = PaperDriver(ROOM)

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
        said = await plane.said("claim-1")
        assert 'Provisioning: External provisioner is provisioning volume for claim "default/claim-1"' in said
        assert f"ProvisioningSucceeded: Successfully provisioned volume {volume.name}" in said
        assert accounted(driver, await volumes(plane))

    run_plane(plane_of(driver), scenario)


@pytest.mark.req("T6")
def test_a_delayed_claim_waits_for_its_node() -> None:
    driver = PaperDriver(ROOM)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane, node=None)
        await plane.pass_time(600.0)
        assert driver.requests == []
        await select(plane, "node-1")
        await plane.until(lambda: bound(plane), within=5.0)

    run_plane(plane_of(driver), scenario)


@pytest.mark.req("T17.no-room")
def test_without_room_the_node_is_given_back() -> None:
    driver = PaperDriver({"node-1": GI // 2, "node-2": 10 * GI})

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: _is(selected(plane), None), within=5.0)
        await plane.pass_time(600.0)
        assert len(driver.requests) == 1, "nothing is tried before a node is chosen again"
        (failure,) = [text for text in await plane.said("claim-1") if text.startswith("ProvisioningFailed")]
        assert failure == (
            'ProvisioningFailed: failed to provision volume with StorageClass "made": '
            "rpc error: code = ResourceExhausted desc = no room left on node-1"
        )
        await select(plane, "node-2")
        await plane.until(lambda: bound(plane), within=5.0)
        assert accounted(driver, await volumes(plane))

    run_plane(plane_of(driver, Settings(strict_topology=True)), scenario)


@pytest.mark.req("T17.vanished-node")
def test_a_node_without_its_driver_is_given_back() -> None:
    driver = PaperDriver(ROOM)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.create(NODE, {"metadata": {"name": "gone"}})
        await ask(plane, node="gone")
        await plane.until(lambda: _is(selected(plane), None), within=5.0)
        assert driver.requests == []
        assert any("error getting CSINode for selected node" in text for text in await plane.said("claim-1"))

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
    driver = PaperDriver(ROOM)
    driver.troubles["create"] = [DriverError(code, "no")] * 4

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        taken = await plane.until(lambda: bound(plane), within=60.0)
        assert 15.0 < taken < 17.0, "1 + 2 + 4 + 8 seconds"
        assert len(set(map(repr, driver.requests))) == 1
        assert driver.made == 1

    run_plane(plane_of(driver), scenario)


def test_a_request_the_driver_calls_wrong_is_left_alone_until_its_class_is_replaced() -> None:
    driver = PaperDriver(ROOM)
    driver.troubles["create"] = [DriverError(Code.INVALID_ARGUMENT, "no such kind")]

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.pass_time(200.0)
        assert len(driver.requests) == 1
        said = [text for text in await plane.said("claim-1") if text.startswith("ProvisioningFailed")]
        assert said[0].startswith(
            "ProvisioningFailed: Volume provisioning failed with infeasible error. Retries will be"
        )
        await plane.client.delete(STORAGE_CLASS, "made")
        await plane.create(STORAGE_CLASS, waiting_class(parameters={"kind": "fast"}))
        await plane.until(lambda: bound(plane), within=300.0)

    run_plane(plane_of(driver), scenario)


def test_the_same_request_is_repeated_although_the_world_has_changed() -> None:
    """The answer was lost: whatever node is selected meanwhile, the first volume must not be forgotten."""
    driver = PaperDriver(ROOM)
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
    driver = PaperDriver(ROOM)
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
def test_an_object_that_somebody_deletes_before_its_claim_is_bound_is_made_anew_for_the_same_storage(
    reclaim: str,
) -> None:
    driver = PaperDriver(ROOM)

    async def scenario(plane: Plane) -> None:
        await furnish(plane, waiting_class(reclaim=reclaim))
        await ask(plane, annotations={keys.STORAGE_PROVISIONER: DRIVER})
        await plane.pass_time(5.0)
        [first] = await volumes(plane)
        await plane.client.delete(VOLUME, first.name)
        if first.metadata.finalizers:
            # With them it would stay, and a volume on its way out is bound to nobody.
            await plane.client.patch(VOLUME, first.name, MergePatch({"metadata": {"finalizers": None}}))
        await plane.pass_time(5.0)
        [second] = await volumes(plane)
        assert (second.name, second.uid != first.uid) == (first.name, True)
        assert second.spec.csi == first.spec.csi
        assert accounted(driver, (second,))

    # Without the PV controller, so that nobody is faster than whoever deletes it.
    run_plane([provisioner(driver)], scenario)


def test_volumes_that_are_too_small_are_not_given_away() -> None:
    driver = PaperDriver(ROOM)
    place = (Topology({KEY: "node-1"}),)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        claim = await ask(plane, node=None)
        driver.volumes[f"pvc-{claim.uid}"] = DriverVolume("small", 1, {}, place)
        await select(plane, "node-1")
        await plane.until(lambda: bound(plane), within=30.0)
        assert driver.deleted == ["small"]
        assert any("created volume capacity 1 less than" in text for text in await plane.said("claim-1"))
        assert accounted(driver, await volumes(plane))

    run_plane(plane_of(driver), scenario)


def test_secrets_go_along_and_a_missing_one_is_told() -> None:
    driver = PaperDriver(ROOM)
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
            'error getting secret default/key: secrets "key" not found' in text for text in await plane.said("claim-1")
        )
        await plane.create(SECRET, {"metadata": {"name": "key", "namespace": "default"}, "data": {"token": "czNjcmV0"}})
        await plane.until(lambda: bound(plane), within=30.0)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.until(lambda: all_gone(plane), within=30.0)
        assert driver.secrets == [{"token": "s3cret"}] * 2

    run_plane(plane_of(driver), scenario)


def test_populators_are_left_alone() -> None:
    driver = PaperDriver(ROOM)

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
        assert "Provisioning: Assuming an external populator will provision the volume" in await plane.said("claim-1")

    run_plane(plane_of(driver), scenario)


def test_a_class_that_comes_later() -> None:
    driver = PaperDriver(ROOM)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        ours = {keys.STORAGE_PROVISIONER: await driver.name()}
        await ask(plane, storage_class="later", annotations=ours)
        await plane.pass_time(3.0)
        assert any('"later" not found' in text for text in await plane.said("claim-1"))
        await plane.create(STORAGE_CLASS, waiting_class(name="later"))
        await plane.until(lambda: bound(plane), within=10.0)

    run_plane(plane_of(driver), scenario)


def test_one_claim_in_trouble_does_not_hold_up_others() -> None:
    driver = PaperDriver({"node-1": GI, "node-2": 10 * GI})
    driver.troubles["create"] = [DriverError(Code.INTERNAL, "no")]

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane, "bad")
        await ask(plane, "good", node="node-2")
        await plane.until(lambda: bound(plane, "good"), within=0.5)
        await plane.until(lambda: bound(plane, "bad"), within=5.0)

    run_plane(plane_of(driver), scenario)


def test_a_full_cluster_says_so_without_topology() -> None:
    driver = PaperDriver(ROOM)
    driver.whole = frozenset({"CONTROLLER_SERVICE"})
    driver.troubles["create"] = [full()] * 3

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane), within=10.0)
        assert await selected(plane) == "node-1", "no other node would help"

    run_plane(plane_of(driver), scenario)


@pytest.mark.req("C18.failures")
def test_metrics_count_what_came_of_claims() -> None:
    driver = PaperDriver({"node-1": GI // 2, "node-2": 10 * GI})
    registry = CollectorRegistry()

    def build(context: Context) -> Component:
        return Provisioner(context, driver, Settings(strict_topology=True), registry=registry)

    def count(name: str) -> float | None:
        return registry.get_sample_value(
            name, {"class": "made"} | ({} if "_delete_" in name or "out" in name else NO_SOURCE)
        )

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        driver.troubles["create"] = [DriverError(Code.INTERNAL, "no")]
        await ask(plane)
        await plane.until(lambda: _is(selected(plane), None), within=10.0)
        await select(plane, "node-2")
        await plane.until(lambda: bound(plane), within=10.0)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.until(lambda: all_gone(plane), within=10.0)
        assert count("controller_persistentvolumeclaim_provision_total") == 1
        assert count("controller_persistentvolumeclaim_provision_failed_total") == 1, "no room is nobody's failure"
        assert count("mooring_provision_out_of_capacity_total") == 1
        assert count("controller_persistentvolumeclaim_provision_duration_seconds_count") == 1
        assert count("controller_persistentvolume_delete_total") == 1

    run_plane([*plane_of(driver)[:2], build], scenario)


NO_SOURCE = {"source": ""}


async def _is(asked: "object", want: object) -> bool:
    return (await asked) == want  # type: ignore[misc]  # any awaitable
