"""CSI volumes from attachment to the last unstage, against the real API server and a driver that keeps its books."""

from functools import partial
from pathlib import Path

import pytest

from builders import Body, a_csi_node, a_node, claim_body, claim_ref, driver_body, pod_body, volume_body
from mooring.api import keys
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, NODE, POD, VOLUME, VOLUME_ATTACHMENT
from mooring.api.patches.contract import MergePatch
from mooring.control.component import Component, Context
from mooring.csi.contract import NodeInfo, Topology
from mooring.nodeagent import csi_registration
from mooring.nodeagent.attacher import Attacher
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.csi_mounts import Mount
from mooring.nodeagent.ground import Folders, Memory
from mooring.nodeagent.rows import NodeRow
from mooring.workloads.attach_controller import AttachController
from nodeagent.strict_driver import NAME, Books, StrictController, StrictNode
from partial_plane import Build, Plane, flaky, run_plane

NODES = ("node-1", "node-2")


class Notes(Memory):
    """What is remembered outlives the agent."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Mount] = {}

    def remembered(self) -> list[Mount]:
        return list(self.kept.values())

    def remember(self, mount: Mount) -> None:
        self.kept[mount.pod, mount.name] = mount

    def forget(self, mount: Mount) -> None:
        self.kept.pop((mount.pod, mount.name), None)


def parts(books: Books, notes: Notes | None = None) -> list[Build]:
    drivers = {node: {NAME: StrictNode(books, node, limit=5)} for node in NODES}

    def agent(context: Context) -> Component:
        return NodeAgent(context, [NodeRow(node) for node in NODES], drivers=drivers, ground=notes)

    def attacher(context: Context) -> Component:
        return Attacher(context, NAME, StrictController(books))  # type: ignore[arg-type]  # the two calls it makes

    return [agent, attacher, AttachController]


async def _volume(plane: Plane, *, driver: str = NAME) -> None:
    """A claim and its volume, bound as the PV controller leaves them."""
    claim = await plane.create(CLAIM, claim_body())
    csi = {"driver": driver, "volumeHandle": "disk-1", "volumeAttributes": {"pool": "fast"}}
    reference = claim_ref(name=claim.name, uid=claim.uid)
    await plane.create(VOLUME, volume_body(source={"csi": csi}, claim_ref=reference))
    bound = {"metadata": {"annotations": {keys.BIND_COMPLETED: keys.YES}}, "spec": {"volumeName": "volume-1"}}
    await plane.client.patch(CLAIM, claim.name, MergePatch(bound), namespace="default")
    phase = MergePatch({"status": {"phase": "Bound"}})
    await plane.client.patch(CLAIM, claim.name, phase, namespace="default", subresource="status")


pod = partial(pod_body, node="node-1", claims=["claim-1"])


async def _phase(plane: Plane, name: str) -> str:
    return (await plane.get(POD, name)).status.phase


@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.3, id="with lost answers")])
def test_a_volume_is_attached_staged_published_and_all_of_it_undone(share: float) -> None:
    books = Books()

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


def test_what_the_driver_refuses_is_told_and_tried_again() -> None:
    books = Books(failures={"attach": 2, "stage": 2, "publish": 2})

    async def scenario(plane: Plane) -> None:
        await plane.create(CSI_DRIVER, driver_body(name=NAME))
        await _volume(plane)
        await plane.create(POD, pod())
        await plane.create(POD, pod_body(name="other", node="node-1"))
        await plane.pass_time(120.0)
        assert await _phase(plane, "pod-1") == "Running"
        said = await plane.said("pod-1")
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
    books = Books()

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
    books = Books()

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


def test_what_was_mounted_before_a_restart_is_taken_away_after_it() -> None:
    books, notes = Books(), Notes()

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
    books = Books()

    async def scenario(plane: Plane) -> None:
        await plane.create(CSI_DRIVER, driver_body(name=NAME))
        await _volume(plane)
        await plane.create(POD, pod(name="first"))
        await plane.pass_time()
        await plane.create(POD, pod(name="second", node="node-2"))
        await plane.pass_time()
        assert await _phase(plane, "second") == "Pending"
        told = 'FailedAttachVolume: Multi-Attach error for volume "volume-1" Volume is already used by pod(s) first'
        assert told in await plane.said("second")
        await plane.client.delete(POD, "first", namespace="default")
        await plane.pass_time(130.0)
        assert await _phase(plane, "second") == "Running"

    run_plane(parts(books), scenario)
    assert books.broken == []


def test_an_inline_volume_lives_with_its_pod() -> None:
    books = Books()

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


def test_volumes_of_drivers_that_are_not_there_are_only_played() -> None:
    books = Books()

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

    run_plane(parts(Books(failures={"info": 2})), scenario)


def test_entries_of_others_stay_and_contradictions_are_named() -> None:
    info = NodeInfo("n", 0, Topology({"zone": "a"}))
    theirs = a_csi_node(limits={"other.example.com": 3})
    listed = csi_registration.listed(theirs, {NAME: info})
    assert listed == [
        {"name": "other.example.com", "nodeID": "node-1", "allocatable": {"count": 3}},
        {"name": NAME, "nodeID": "n", "topologyKeys": ["zone"]},
    ]
    assert csi_registration.labels(a_node(labels={"zone": "b"}), {NAME: info}) == {}
    [problem] = csi_registration.contradictions(a_node(labels={"zone": "b"}), {NAME: info})
    assert problem.startswith("detected topology value collision")


def test_folders_remember(tmp_path: Path) -> None:
    ground = Folders(tmp_path)
    mount = Mount("node-1", "uid", "data", NAME, "disk-1", f"{tmp_path}/node-1/pods/uid/mount", f"{tmp_path}/stage")
    ground.remember(mount)
    assert Folders(tmp_path).remembered() == [mount]
    assert (tmp_path / "node-1/pods/uid").is_dir()
    assert (tmp_path / "stage").is_dir()
    ground.forget(mount)
    ground.forget(mount)
    assert Folders(tmp_path).remembered() == []
