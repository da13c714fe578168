"""The page about fault runs names every fault there is."""

import re
from pathlib import Path
from typing import get_args

from mooring.sim import faults

PAGE = Path(__file__).parents[2] / "docs" / "fault-runs.md"


def test_every_fault_has_its_row() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert rows == {fault.__name__ for fault in get_args(faults.Fault)}
