"""An informer on a bad line to the embedded server."""

import random
from pathlib import Path

from mooring.client import kubeconfig
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.embedded import Settings, serving
from support.network.faulty_proxy import check_informer_under_cuts


async def test_the_cache_ends_up_right_and_no_version_is_seen_out_of_order(tmp_path: Path) -> None:
    settings = Settings(Layout(nodes=0), port=0, data_dir=None, kubeconfig=tmp_path / "kubeconfig")
    async with serving(settings, clock=SystemClock(), rng=random.Random(1)) as cluster:
        await check_informer_under_cuts(kubeconfig.from_files([cluster.kubeconfig]), writers=6)
