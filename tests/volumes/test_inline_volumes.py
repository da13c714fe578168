"""Capacity for CSI inline volumes, where the driver reports it."""

import random

import pytest

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import StorageClass
from mooring.scheduler.cluster_events import capacity_event
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState, RejectionCode
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.inline_volumes import inline_requests, size_attributes
from mooring.volumes.state import ConflictReason
from support.builders import Body, a_capacity, a_class, a_driver, a_node, a_pod
from support.builders.drivers import DRIVER
from support.scheduler.snapshots import a_snapshot, rejected, requeues

pytestmark = pytest.mark.req("C21.counted")

NODES = [a_node(name=name) for name in ("n1", "n2")]
GI = 2**30


def inline(size: str, *, driver: str = DRIVER, attribute: str = "size") -> Body:
    return {"csi": {"driver": driver, "volumeAttributes": {attribute: size} if size else {}}}


def pod(*sizes: str, name: str = "pod-1", node: str = "", phase: str = "Pending", driver: str = DRIVER) -> Pod:
    volumes = [{"name": f"v{number}", **inline(size, driver=driver)} for number, size in enumerate(sizes)]
    return a_pod(name=name, volumes=volumes, node=node, phase=phase)


def opted_in(name: str = "fast", *, attribute: str = "size") -> StorageClass:
    notes = {well_known.INLINE_SIZE_ATTRIBUTE: attribute} if attribute else {}
    return a_class(name=name, provisioner=DRIVER, annotations=notes)


def free(node: str, capacity: str, *, largest: str | None = None, version: str = "1") -> ApiObject:
    topology = {"matchLabels": {well_known.HOSTNAME: node}}
    return a_capacity(
        name=f"of-{node}", storage_class="fast", topology=topology, capacity=capacity, largest=largest, version=version
    )


def snapshot(*more: ApiObject, tracked: bool = True, storage_class: StorageClass | None = None) -> Snapshot:
    driver = a_driver(tracks_capacity=tracked)
    chosen = storage_class or opted_in()
    return a_snapshot(*NODES, driver, chosen, free("n1", "10Gi"), free("n2", "3Gi", largest="2Gi"), *more)


def short(wanting: Pod, *more: ApiObject, **options: object) -> set[str]:
    found = rejected(VolumeBinding(), wanting, snapshot(*more, **options))  # type: ignore[arg-type]
    return found.get(ConflictReason.STORAGE_CAPACITY, set())


@pytest.mark.parametrize(
    ("sizes", "want"),
    [
        pytest.param(("1Gi",), set(), id="fits everywhere"),
        pytest.param(("5Gi",), {"n2"}, id="fits on one node"),
        pytest.param(("20Gi",), {"n1", "n2"}, id="fits nowhere"),
        pytest.param(("2Gi", "2Gi"), {"n2"}, id="two volumes count together"),
        pytest.param(("2.5Gi",), {"n2"}, id="larger than the largest volume"),
        pytest.param(("",), set(), id="without size"),
        pytest.param(("much",), set(), id="invalid size"),
    ],
)
def test_nodes_without_capacity_for_inline_volumes_are_rejected(sizes: tuple[str, ...], want: set[str]) -> None:
    assert short(pod(*sizes)) == want


def test_capacity_counts_only_where_the_driver_reports_it_and_a_class_opts_in() -> None:
    assert short(pod("20Gi"), tracked=False) == set()
    assert short(pod("20Gi"), storage_class=opted_in(attribute="")) == set()
    assert short(pod("20Gi", driver="other.example.com")) == set()
    assert short(pod("20Gi"), storage_class=opted_in(attribute="capacity")) == set()


def test_volumes_of_pods_that_start_on_a_node_are_counted_until_they_run() -> None:
    starting = pod("6Gi", name="starting", node="n1")
    assert short(pod("5Gi"), starting) == {"n1", "n2"}
    assert short(pod("4Gi"), starting) == {"n2"}
    assert short(pod("5Gi"), pod("6Gi", name="running", node="n1", phase="Running")) == {"n2"}


def test_assumed_pod_counts_until_it_is_removed() -> None:
    found, wanting = snapshot(), pod("5Gi")
    other = pod("6Gi", name="other")
    found.assume(other, "n1")
    assert not cycle.run_cycle(CycleState(wanting, found), DEFAULT, random.Random(0)).node
    found.forget(other)
    decision = cycle.run_cycle(CycleState(wanting, found), DEFAULT, random.Random(0))
    assert decision.node == "n1"
    [rejection] = [one for result in decision.filter_results for one in result.rejections]
    assert (rejection.code, rejection.resolvable) == (RejectionCode.STORAGE_CAPACITY, False)


def test_pod_is_requeued_when_a_driver_reports_more_capacity() -> None:
    before, after = free("n1", "10Gi"), free("n1", "30Gi", version="2")
    more, less = capacity_event(before, after), capacity_event(after, before)  # type: ignore[arg-type]
    assert requeues(VolumeBinding(), pod("20Gi"), more, opted_in())
    assert not requeues(VolumeBinding(), pod("20Gi"), less, opted_in())
    assert not requeues(VolumeBinding(), pod("20Gi", driver="other.example.com"), more, opted_in())


def test_size_attribute_of_the_first_class_of_a_driver_is_used() -> None:
    classes = size_attributes([opted_in("b", attribute="other"), opted_in("a"), opted_in("c", attribute="")])
    assert {driver: one.name for driver, one in classes.items()} == {DRIVER: "a"}
    assert [one.size for one in inline_requests(pod("1Gi", "2Gi"), classes)] == [GI, 2 * GI]
