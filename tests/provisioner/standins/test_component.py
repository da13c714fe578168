"""The stand-ins beside the PV controller, on the API server in memory and in virtual time."""

from functools import partial

import pytest
import structlog.testing

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, NODE, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.provisioner.standins.component import StandInProvisioner
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from support.builders import Body, claim_body, class_body, node_body
from support.partial_control_plane import Plane, flaky, run_plane

CONTROLLERS = [PersistentVolumeController, VolumeProtection, StandInProvisioner]

claim = partial(claim_body, storage_class="disks")
disks = partial(class_body, name="disks", provisioner="zonal.standins.mooring.dev")


async def _zones(plane: Plane, storage_class: Body, count: int = 3) -> None:
    for number in range(count):
        zone = "abc"[number]
        await plane.create(NODE, node_body(name=f"node-{zone}", zone=zone, labels={well_known.REGION: "north"}))
    await plane.create(STORAGE_CLASS, storage_class)


async def _select(plane: Plane, name: str, where: str, key: str = well_known.SELECTED_NODE) -> None:
    """What the scheduler does."""
    await plane.client.patch(CLAIM, name, MergePatch({"metadata": {"annotations": {key: where}}}), namespace="default")


async def _bound(plane: Plane, *names: str) -> bool:
    return all([(await plane.get(CLAIM, name)).status.phase == "Bound" for name in names])


async def _values(plane: Plane, claim: str) -> tuple[str, ...]:
    """The values of the first expression in the affinity of a claim's volume."""
    volume = await plane.get(VOLUME, (await plane.get(CLAIM, claim)).spec.volume_name)
    assert volume.required_affinity is not None
    return volume.required_affinity.node_selector_terms[0].match_expressions[0].values


@pytest.mark.req("T18.one-zone", "T19.volume-in-zone")
def test_delayed_claim_is_served_in_the_zone_of_its_node() -> None:
    async def scenario(plane: Plane) -> None:
        await _zones(plane, disks())
        await plane.create(CLAIM, claim())
        await plane.pass_time(30.0)
        assert await plane.names(VOLUME) == [], "nothing before the scheduler has decided"
        await _select(plane, "claim-1", "node-b")
        await plane.until(lambda: _bound(plane, "claim-1"))
        assert await _values(plane, "claim-1") == ("b",)
        said = await plane.events_about("claim-1")
        assert any(line.startswith("ProvisioningSucceeded: Successfully provisioned volume pvc-") for line in said)

    run_plane(CONTROLLERS, scenario)


@pytest.mark.req("T17.draft-key")
def test_node_may_be_named_by_the_key_of_the_drafts() -> None:
    async def scenario(plane: Plane) -> None:
        await _zones(plane, disks())
        await plane.create(CLAIM, claim())
        await _select(plane, "claim-1", "node-c", well_known.SELECTED_NODE_DRAFT)
        await plane.until(lambda: _bound(plane, "claim-1"))
        assert await _values(plane, "claim-1") == ("c",)

    run_plane(CONTROLLERS, scenario)


@pytest.mark.req("T5.allowed-topologies")
def test_immediate_claim_gets_an_allowed_topology() -> None:
    async def scenario(plane: Plane) -> None:
        allowed = [{well_known.ZONE: ["b", "c"]}]
        await _zones(plane, disks(binding_mode="Immediate", allowed_topologies=allowed))
        for number in range(4):
            await plane.create(CLAIM, claim(name=f"data-web-{number}"))
        names = [f"data-web-{number}" for number in range(4)]
        await plane.until(lambda: _bound(plane, *names))
        assert {zone for name in names for zone in await _values(plane, name)} == {"b", "c"}

    run_plane(CONTROLLERS, scenario)


@pytest.mark.req("T17.cleared", "T42.PC29")
@pytest.mark.parametrize(
    ("parameters", "where", "reason"),
    [
        pytest.param({"unavailableIn": "a"}, "node-a", "storage in a is not available", id="nothing to be had there"),
        pytest.param({"capacityPerDomain": "1Gi"}, "node-a", "not enough storage in a", id="not enough room there"),
        pytest.param({}, "node-x", 'node "node-x" not found', id="the node is gone"),
    ],
)
def test_failure_on_a_node_gives_the_choice_of_node_back(parameters: dict[str, str], where: str, reason: str) -> None:
    async def scenario(plane: Plane) -> None:
        await _zones(plane, disks(parameters=parameters))
        await plane.create(CLAIM, claim())
        await _select(plane, "claim-1", where)

        async def given_back() -> bool:
            return (await plane.get(CLAIM, "claim-1")).selected_node is None

        await plane.until(given_back, within=5.0)
        assert await plane.names(VOLUME) == []
        assert any(
            line.startswith("ProvisioningFailed: ") and reason in line for line in await plane.events_about("claim-1")
        )

    run_plane(CONTROLLERS, scenario)


@pytest.mark.req("T17.vanished-node")
def test_node_that_goes_while_a_claim_waits_for_it_is_given_back() -> None:
    async def scenario(plane: Plane) -> None:
        # The class asks for what no zonal disk knows, so that the claim waits.
        await _zones(plane, disks(allowed_topologies=[{"foo.io/rack": ["r"]}]))
        await plane.create(CLAIM, claim())
        await _select(plane, "claim-1", "node-a")
        await plane.pass_time(5.0)
        assert (await plane.get(CLAIM, "claim-1")).selected_node == "node-a"
        await plane.client.delete(NODE, "node-a")

        async def given_back() -> bool:
            return (await plane.get(CLAIM, "claim-1")).selected_node is None

        await plane.until(given_back, within=5.0)

    run_plane(CONTROLLERS, scenario)


@pytest.mark.req("T18.too-few-zones")
def test_regional_disk_waits_for_its_second_zone() -> None:
    async def scenario(plane: Plane) -> None:
        await _zones(plane, disks(provisioner="regional.standins.mooring.dev", binding_mode="Immediate"), count=1)
        await plane.create(CLAIM, claim())
        await plane.pass_time(10.0)
        assert any(
            "needs 2 zones in one region, and only a remains" in line for line in await plane.events_about("claim-1")
        )
        await plane.create(NODE, node_body(name="node-z", zone="z", labels={well_known.REGION: "north"}))
        await plane.until(lambda: _bound(plane, "claim-1"), within=2.0)
        assert await _values(plane, "claim-1") == ("a", "z")

    run_plane(CONTROLLERS, scenario)


def test_capacity_is_charged_once_and_released_on_deletion() -> None:
    async def scenario(plane: Plane) -> None:
        storage_class = disks(
            binding_mode="Immediate",
            parameters={"capacityPerDomain": "10Gi"},
            allowed_topologies=[{well_known.ZONE: ["a"]}],
        )
        await _zones(plane, storage_class)
        for number in range(4):
            await plane.create(CLAIM, claim(name=f"claim-{number}", size="5Gi"))
        await plane.pass_time(20.0)
        assert len(await plane.names(VOLUME)) == 2
        served = [item for item in (await plane.client.list(CLAIM)).items if item.status.phase == "Bound"]
        await plane.client.delete(CLAIM, served[0].name, namespace="default")

        async def two_again() -> bool:
            names = await plane.names(VOLUME)
            return len(names) == 2 and f"pvc-{served[0].uid}" not in names

        await plane.until(two_again, within=30.0)

    run_plane(CONTROLLERS, scenario)


@pytest.mark.parametrize("provisioner", ["zonal.standins.mooring.dev", "kubernetes.io/gce-pd"])
def test_volume_goes_with_its_claim(provisioner: str) -> None:
    async def scenario(plane: Plane) -> None:
        await _zones(plane, disks(provisioner=provisioner, binding_mode="Immediate"))
        await plane.create(CLAIM, claim())
        await plane.until(lambda: _bound(plane, "claim-1"))
        [volume] = (await plane.client.list(VOLUME)).items
        assert well_known.EXTERNAL_PROVISIONER in volume.metadata.finalizers
        await plane.client.delete(CLAIM, "claim-1", namespace="default")

        async def gone() -> bool:
            return await plane.names(VOLUME) == []

        await plane.until(gone)

    run_plane(CONTROLLERS, scenario, client=flaky(0.2))


def test_volume_to_be_kept_is_kept() -> None:
    async def scenario(plane: Plane) -> None:
        await _zones(plane, disks(binding_mode="Immediate", reclaim="Retain"))
        await plane.create(CLAIM, claim())
        await plane.until(lambda: _bound(plane, "claim-1"))
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(30.0)
        [volume] = (await plane.client.list(VOLUME)).items
        assert volume.status.phase == "Released"
        assert well_known.EXTERNAL_PROVISIONER not in volume.metadata.finalizers
        with pytest.raises(NotFound):
            await plane.get(CLAIM, "claim-1")

    run_plane(CONTROLLERS, scenario)


@pytest.mark.req("T42.PC30")
def test_lost_answers_make_no_second_volume() -> None:
    names = [f"data-web-{number}" for number in range(20)]

    async def scenario(plane: Plane) -> None:
        await _zones(plane, disks(binding_mode="Immediate"))
        for name in names:
            await plane.create(CLAIM, claim(name=name))
        await plane.until(lambda: _bound(plane, *names))
        uids = {(await plane.get(CLAIM, name)).uid for name in names}
        assert set(await plane.names(VOLUME)) == {f"pvc-{uid}" for uid in uids}

    run_plane(CONTROLLERS, scenario, client=flaky(0.3))


@pytest.mark.req("T42.PC4")
def test_what_cannot_be_made_is_tried_again_less_and_less_often() -> None:
    """Pauses of 1 s doubling to 5 min: in an hour about twenty tries, and none once the claim is gone."""

    async def scenario(plane: Plane) -> None:
        await _zones(plane, disks(binding_mode="Immediate", allowed_topologies=[{"foo.io/rack": ["r"]}]))
        await plane.create(CLAIM, claim())
        await plane.pass_time(3600.0)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(3600.0)

    with structlog.testing.capture_logs() as logs:
        run_plane(CONTROLLERS, scenario)
    tries = [entry for entry in logs if entry["event"] == "volume not provisioned"]
    assert 15 <= len(tries) <= 25


def test_class_that_is_seen_late_is_waited_for() -> None:
    """The PV controller had observed the class before the stand-in did."""

    async def scenario(plane: Plane) -> None:
        asked = {well_known.STORAGE_PROVISIONER: "zonal.standins.mooring.dev"}
        await plane.create(CLAIM, claim(annotations=asked))
        await plane.create(CLAIM, claim(name="other", storage_class="others", annotations=asked))
        await plane.pass_time(5.0)
        assert await plane.names(VOLUME) == []
        await _zones(plane, disks(binding_mode="Immediate"))
        await plane.until(lambda: _bound(plane, "claim-1"), within=2.0)
        assert len(await plane.names(VOLUME)) == 1

    run_plane(CONTROLLERS, scenario)
