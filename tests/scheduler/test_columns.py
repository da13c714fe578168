import pytest

from mooring.api.pod_requests import Requests
from mooring.api.quantity import QuantityError
from mooring.scheduler.columns import ResourceColumns


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


def test_a_resource_nobody_has_is_zero() -> None:
    assert not ResourceColumns().allocatable("example.com/unheard-of").any()
