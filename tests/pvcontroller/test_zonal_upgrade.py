"""The zonal upgrade controller on a server that did not add the affinity itself: volumes are labelled afterwards."""

import pytest
from structlog.testing import capture_logs

from mooring.api import well_known
from mooring.api.errors import Invalid
from mooring.api.kinds import NODE, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.pvcontroller.zonal_upgrade import UndoResult, ZonalUpgrade, undo_patch, undo_zonal_upgrade
from support.builders import Body, a_volume, claim_ref, node_body, reachable_from, volume_body
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

    with capture_logs() as logs:
        run_plane([ZonalUpgrade], scenario)
    assert [line for line in logs if line["log_level"] == "warning"] == [], "the server is not even asked"


@pytest.mark.req("T52.undone")
def test_undone_upgrade_keeps_labels_and_is_not_repeated_until_the_annotation_goes() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(NODE, node_body(labels={well_known.ZONE: "a", well_known.REGION: "r"}))
        await plane.create(VOLUME, volume_body(source=DISK, labels=LABELS))
        await plane.create(VOLUME, volume_body(name="other", source=DISK, affinity=reachable_from("rack", "1")))
        assert await _upgraded(plane)
        assert [one async for one in undo_zonal_upgrade(plane.client)] == [UndoResult("volume-1")]
        await plane.pass_time()
        undone = await plane.get(VOLUME, "volume-1")
        assert undone.spec.node_affinity is None
        assert undone.metadata.labels == LABELS
        assert (await plane.get(VOLUME, "other")).spec.node_affinity is not None
        assert [one async for one in undo_zonal_upgrade(plane.client)] == []
        again = MergePatch({"metadata": {"annotations": {well_known.ZONAL_UPGRADE: None}}})
        await plane.client.patch(VOLUME, "volume-1", again)
        await plane.until(lambda: _upgraded(plane), within=2.0)

    run_plane([ZonalUpgrade], scenario)


@pytest.mark.parametrize(
    ("affinity", "labels"),
    [
        pytest.param(None, LABELS, id="no affinity"),
        pytest.param(reachable_from(well_known.ZONE_BETA, "a"), LABELS, id="narrower than the labels"),
        pytest.param(reachable_from(well_known.ZONE, "a"), {}, id="no labels"),
        pytest.param(reachable_from("rack", "1"), {well_known.ZONE: "a"}, id="another key"),
    ],
)
def test_affinity_that_labels_do_not_imply_is_not_removed(affinity: Body | None, labels: dict[str, str]) -> None:
    assert undo_patch(a_volume(source=DISK, affinity=affinity, labels=labels)) is None


@pytest.mark.parametrize("key", [well_known.ZONE_BETA, well_known.ZONE])
def test_affinity_with_either_spelling_of_the_key_is_removed(key: str) -> None:
    labels = {well_known.ZONE_BETA: "a"}
    assert undo_patch(a_volume(source=DISK, affinity=reachable_from(key, "a"), labels=labels)) is not None


@pytest.mark.req("T52.undone")
def test_server_allows_removal_only_as_an_undo() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(VOLUME, volume_body(source=DISK, labels={well_known.ZONE: "a"}))
        await plane.create(VOLUME, volume_body(name="other", source=DISK, affinity=reachable_from("rack", "1")))
        undone = {"metadata": {"annotations": {well_known.ZONAL_UPGRADE: well_known.ZONAL_UPGRADE_UNDONE}}}
        remove: Body = {"spec": {"nodeAffinity": None}}
        relabel: Body = {"metadata": undone["metadata"] | {"labels": {well_known.ZONE: "b"}}}
        for name, patch in (("volume-1", remove), ("other", undone | remove), ("volume-1", relabel | remove)):
            with pytest.raises(Invalid, match="immutable"):
                await plane.client.patch(VOLUME, name, MergePatch(patch))

    run_plane([], scenario)
