"""Supplies of a group compared with counting volume by volume and segment by segment."""

import random
from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest

from mooring.volumes.capacity import CapacitySegment
from mooring.volumes.group import supply as module
from mooring.volumes.group.outcome import ShortageCode
from mooring.volumes.group.supply import CapacityStock, Limit, SlotCache, Supply, VolumeStock
from mooring.volumes.topology import NodeSet, node_set_of, slots_of

pytestmark = pytest.mark.req("G1.certificate")

WIDTH = 12


def empty() -> Supply:
    return Supply(WIDTH, SlotCache(), np.zeros(WIDTH, dtype=np.int64))


def some_nodes(rng: random.Random) -> NodeSet:
    return node_set_of(rng.sample(range(WIDTH), rng.choice((0, 1, 1, 2, 5))))


def reached(supply: Supply) -> list[int]:
    """By slot, the units that the node reaches."""
    wide = Counter[int]()
    for nodes, units in supply.wide:
        wide.update(dict.fromkeys(slots_of(nodes), units))
    return [int(supply.local[slot]) + wide[slot] for slot in range(WIDTH)]


@pytest.mark.parametrize("seed", range(20))
def test_volumes_are_counted_where_they_are_reached(seed: int) -> None:
    rng = random.Random(seed)
    # Sizes are in nano units: more than 64 bits have.
    groups = [(some_nodes(rng), sorted(rng.choices(range(6), k=rng.randint(1, 4)))) for _ in range(8)]
    stock = VolumeStock([(nodes, [size * 10**19 for size in sizes]) for nodes, sizes in groups], WIDTH)
    for size in range(7):
        for factor in (1, 3):
            supply = empty()
            stock.add_to(supply, size * 10**19, factor)
            want = [
                factor * sum(one >= size for nodes, sizes in groups if nodes >> slot & 1 for one in sizes)
                for slot in range(WIDTH)
            ]
            assert reached(supply) == want
        listed = Counter(one for place in stock.places(size * 10**19) for one in [place.nodes] * place.units)
        assert listed == Counter(nodes for nodes, sizes in groups if nodes for one in sizes if one >= size)


def test_more_units_than_sums_hold_do_not_limit() -> None:
    stock, supply = VolumeStock([(0b1, [1]), (0b110, [1])], WIDTH), empty()
    stock.add_to(supply, 1, 2**60)
    assert supply.unlimited == 0b111
    assert not any(reached(supply))


def some_segment(rng: random.Random) -> CapacitySegment:
    limit, free = rng.choice((0, 4, 9)), rng.choice((0, 5, 9, 30))
    return CapacitySegment("key", "class", None, limit, free, True, None, rng.choice((0, 3)), rng.random() < 0.8)


@pytest.mark.parametrize("seed", range(20))
def test_capacity_is_counted_segment_by_segment(seed: int) -> None:
    rng = random.Random(seed)
    segments = [(some_segment(rng), some_nodes(rng)) for _ in range(8)]
    stock = CapacityStock(segments, WIDTH)
    for size in (0, 1, 4, 5, 10):
        supply, unlimited, want = empty(), 0, [0] * WIDTH
        stock.add_volumes(supply, size)
        for segment, nodes in segments:
            if segment.limit < size:
                continue
            if not segment.additive or not size:
                unlimited |= nodes
                continue
            for slot in slots_of(nodes):
                want[slot] += max(segment.left // size, int(segment.available_to_one_volume >= size))
        assert (supply.unlimited, reached(supply)) == (unlimited, want)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_are_counted_segment_by_segment(seed: int) -> None:
    rng = random.Random(seed)
    segments = [(some_segment(rng), some_nodes(rng)) for _ in range(8)]
    supply, unlimited, want = empty(), 0, [0] * WIDTH
    CapacityStock(segments, WIDTH).add_bytes(supply)
    for segment, nodes in segments:
        if not segment.additive:
            unlimited |= nodes
            continue
        for slot in slots_of(nodes):
            want[slot] += max(segment.left, segment.available_to_one_volume)
    assert (supply.unlimited, reached(supply)) == (unlimited, want)


@pytest.mark.parametrize("seed", range(20))
def test_many_supplies_that_overlap_are_joined_as_few_are(seed: int) -> None:
    rng = random.Random(seed)
    supply = empty()
    for _ in range(6):
        nodes = node_set_of(rng.sample(range(WIDTH), rng.choice((2, 3))))
        supply.add(nodes, rng.randint(1, 5))
    limit = Limit(ShortageCode.VOLUMES, "class", supply, rng.choice((1, 2)))
    caps = np.array(rng.choices(range(4), k=WIDTH), dtype=np.int64)
    domain = node_set_of(rng.sample(range(WIDTH), 8))
    most = limit.most_members(caps, domain, 1000)
    with patch.object(module, "_MAX_COMPARED", 0):
        assert limit.most_members(caps, domain, 1000) == most
    assert [limit.most_members(caps, domain, enough) for enough in range(most + 2)] == [*range(most + 1), most]
