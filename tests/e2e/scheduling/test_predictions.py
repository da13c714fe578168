"""Predictions of `mooring simulate` match the embedded cluster, for random clusters and changes.

The clusters and changes of `tests/whatif/test_predictions.py`, fewer of them, in real time and through the API over
HTTP. An added node is left out: the hostpath driver has pools only on the initial nodes.
"""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from mooring.api.kinds import LEASE
from mooring.hostpath.records import Pool
from mooring.whatif.inventory import KINDS
from support.e2e.embedded import embedded
from support.whatif import predictions
from support.whatif.predictions import FAST, GI, SLOW, Case

pytestmark = pytest.mark.slow

CHANGES: Final = 3
#: In these no two nodes have equal scores and at most one pod is pending, so the prediction must be exact; workloads
#: are created and scaled up and down, and nodes are drained.
SEEDS: Final = (0, 3, 7)
POOLS: Final = (Pool("fast", FAST * GI), Pool("slow", SLOW * GI))


async def carried_out(seed: int, kubeconfig: Path) -> list[Case]:
    drawn = predictions.Drawn(seed)
    async with embedded(kubeconfig, drawn.layout, POOLS, (*KINDS, LEASE)) as cluster:
        return await drawn.cases(cluster, CHANGES, joining=False)


def test_predictions_match_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All clusters concurrently: most of the time each of them waits."""

    async def main() -> list[list[Case]]:
        return await asyncio.gather(*(carried_out(seed, tmp_path / str(seed)) for seed in SEEDS))

    draws = predictions.Draws(monkeypatch)
    found = [case for cases in asyncio.run(main()) for case in cases]
    assert len(found) == CHANGES * len(SEEDS)
    assert all(predictions.compare(case, draws) for case in found)
