"""The zonal upgrade controller on a server that did not add the affinity itself: volumes are labelled afterwards."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import NODE, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.pvcontroller.zonal_upgrade import ZonalUpgrade
from support.builders import Body, claim_ref, node_body, volume_body
from support.partial_control_plane import Plane, flaky, run_plane

DISK: Body = {"gcePersistentDisk": {"pdName": "my-disk", "fsType": "ext4"}}
LABELS = {well_known.ZONE_BETA: "a__b", well_known.REGION_BETA: "r"}


async def _label(plane: Plane, name: str = "volume-1") -> None:
    await plane.client.patch(VOLUME, name, MergePatch({"metadata": {"labels": LABELS}}))


async def _upgraded(plane: Plane, name: str = "volume-1") -> bool:
    return (await plane.get(VOLUME, name)).spec.node_affinity is not None


@pytest.mark.req("T36.controller")
def test_labelled_volume_gets_its_affinity_and_keeps_its_labels() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(NODE, node_body(labels={well_known.ZONE_BETA: "a", well_known.REGION_BETA: "r"}))
        await plane.create(VOLUME, volume_body(source=DISK, claim_ref=claim_ref()))
        await _label(plane)
        await plane.until(lambda: _upgraded(plane), within=2.0)
        volume = await plane.get(VOLUME, "volume-1")
        assert volume.metadata.labels == LABELS
        assert volume.required_affinity is not None
        [term] = volume.required_affinity.node_selector_terms
        assert {one.key: one.values for one in term.match_expressions} == {
            well_known.ZONE_BETA: ("a", "b"),
            well_known.REGION_BETA: ("r",),
        }
        assert (await plane.events_about("volume-1"))[0].startswith("NodeAffinityAdded: ")

    run_plane([ZonalUpgrade], scenario, client=flaky(0.3))


@pytest.mark.req("T36.untouched")
def test_affinity_that_is_there_is_left_alone() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(VOLUME, volume_body(node="node-1"))
        await plane.create(VOLUME, volume_body(name="unlabelled", source=DISK))
        await _label(plane)
        before = await plane.client.list(VOLUME)
        await plane.pass_time()
        assert (await plane.client.list(VOLUME)).items == before.items

    run_plane([ZonalUpgrade], scenario)
