"""What the coordinator costs: nothing that grows with the cluster, and no pod waits for another."""

import asyncio
from collections import Counter

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, POD, VOLUME, VOLUME_ATTACHMENT, Kind
from mooring.client.contract import V
from mooring.cluster.local_client import LocalClient
from mooring.control.workqueue import KeyedLocks
from mooring.coordinator.component import Coordinator
from mooring.volumes.binding import HoldState
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders import attachment_body, claim_body, node_body, pod_body
from support.builders.held_pods import Group
from support.partial_control_plane import Plane, run_plane
from support.partial_control_plane.counting import CountingClient, scanned


async def hold_pods(group: Group, pods: int) -> list[str]:
    """Pods with two claims each, for which everything is made; the names of the claims."""
    names = [f"{letter}{number}" for number in range(pods) for letter in "ab"]
    for name in names:
        await group.plane.create(CLAIM, claim_body(name=name, storage_class="fast"))
    for number in range(pods):
        await group.plane.create(POD, pod_body(name=f"p{number}", claims=(f"a{number}", f"b{number}")))
    for name in names:
        await group.select(name, "n1")
        await group.hold(name, "n1")
    return names


def cost(monkeypatch: pytest.MonkeyPatch, *, pods: int, attachments: int) -> tuple[Counter[str], Counter[str]]:
    """Requests, and objects looked at in caches, until the volumes of all pods are committed."""
    requests: Counter[str] = Counter()

    async def scenario(plane: Plane) -> Counter[str]:
        group = Group(plane)
        await group.begin()
        for number in range(attachments):
            body = attachment_body(name=f"va-{number}", volume=f"other-{number}", node="n2")
            await plane.create(VOLUME_ATTACHMENT, body)
        await plane.pass_time(1.0)
        with monkeypatch.context() as patched:
            seen = scanned(patched)
            requests.clear()
            for name in await hold_pods(group, pods):
                await group.becomes(name, HoldState.COMMITTED, within=5.0)
            return seen

    seen = run_plane([Coordinator], scenario, client=lambda api, user: CountingClient(api, user, requests))
    return requests, seen


def test_cost_of_a_verdict_does_not_grow_with_the_attachments(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (cost(monkeypatch, pods=2, attachments=number) for number in (20, 40))
    assert few == many
    assert not few[1][VOLUME_ATTACHMENT.plural], "attachments are looked up by volume"


def test_requests_grow_with_the_pods_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (sum(cost(monkeypatch, pods=number, attachments=0)[0].values()) for number in (4, 8))
    assert many <= 2 * few


class SlowVolume(LocalClient):
    """One volume takes long to read."""

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        if kind is VOLUME and name == "pv-a0":
            await asyncio.sleep(100.0)
        return await super().get(kind, name, namespace=namespace)


def test_slow_reads_of_one_pod_do_not_delay_others() -> None:
    async def scenario(plane: Plane) -> None:
        group = Group(plane)
        await group.begin()
        await hold_pods(group, 2)
        await group.becomes("a1", HoldState.COMMITTED, within=2.0)
        await group.becomes("b1", HoldState.COMMITTED, within=2.0)
        assert await group.state("a0") is HoldState.HELD
        await group.becomes("a0", HoldState.COMMITTED, within=500.0)

    run_plane([Coordinator], scenario, client=SlowVolume)


def test_keyed_locks_exclude_overlapping_groups_only_and_forget() -> None:
    locks: KeyedLocks[str] = KeyedLocks()
    entered: list[str] = []

    async def enter(name: str, keys: str, clock: VirtualClock) -> None:
        async with locks.holding(keys):
            entered.append(f"{name} in")
            await clock.sleep(1.0)
            entered.append(f"{name} out")

    async def main(clock: VirtualClock) -> None:
        async with asyncio.TaskGroup() as group:
            for name, wanted in (("first", "ab"), ("second", "cb"), ("third", "de")):
                group.create_task(enter(name, wanted, clock))
        cancelled = asyncio.create_task(enter("last", "a", clock))
        await clock.sleep(0.1)
        cancelled.cancel()
        await asyncio.wait((cancelled,))

    virtual_time.run_in_virtual_time(main)
    assert entered.index("first out") < entered.index("second in")
    assert entered.index("third in") < entered.index("first out")
    assert len(locks) == 0


ZONE = "topology.ebs.csi.aws.com/zone"


@pytest.mark.parametrize("migrated", [pytest.param(True, id="driver"), pytest.param(False, id="in-tree")])
def test_in_tree_disk_is_reached_by_the_labels_of_the_driver_that_took_it_over(migrated: bool) -> None:
    """A node that leaves EBS disks to the driver has the driver's label for zones, perhaps without the general one."""

    async def scenario(plane: Plane) -> None:
        group = Group(plane)
        await group.begin()
        labels = {ZONE: "zone-a"} if migrated else {well_known.ZONE: "zone-a"}
        await plane.create(NODE, node_body(name="n3", labels=labels))
        notes = {well_known.MIGRATED_PLUGINS: "kubernetes.io/aws-ebs"} if migrated else {}
        await plane.create(CSI_NODE, {"metadata": {"name": "n3", "annotations": notes}, "spec": {"drivers": []}})
        for name in "ab":
            await group.select(name, "n3")
            await group.hold(name, "n3", zone="zone-a")
        for name in "ab":
            await group.becomes(name, HoldState.COMMITTED, within=5.0)

    run_plane([Coordinator], scenario)
