"""Random small clusters given to the real kube-scheduler and to ours: the same pods find a node, and the others are
told the same, but for what `docs/differences.md` lists. `MOORING_DIFFERENTIAL_SEEDS=FIRST-LAST` for more."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from conformance.both_schedulers import Stage, our_scheduler
from conformance.control_plane import ControlPlane
from conformance.random_clusters import draw, priority_classes
from mooring.api.kinds import PRIORITY_CLASS
from mooring.client.http import HttpClient

SEEDS: Final = os.environ.get("MOORING_DIFFERENTIAL_SEEDS", "1-16")


def seeds() -> Iterator[int]:
    first, _, last = SEEDS.partition("-")
    return iter(range(int(first), int(last or first) + 1))


def configuration(kube: ControlPlane, folder: Path) -> Path:
    """kube-scheduler as it comes, without devices, which ours has not, and without a client's own limits."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kube.kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}}],
    }
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


async def test_both_schedulers_say_the_same(kube: ControlPlane, client: HttpClient, tmp_path: Path) -> None:
    for body in priority_classes():
        await client.create(PRIORITY_CLASS, body)
    different: list[str] = []
    pods = 0
    with kube.scheduler(f"--config={configuration(kube, tmp_path)}"):
        async with our_scheduler(client) as informers:
            for seed in seeds():
                cluster = draw(seed)
                stage = Stage(client, informers, cluster)
                await stage.set_up()
                try:
                    different += [f"seed {seed}: {one}" for one in await stage.differences()]
                finally:
                    await stage.clear()
                pods += len(cluster.waiting)
    assert pods
    assert not different, "\n".join([f"{len(different)} of {pods} pods differ", *different])
