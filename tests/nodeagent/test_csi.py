"""CSI volumes from attachment to the last unstage, against the real API server and a driver that keeps its books."""

from collections import Counter
from functools import partial

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, NODE, POD, VOLUME, VOLUME_ATTACHMENT
from mooring.api.patches.contract import MergePatch
from mooring.control.component import Component, Context
from mooring.controllers.storage_controllers import AttachController
from mooring.csi.contract import NodeInfo, Topology
from mooring.nodeagent import node_objects
from mooring.nodeagent.attacher import Attacher
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.mounts import Mount
from mooring.nodeagent.node_objects import NodeTemplate
from mooring.nodeagent.volume_manager import MountStore
from support.builders import Body, a_csi_node, a_node, claim_body, claim_ref, driver_body, pod_body, volume_body
from support.csi_drivers.strict import NAME, StrictController, StrictNode, StrictState
from support.partial_control_plane import Build, Plane, flaky, run_plane
from support.partial_control_plane.counting import CountingClient

NODES = ("node-1", "node-2")


class Notes(MountStore):
    """What is remembered outlives the agent."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Mount] = {}

    def load(self) -> list[Mount]:
        return list(self.kept.values())

    async def record(self, mount: Mount) -> None:
        self.kept[mount.pod, mount.name] = mount

    async def remove(self, mount: Mount) -> None:
        self.kept.pop((mount.pod, mount.name), None)


def parts(books: StrictState, notes: Notes | None = None) -> list[Build]:
    drivers = {node: {NAME: StrictNode(books, node, limit=5)} for node in NODES}

    def agent(context: Context) -> Component:
        return NodeAgent(context, [NodeTemplate(node) for node in NODES], drivers=drivers, mount_store=notes)

    def attacher(context: Context) -> Component:
        return Attacher(context, NAME, StrictController(books))  # type: ignore[arg-type]  # the two calls it makes

    return [agent, attacher, AttachController]


async def _volume(plane: Plane, *, driver: str = NAME) -> None:
    """A claim and its volume, bound as the PV controller leaves them."""
    claim = await plane.create(CLAIM, claim_body())
    csi = {"driver": driver, "volumeHandle": "disk-1", "volumeAttributes": {"pool": "fast"}}
    reference = claim_ref(name=claim.name, uid=claim.uid)
    await plane.create(VOLUME, volume_body(source={"csi": csi}, claim_ref=reference))
    bound = {
        "metadata": {"annotations": {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}},
        "spec": {"volumeName": "volume-1"},
    }
    await plane.client.patch(CLAIM, claim.name, MergePatch(bound), namespace="default")
    phase = MergePatch({"status": {"phase": "Bound"}})
    await plane.client.patch(CLAIM, claim.name, phase, namespace="default", subresource="status")


pod = partial(pod_body, node="node-1", claims=["claim-1"])


async def _phase(plane: Plane, name: str) -> str:
    return (await plane.get(POD, name)).status.phase


@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.3, id="with lost answers")])
def test_volume_is_attached_published_and_detached(share: float) -> None:
    books = StrictState()

    async def scenario(plane: Plane) -> None:
        await plane.create(CSI_DRIVER, driver_body(name=NAME))
        await _volume(plane)
        await plane.create(POD, pod(name="first"))
        await plane.create(POD, pod(name="second"))
        await plane.pass_time()
        assert [await _phase(plane, name) for name in ("first", "second")] == ["Running", "Running"]
        assert books.attached == books.staged == {("disk-1", "id-of-node-1")}
        assert len(books.published) == 2
        assert books.contexts["disk-1"] == {"pool": "fast"}
        in_use = (await plane.get(NODE, "node-1")).status.volumes_in_use
        assert in_use == (f"kubernetes.io/csi/{NAME}^disk-1",)

        await plane.client.delete(POD, "first", namespace="default")
        await plane.pass_time()
        assert books.staged == {("disk-1", "id-of-node-1")}
        assert len(books.published) == 1

        await plane.client.delete(POD, "second", namespace="default")
        await plane.pass_time()
        assert await plane.names(POD) == []
        assert await plane.names(VOLUME_ATTACHMENT) == []
        assert books.published == books.staged == books.attached == set()
        assert (await plane.get(NODE, "node-1")).status.volumes_in_use == ()

    run_plane(parts(books), scenario, client=flaky(share))
    assert books.broken == []


def test_driver_error_is_reported_and_retried() -> None:
    books = StrictState(failures={"attach": 2, "stage": 2, "publish": 2})

    async def scenario(plane: Plane) -> None:
        await plane.create(CSI_DRIVER, driver_body(name=NAME))
        await _volume(plane)
        await plane.create(POD, pod())
        await plane.create(POD, pod_body(name="other", node="node-1"))
        await plane.pass_time(120.0)
        assert await _phase(plane, "pod-1") == "Running"
        said = await plane.events_about("pod-1")
        why = "INTERNAL: {} does not work today"
        for line in (
            f'FailedAttachVolume: AttachVolume.Attach failed for volume "volume-1" : {why.format("attach")}',
            f'FailedMount: MountVolume.MountDevice failed for volume "data-0" : {why.format("stage")}',
            f'FailedMount: MountVolume.SetUp failed for volume "data-0" : {why.format("publish")}',
        ):
            assert line in said
        assert 'SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "volume-1" ' in said

    run_plane(parts(books), scenario)
    assert books.broken == []


def test_a_pod_goes_only_when_its_volume_is_unmounted() -> None:
    books = StrictState()

    async def scenario(plane: Plane) -> None:
        await plane.create(CSI_DRIVER, driver_body(name=NAME))
        await _volume(plane)
        await plane.create(POD, pod())
        await plane.pass_time()
        books.failures["unpublish"] = 5
        await plane.client.delete(POD, "pod-1", namespace="default")
        await plane.pass_time(1.0)
        assert (await plane.get(POD, "pod-1")).deleting
        await plane.pass_time(120.0)
        assert await plane.names(POD) == []

    run_plane(parts(books), scenario)
    assert books.broken == []


def test_a_pod_that_is_removed_by_force_leaves_nothing_behind() -> None:
    books = StrictState()

    async def scenario(plane: Plane) -> None:
        await plane.create(CSI_DRIVER, driver_body(name=NAME))
        await _volume(plane)
        await plane.create(POD, pod())
        await plane.pass_time()
        await plane.client.delete(POD, "pod-1", namespace="default", grace_seconds=0)
        await plane.pass_time()
        assert books.published == books.staged == books.attached == set()

    run_plane(parts(books), scenario)
    assert books.broken == []


def test_mounts_of_earlier_process_are_unmounted() -> None:
    books, notes = StrictState(), Notes()

    async def before(plane: Plane) -> None:
        await plane.create(CSI_DRIVER, driver_body(name=NAME))
        await _volume(plane)
        await plane.create(POD, pod())
        await plane.pass_time()

    async def after(plane: Plane) -> None:
        """Another API server: the pod was removed while the agent was away."""
        await plane.pass_time()

    run_plane(parts(books, notes), before)
    assert len(notes.kept) == len(books.published) == 1
    run_plane(parts(books, notes), after)
    assert notes.kept == {}
    assert books.published == books.staged == set()
    assert books.broken == []


def test_a_volume_for_one_node_waits_until_the_other_has_let_go() -> None:
    books = StrictState()

    async def scenario(plane: Plane) -> None:
        await plane.create(CSI_DRIVER, driver_body(name=NAME))
        await _volume(plane)
        await plane.create(POD, pod(name="first"))
        await plane.pass_time()
        await plane.create(POD, pod(name="second", node="node-2"))
        await plane.pass_time()
        assert await _phase(plane, "second") == "Pending"
        told = 'FailedAttachVolume: Multi-Attach error for volume "volume-1" Volume is already used by pod(s) first'
        assert told in await plane.events_about("second")
        await plane.client.delete(POD, "first", namespace="default")
        await plane.pass_time(130.0)
        assert await _phase(plane, "second") == "Running"

    run_plane(parts(books), scenario)
    assert books.broken == []


def test_inline_volume_is_unpublished_with_its_pod() -> None:
    books = StrictState()

    async def scenario(plane: Plane) -> None:
        await plane.create(CSI_DRIVER, driver_body(name=NAME))
        inline: Body = {"name": "scratch", "csi": {"driver": NAME, "volumeAttributes": {"size": "1Gi"}}}
        await plane.create(POD, pod_body(node="node-1", volumes=[inline]))
        await plane.pass_time()
        assert await _phase(plane, "pod-1") == "Running"
        [(node, handle, target)] = books.published
        assert (node, handle[:4]) == ("node-1", "csi-")
        assert target.endswith("/scratch/mount")
        assert books.contexts[handle]["size"] == "1Gi"
        assert books.staged == books.attached == set()
        await plane.client.delete(POD, "pod-1", namespace="default")
        await plane.pass_time()
        assert books.published == set()

    run_plane(parts(books), scenario)
    assert books.broken == []


def test_volumes_of_unknown_drivers_are_simulated() -> None:
    books = StrictState()

    async def scenario(plane: Plane) -> None:
        await _volume(plane, driver="other.example.com")
        await plane.create(POD, pod())
        await plane.pass_time()
        assert await _phase(plane, "pod-1") == "Running"
        assert books.published == set()

    run_plane(parts(books), scenario)


def test_drivers_are_listed_with_their_topology_and_limits() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.pass_time(5.0)
        drivers = (await plane.get(CSI_NODE, "node-1")).spec.drivers
        assert drivers is not None
        [driver] = drivers
        assert (driver.name, driver.node_id, driver.topology_keys) == (NAME, "id-of-node-1", ("example.com/node",))
        assert driver.allocatable is not None
        assert driver.allocatable.count == 5
        assert (await plane.get(NODE, "node-1")).metadata.labels["example.com/node"] == "node-1"

    run_plane(parts(StrictState(failures={"info": 2})), scenario)


def test_entries_of_others_stay_and_contradictions_are_named() -> None:
    info = NodeInfo("n", 0, Topology({"zone": "a"}))
    theirs = a_csi_node(limits={"other.example.com": 3})
    listed = node_objects.csi_node_drivers(theirs, {NAME: info})
    assert listed == [
        {"name": "other.example.com", "nodeID": "node-1", "allocatable": {"count": 3}},
        {"name": NAME, "nodeID": "n", "topologyKeys": ["zone"]},
    ]
    assert node_objects.missing_topology_labels(a_node(labels={"zone": "b"}), {NAME: info}) == {}
    [problem] = node_objects.topology_contradictions(a_node(labels={"zone": "b"}), {NAME: info})
    assert problem.startswith("detected topology value collision")


def test_the_volumes_of_a_pod_are_recorded_and_reported_together() -> None:
    books, notes, requests = StrictState(), Notes(), Counter[str]()
    inline: list[Body] = [{"name": name, "csi": {"driver": NAME}} for name in ("a", "b", "c")]

    async def scenario(plane: Plane) -> tuple[int, int]:
        await plane.create(CSI_DRIVER, driver_body(name=NAME))
        await plane.pass_time()
        before = requests["patch nodes"]
        await plane.create(POD, pod_body(node="node-1", volumes=inline))
        await plane.pass_time()
        assert len(notes.kept) == len(books.published) == 3
        mounted = requests["patch nodes"]
        await plane.client.delete(POD, "pod-1", namespace="default")
        await plane.pass_time()
        return mounted - before, requests["patch nodes"] - mounted

    client = partial(CountingClient, counted=requests)
    assert run_plane(parts(books, notes), scenario, client=client) == (1, 1)
    assert notes.kept == {}
