"""`mooring simulate` says what then happens in the embedded cluster: random clusters and changes, predicted and made.

The clusters and changes of `tests/sim/whatif/test_predictions.py`, fewer of them, in real time and through the API over
HTTP. Left out is the node that is added: the hostpath driver has pools on the nodes that the cluster began with.
"""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from e2e.embedded import embedded
from mooring.api.kinds import LEASE
from mooring.hostpath.layout import Pool
from mooring.sim.whatif.inventory import KINDS
from sim.whatif import predictions
from sim.whatif.predictions import FAST, GI, SLOW, Case

CHANGES: Final = 3
#: In these no two nodes are equally good and one pod waits at most, so that the prediction has to be exact; workloads
#: arrive and are scaled up and down, and nodes are drained.
SEEDS: Final = (0, 3, 7)
POOLS: Final = (Pool("fast", FAST * GI), Pool("slow", SLOW * GI))


async def carried_out(seed: int, kubeconfig: Path) -> list[Case]:
    drawn = predictions.Drawn(seed)
    async with embedded(kubeconfig, drawn.layout, POOLS, (*KINDS, LEASE)) as cluster:
        return await drawn.cases(cluster, CHANGES, joining=False)


def test_what_is_predicted_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All clusters at once: most of the time each of them waits."""

    async def main() -> list[list[Case]]:
        return await asyncio.gather(*(carried_out(seed, tmp_path / str(seed)) for seed in SEEDS))

    draws = predictions.Draws(monkeypatch)
    found = [case for cases in asyncio.run(main()) for case in cases]
    assert len(found) == CHANGES * len(SEEDS)
    assert all(predictions.compare(case, draws) for case in found)
