"""Free storage as pods meet it: what they are told where there is none, and that it is promised once."""

from collections.abc import Callable

import numpy as np
import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, POD, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.pod_requirements import Requests
from mooring.api.quantity import QuantityError
from mooring.api.times import to_micro_time
from mooring.scheduler.component import FAILED, NOT_ENOUGH_STORAGE
from mooring.scheduler.snapshot.resources import MAX_DERIVED, ResourceColumns, Slots, Vector
from mooring.volumes.shortage import ACTION
from scheduler.test_component import with_scheduler
from support.builders import Body, capacity_body, claim_body, claim_ref, class_body, driver_body, pod_body, volume_body
from support.builders.drivers import DRIVER
from support.scheduler.cluster import SmallWorld


def test_columns_grow_in_both_directions() -> None:
    columns = ResourceColumns()
    columns.offer(1, {"cpu": "2"})
    columns.offer(500, {f"example.com/r{number}": str(number) for number in range(20)})

    assert columns.allocatable("cpu")[1] == 2000
    assert columns.allocatable("example.com/r19")[500] == 19
    assert columns.allocatable("example.com/r19")[1] == 0


def test_what_a_node_stops_offering_is_gone() -> None:
    columns = ResourceColumns()
    columns.offer(0, {"cpu": "2", "example.com/gpu": "1"})
    columns.offer(0, {"cpu": "1"})

    assert (columns.allocatable("cpu")[0], columns.allocatable("example.com/gpu")[0]) == (1000, 0)


def test_charges_are_taken_back_exactly() -> None:
    columns = ResourceColumns()
    requests = Requests({"cpu": 100, "example.com/gpu": 1}, scored_cpu=100, scored_memory=7)
    for sign in (1, 1, -1):
        columns.charge(3, requests, sign)

    assert [columns.requested(name)[3] for name in ("pods", "cpu", "example.com/gpu")] == [1, 100, 1]
    assert (columns.scored_cpu[3], columns.scored_memory[3]) == (100, 7)


def test_a_bad_amount_changes_nothing() -> None:
    columns = ResourceColumns()
    columns.offer(0, {"cpu": "2"})
    with pytest.raises(QuantityError):
        columns.offer(0, {"cpu": "1", "memory": "lots"})

    assert columns.allocatable("cpu")[0] == 2000


class CountedSum:
    """Requested and allocatable CPU added up, with the slots that each call was for."""

    def __init__(self, columns: ResourceColumns) -> None:
        self.columns = columns
        self.computed: list[list[int]] = []

    def __call__(self, slots: Slots) -> Vector:
        self.computed.append(np.arange(self.columns.width)[slots].tolist())
        return self.columns.allocatable("cpu")[slots] + self.columns.requested("cpu")[slots]

    def read(self) -> list[float]:
        return self.columns.derived("sum", self).tolist()


CPU_REQUEST = Requests({"cpu": 100}, scored_cpu=100, scored_memory=7)


def nominated(slot: int) -> ResourceColumns:
    columns = ResourceColumns()
    columns.charge(slot, CPU_REQUEST, 1)
    return columns


@pytest.mark.parametrize(
    ("change", "want", "computed"),
    [
        pytest.param(lambda columns: None, [1000, 2000, 0, 3000], [], id="nothing"),
        pytest.param(lambda columns: columns.charge(1, CPU_REQUEST, 1), [1000, 2100, 0, 3000], [[1]], id="pod"),
        pytest.param(lambda columns: columns.offer(0, {"cpu": "4"}), [4000, 2000, 0, 3000], [[0]], id="allocatable"),
        pytest.param(lambda columns: columns.clear(3), [1000, 2000, 0, 0], [[3]], id="node deleted"),
        pytest.param(
            lambda columns: columns.shift(nominated(2), 1), [1000, 2000, 100, 3000], [[2]], id="nominated pods"
        ),
        pytest.param(
            lambda columns: columns.offer(4, {"cpu": "1"}),
            [1000, 2000, 0, 3000, 1000],
            [[0, 1, 2, 3, 4]],
            id="new slot",
        ),
        pytest.param(
            lambda columns: [columns.charge(slot, CPU_REQUEST, sign) for slot in (0, 3, 0) for sign in (1, 1, -1)],
            [1200, 2000, 0, 3100],
            [[0, 3]],
            id="several changes of a slot",
        ),
    ],
)
def test_derived_vector_is_computed_again_where_columns_change(
    change: Callable[[ResourceColumns], object], want: list[float], computed: list[list[int]]
) -> None:
    columns = ResourceColumns()
    for slot, cpu in ((0, "1"), (1, "2"), (3, "3")):
        columns.offer(slot, {"cpu": cpu})
    derived = CountedSum(columns)
    derived.read()
    derived.computed.clear()
    change(columns)
    assert derived.read() == want
    assert derived.computed == computed


def test_derived_vectors_are_bounded() -> None:
    columns = ResourceColumns()
    columns.offer(0, {"cpu": "1"})
    derived = CountedSum(columns)
    for key in (*range(MAX_DERIVED), 0, MAX_DERIVED, 0, 1):
        columns.derived(key, derived)
    assert len(derived.computed) == MAX_DERIVED + 2, "the longest unused, 1, was dropped"


def test_resource_no_node_has_is_zero() -> None:
    assert not ResourceColumns().allocatable("example.com/unheard-of").any()


def report_capacity(world: SmallWorld, capacity: str, *, polled: float) -> None:
    """The driver on n1 reports so much, asked at that time."""
    body = capacity_body(
        topology={},
        capacity=capacity,
        largest=capacity,
        annotations={well_known.CAPACITY_POLLED_AT: to_micro_time(polled)},
    )
    if world.api.list(STORAGE_CAPACITY):
        world.change(STORAGE_CAPACITY, "capacity-1", body)
    else:
        world.put(STORAGE_CLASS, class_body(name="made", provisioner=DRIVER))
        world.put(CSI_DRIVER, driver_body(tracks_capacity=True))
        world.put(STORAGE_CAPACITY, body)


def make_volume(world: SmallWorld, claim: str, *, created: float) -> None:
    """What provisioner and PV controller do for a claim."""
    body = world.body(CLAIM, claim)
    notes = {well_known.VOLUME_CREATED_AT: to_micro_time(created)}
    reference = claim_ref(name=claim, uid=body["metadata"]["uid"])
    size = body["spec"]["resources"]["requests"]["storage"]
    source = {"csi": {"driver": DRIVER, "volumeHandle": claim}}
    name = f"for-{claim}"
    world.put(
        VOLUME,
        volume_body(
            name=name,
            size=size,
            storage_class="made",
            source=source,
            claim_ref=reference,
            annotations=notes,
            phase="Bound",
        ),
    )
    world.finish_binding(claim, name)


@pytest.mark.req("C12.figures")
def test_insufficient_storage_event_contains_figures() -> None:
    async def scenario(world: SmallWorld) -> None:
        report_capacity(world, "10Gi", polled=1.0)
        world.put(CLAIM, claim_body(storage_class="made", size="20Gi"))
        world.put(POD, pod_body(claims=["claim-1"]))
        await world.settle()
        assert world.recorder.messages(FAILED) == [
            "0/1 nodes are available: 1 node(s) did not have enough free storage."
        ]
        told = f"asked for: claim-1 20Gi of class made; free: everywhere (10Gi). {ACTION}"
        assert world.recorder.messages(NOT_ENOUGH_STORAGE) == [told]

    with_scheduler(scenario, "n1")


@pytest.mark.req("C16.in-flight", "C16.end")
def test_capacity_is_reserved_once_and_reused() -> None:
    async def scenario(world: SmallWorld) -> None:
        report_capacity(world, "10Gi", polled=1.0)
        for name in ("a", "b"):
            world.put(CLAIM, claim_body(name=name, storage_class="made", size="6Gi"))
            world.put(POD, pod_body(name=name, claims=[name]))
        await world.settle()
        first, second = ("a", "b") if well_known.SELECTED_NODE in annotations(world, "a") else ("b", "a")
        assert well_known.SELECTED_NODE not in annotations(world, second), "there is room for one"
        make_volume(world, first, created=2.0)
        await world.settle(5.0)
        assert world.node_of(first) == "n1"
        report_capacity(world, "10Gi", polled=1.5)
        await world.settle(60.0)
        assert well_known.SELECTED_NODE not in annotations(world, second), (
            "the driver was asked before the volume was made"
        )

        report_capacity(world, "10Gi", polled=3.0)
        await world.settle(1.0)
        assert annotations(world, second)[well_known.SELECTED_NODE] == "n1", "the pool was enlarged"

    with_scheduler(scenario, "n1")


@pytest.mark.req("C16.in-flight")
def test_capacity_of_failed_provisioning_requeues_pods() -> None:
    async def scenario(world: SmallWorld) -> None:
        report_capacity(world, "10Gi", polled=1.0)
        world.put(CLAIM, claim_body(name="other", storage_class="made", size="6Gi", selected_node="n1"))
        world.put(CLAIM, claim_body(storage_class="made", size="6Gi"))
        world.put(POD, pod_body(claims=["claim-1"]))
        await world.settle(20.0)
        assert well_known.SELECTED_NODE not in annotations(world, "claim-1")
        world.change(CLAIM, "other", {"metadata": {"annotations": {well_known.SELECTED_NODE: None}}})
        await world.settle()
        assert annotations(world, "claim-1")[well_known.SELECTED_NODE] == "n1"

    with_scheduler(scenario, "n1")


def annotations(world: SmallWorld, claim: str) -> Body:
    return world.body(CLAIM, claim)["metadata"].get("annotations", {})
