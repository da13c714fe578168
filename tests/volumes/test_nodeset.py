import numpy as np
import pytest

from mooring.volumes import nodeset


@pytest.mark.parametrize(
    "slots",
    [
        pytest.param([], id="nobody"),
        pytest.param([0], id="the first slot"),
        pytest.param([7, 8, 63, 64, 200], id="across bytes and words"),
    ],
)
def test_a_set_gives_back_its_slots_and_equals_its_mask(slots: list[int]) -> None:
    nodes = nodeset.of(slots)
    mask = np.zeros(201, dtype=np.bool_)
    mask[slots] = True

    assert list(nodeset.slots(nodes)) == slots
    assert nodeset.from_mask(mask) == nodes
