"""The cases of the public csi-sanity suite, over gRPC on a Unix socket; ids give the suite's own words.

Cases of capabilities this driver does not advertise are at the end: the suite skips them, we check that what they
would ask is refused. Cases that depend on it run for mount and block volumes, with and without attaching.
"""

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from mooring.csi.wire import csi_pb2 as pb
from support.builders.hostpath import BLOCK, MOUNT
from support.hostpath.csi_sanity import LIMIT, SIZE, Sanity, sanity

pytestmark = [pytest.mark.req("C11.sanity-cases"), pytest.mark.level("e")]

FAKE = "fake-vol-id-0123456789"
NO_NODE = "fake-node-id-0123456789"

Asking = Callable[[Sanity], Message]


@pytest.fixture(params=["mount", "block", "mount, attached", "block, attached"])
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sanity]:
    kind, _, attached = request.param.partition(", ")
    async with sanity(tmp_path, BLOCK if kind == "block" else MOUNT, attach=bool(attached)) as asked:
        yield asked


@pytest.fixture(params=["mount", "block"])
async def attaching(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sanity]:
    """With PUBLISH_UNPUBLISH_VOLUME."""
    async with sanity(tmp_path, BLOCK if request.param == "block" else MOUNT, attach=True) as asked:
        yield asked


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Sanity]:
    """For what does not depend on the kind of volume."""
    async with sanity(tmp_path, MOUNT, attach=True) as asked:
        yield asked


class TestIdentity:
    async def test_plugin_capabilities(self, plain: Sanity) -> None:
        answer = await plain.call_rpc(pb.GetPluginCapabilitiesRequest())
        assert isinstance(answer, pb.GetPluginCapabilitiesResponse)
        assert {capability.service.type for capability in answer.capabilities} == {1, 2}

    async def test_probe(self, plain: Sanity) -> None:
        assert await plain.call_rpc(pb.ProbeRequest())

    async def test_plugin_info(self, plain: Sanity) -> None:
        answer = await plain.call_rpc(pb.GetPluginInfoRequest())
        assert isinstance(answer, pb.GetPluginInfoResponse)
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]{0,61}[A-Za-z]", answer.name)


class TestController:
    async def test_capabilities(self, driver: Sanity) -> None:
        answer = await driver.call_rpc(pb.ControllerGetCapabilitiesRequest())
        assert isinstance(answer, pb.ControllerGetCapabilitiesResponse)
        assert all(capability.HasField("rpc") and capability.rpc.type for capability in answer.capabilities)

    async def test_get_capacity(self, driver: Sanity) -> None:
        assert await driver.code(pb.GetCapacityRequest()) == "OK"

    async def test_list_volumes_with_an_invalid_token(self, driver: Sanity) -> None:
        assert await driver.code(pb.ListVolumesRequest(starting_token="invalid-token")) == "ABORTED"

    async def test_new_volumes_appear_in_lists_and_deleted_ones_disappear(self, driver: Sanity) -> None:
        before = await driver.listed()
        volume = await driver.create("sanity")
        assert await driver.listed() == [*before, volume.volume_id]
        assert await driver.code(pb.DeleteVolumeRequest(volume_id=volume.volume_id)) == "OK"
        assert await driver.listed() == before

    async def test_pages_survive_changes_between_them(self, driver: Sanity) -> None:
        """Disabled in the suite itself."""
        made = [(await driver.create(f"sanity-{number}")).volume_id for number in range(3)]
        first = await driver.call_rpc(pb.ListVolumesRequest(max_entries=2))
        assert isinstance(first, pb.ListVolumesResponse)
        assert [entry.volume.volume_id for entry in first.entries] == made[:2]
        for entry in first.entries:
            await driver.call_rpc(pb.DeleteVolumeRequest(volume_id=entry.volume.volume_id))
        added = await driver.create("sanity-3")
        rest = await driver.call_rpc(pb.ListVolumesRequest(starting_token=first.next_token))
        assert isinstance(rest, pb.ListVolumesResponse)
        assert [entry.volume.volume_id for entry in rest.entries] == [made[2], added.volume_id]
        assert rest.next_token == ""

    async def test_a_volume_has_at_least_the_capacity_asked_for(self, driver: Sanity) -> None:
        assert (await driver.create("sanity")).capacity_bytes >= SIZE

    async def test_same_name_and_capacity_give_the_same_volume(self, driver: Sanity) -> None:
        assert await driver.create("sanity") == await driver.create("sanity")

    async def test_same_name_and_different_capacity_do_not(self, driver: Sanity) -> None:
        def exactly(size: int) -> pb.CapacityRange:
            return pb.CapacityRange(required_bytes=size, limit_bytes=size)

        assert (await driver.create("sanity", capacity_range=exactly(SIZE))).capacity_bytes == SIZE
        larger = driver.create_request("sanity", capacity_range=exactly(2 * SIZE))
        assert await driver.code(larger) == "ALREADY_EXISTS"

    async def test_the_longest_name(self, driver: Sanity) -> None:
        await driver.create("x" * 128)

    async def test_delete_what_is_not_there(self, driver: Sanity) -> None:
        assert await driver.code(pb.DeleteVolumeRequest(volume_id="fake-vol-id")) == "OK"

    async def test_validate_capabilities(self, driver: Sanity) -> None:
        volume_id = (await driver.create("sanity")).volume_id
        asked = pb.ValidateVolumeCapabilitiesRequest(volume_id=volume_id, volume_capabilities=[driver.capability])
        answer = await driver.call_rpc(asked)
        assert isinstance(answer, pb.ValidateVolumeCapabilitiesResponse)
        assert list(answer.confirmed.volume_capabilities) == [driver.capability]
        nothing = pb.ValidateVolumeCapabilitiesRequest(volume_id=volume_id)
        assert await driver.code(nothing) == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("asking", "code"),
    [
        pytest.param(lambda d: d.create_request(""), "INVALID_ARGUMENT", id="create without a name"),
        pytest.param(
            lambda d: d.create_request("sanity", volume_capabilities=[]),
            "INVALID_ARGUMENT",
            id="create without capabilities",
        ),
        pytest.param(lambda d: pb.DeleteVolumeRequest(), "INVALID_ARGUMENT", id="delete without a volume id"),
        pytest.param(
            lambda d: pb.ValidateVolumeCapabilitiesRequest(), "INVALID_ARGUMENT", id="validate without a volume id"
        ),
        pytest.param(
            lambda d: pb.ValidateVolumeCapabilitiesRequest(volume_id=FAKE, volume_capabilities=[d.capability]),
            "NOT_FOUND",
            id="validate an unknown volume",
        ),
        pytest.param(
            lambda d: pb.NodePublishVolumeRequest(), "INVALID_ARGUMENT", id="node publish without a volume id"
        ),
        pytest.param(
            lambda d: pb.NodePublishVolumeRequest(volume_id=FAKE),
            "INVALID_ARGUMENT",
            id="node publish without a target",
        ),
        pytest.param(
            lambda d: pb.NodePublishVolumeRequest(volume_id=FAKE, target_path=str(d.target)),
            "INVALID_ARGUMENT",
            id="node publish without a capability",
        ),
        pytest.param(
            lambda d: pb.NodeUnpublishVolumeRequest(), "INVALID_ARGUMENT", id="node unpublish without a volume id"
        ),
        pytest.param(
            lambda d: pb.NodeUnpublishVolumeRequest(volume_id=FAKE),
            "INVALID_ARGUMENT",
            id="node unpublish without a target",
        ),
        pytest.param(lambda d: pb.NodeStageVolumeRequest(), "INVALID_ARGUMENT", id="stage without a volume id"),
        pytest.param(
            lambda d: pb.NodeStageVolumeRequest(volume_id=FAKE, volume_capability=d.capability),
            "INVALID_ARGUMENT",
            id="stage without a path",
        ),
        pytest.param(
            lambda d: pb.NodeStageVolumeRequest(volume_id=FAKE, staging_target_path=str(d.staging)),
            "INVALID_ARGUMENT",
            id="stage without a capability",
        ),
        pytest.param(lambda d: d.node_stage_request(FAKE), "NOT_FOUND", id="stage an unknown volume"),
        pytest.param(lambda d: d.node_publish_request(FAKE), "NOT_FOUND", id="node publish an unknown volume"),
        pytest.param(lambda d: pb.NodeUnstageVolumeRequest(), "INVALID_ARGUMENT", id="unstage without a volume id"),
        pytest.param(
            lambda d: pb.NodeUnstageVolumeRequest(volume_id=FAKE), "INVALID_ARGUMENT", id="unstage without a path"
        ),
        pytest.param(
            lambda d: pb.ControllerGetVolumeRequest(), "INVALID_ARGUMENT", id="get a volume without a volume id"
        ),
        pytest.param(lambda d: pb.ControllerGetVolumeRequest(volume_id=FAKE), "NOT_FOUND", id="get an unknown volume"),
    ],
)
async def test_requests_that_cannot_be_followed(plain: Sanity, asking: Asking, code: str) -> None:
    assert await plain.code(asking(plain)) == code


@pytest.mark.parametrize(
    ("asking", "code"),
    [
        pytest.param(lambda d: pb.ControllerPublishVolumeRequest(), "INVALID_ARGUMENT", id="no volume id"),
        pytest.param(lambda d: pb.ControllerPublishVolumeRequest(volume_id=FAKE), "INVALID_ARGUMENT", id="no node id"),
        pytest.param(
            lambda d: pb.ControllerPublishVolumeRequest(volume_id=FAKE, node_id=NO_NODE),
            "INVALID_ARGUMENT",
            id="no capability",
        ),
        pytest.param(lambda d: d.controller_publish_request(FAKE, NO_NODE), "NOT_FOUND", id="unknown volume"),
        pytest.param(lambda d: pb.ControllerUnpublishVolumeRequest(), "INVALID_ARGUMENT", id="unpublish no volume id"),
    ],
)
async def test_attachments_that_cannot_be(attaching: Sanity, asking: Asking, code: str) -> None:
    assert await attaching.code(asking(attaching)) == code


class TestControllerPublish:
    async def test_unknown_node(self, attaching: Sanity) -> None:
        volume = await attaching.create("sanity")
        assert await attaching.code(attaching.controller_publish_request(volume.volume_id, NO_NODE)) == "NOT_FOUND"

    async def test_more_volumes_than_the_node_takes(self, attaching: Sanity) -> None:
        node = await attaching.node()
        assert node.max_volumes_per_node == LIMIT
        made = [(await attaching.create(f"sanity-{number}")).volume_id for number in range(LIMIT + 1)]
        codes = [await attaching.code(attaching.controller_publish_request(volume, node.node_id)) for volume in made]
        assert codes == ["OK"] * LIMIT + ["RESOURCE_EXHAUSTED"]

    async def test_published_again_as_read_only(self, attaching: Sanity) -> None:
        volume, node = await attaching.create("sanity"), await attaching.node()
        assert await attaching.code(attaching.controller_publish_request(volume.volume_id, node.node_id)) == "OK"
        again = attaching.controller_publish_request(volume.volume_id, node.node_id, readonly=True)
        assert await attaching.code(again) == "ALREADY_EXISTS"

    @pytest.mark.parametrize("times", [1, 10], ids=["should work", "should be idempotent"])
    async def test_lifecycle(self, attaching: Sanity, times: int) -> None:
        volume = await attaching.create("sanity", accessibility_requirements=await attaching.node_topology())
        for _ in range(times):
            assert (
                await attaching.code(
                    attaching.controller_publish_request(volume.volume_id, (await attaching.node()).node_id)
                )
                == "OK"
            )


class TestNode:
    async def test_capabilities(self, driver: Sanity) -> None:
        answer = await driver.call_rpc(pb.NodeGetCapabilitiesRequest())
        assert isinstance(answer, pb.NodeGetCapabilitiesResponse)
        assert all(capability.HasField("rpc") for capability in answer.capabilities)

    async def test_info(self, driver: Sanity) -> None:
        node = await driver.node()
        assert node.node_id
        assert node.max_volumes_per_node >= 0
        assert node.accessible_topology.segments

    @pytest.mark.parametrize("times", [1, 10], ids=["should work", "should be idempotent"])
    async def test_end_to_end(self, driver: Sanity, times: int) -> None:
        volume = await driver.create("sanity", accessibility_requirements=await driver.node_topology())
        await driver.publish_to_pod(volume.volume_id, times=times)

    async def test_unpublish_removes_the_target(self, driver: Sanity) -> None:
        volume = await driver.create("sanity")
        await driver.publish_to_pod(volume.volume_id)
        assert driver.target.exists()
        gone = pb.NodeUnpublishVolumeRequest(volume_id=volume.volume_id, target_path=str(driver.target))
        assert await driver.code(gone) == "OK"
        assert not driver.target.exists()
        assert list(driver.target.parent.iterdir()) == []

    async def test_a_single_writer_is_published_once(self, driver: Sanity) -> None:
        driver.capability.access_mode.mode = pb.VolumeCapability.AccessMode.SINGLE_NODE_SINGLE_WRITER
        volume = await driver.create("sanity")
        await driver.publish_to_pod(volume.volume_id)
        other = driver.node_publish_request(volume.volume_id, driver.target.with_name("other_target"))
        assert await driver.code(other) == "FAILED_PRECONDITION"
        assert not driver.target.with_name("other_target").exists()


SNAPSHOT = pb.VolumeContentSource(snapshot=pb.VolumeContentSource.SnapshotSource(snapshot_id="s"))
CLONE = pb.VolumeContentSource(volume=pb.VolumeContentSource.VolumeSource(volume_id="v"))


class TestNotAdvertised:
    async def test_capabilities_of_these_cases_are_not_advertised(self, plain: Sanity) -> None:
        answer = await plain.call_rpc(pb.ControllerGetCapabilitiesRequest())
        assert isinstance(answer, pb.ControllerGetCapabilitiesResponse)
        types = pb.ControllerServiceCapability.RPC
        theirs = {
            types.CREATE_DELETE_SNAPSHOT,
            types.LIST_SNAPSHOTS,
            types.GET_SNAPSHOT,
            types.CLONE_VOLUME,
            types.EXPAND_VOLUME,
            types.MODIFY_VOLUME,
            types.VOLUME_CONDITION,
        }
        assert not theirs & {capability.rpc.type for capability in answer.capabilities}

    @pytest.mark.parametrize(
        "more",
        [
            pytest.param({"volume_content_source": SNAPSHOT}, id="from a snapshot"),
            pytest.param({"volume_content_source": CLONE}, id="from another volume"),
            pytest.param({"mutable_parameters": {"XXX_FakeKey": "XXX_FakeValue"}}, id="with mutable parameters"),
        ],
    )
    async def test_volumes_that_are_not_made(self, plain: Sanity, more: dict[str, object]) -> None:
        assert await plain.code(plain.create_request("sanity", **more)) == "INVALID_ARGUMENT"

    @pytest.mark.parametrize(
        "call",
        [
            "Controller/CreateSnapshot",
            "Controller/DeleteSnapshot",
            "Controller/ListSnapshots",
            "Controller/GetSnapshot",
            "Controller/ControllerExpandVolume",
            "Controller/ControllerModifyVolume",
            "Node/NodeGetVolumeStats",
            "Node/NodeExpandVolume",
            "GroupController/GroupControllerGetCapabilities",
            "GroupController/CreateVolumeGroupSnapshot",
        ],
    )
    async def test_calls_that_are_not_answered(self, plain: Sanity, call: str) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await plain.channel.unary_unary(f"/csi.v1.{call}")(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
