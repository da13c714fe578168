"""Cost of one decision by cluster size: nodes, local volumes, claims, capacity objects, running pods.

    python -m bench.scheduler_growth [--decisions N] [--largest N] [--figure docs/figures/scheduler-growth.svg]

Each line changes one thing and keeps the others: 5,000 nodes unless the number of nodes varies. A decision is
everything between taking a pod from the queue and starting to bind it. Prints the median in microseconds, and draws it.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.scheduling_cycle import a_cluster, a_pod, apart, seconds_per_decision, view
from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, STORAGE_CAPACITY, STORAGE_CLASS
from mooring.api.views.pods import Pod
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot

NODES = 5000
STEPS = (1_000, 3_000, 10_000, 30_000, 100_000)
DRIVER = "csi.example.com"


class Line(NamedTuple):
    """One dimension that grows, and the cost of a decision about one kind of pod."""

    grows: str
    pod: str
    steps: Sequence[int]
    cluster: Callable[[int], Snapshot]
    asked: Pod


def mounting(*claims: str) -> list[dict[str, Any]]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def with_claims(count: int) -> Snapshot:
    """This many other claims, each bound to its own volume."""
    snapshot = a_cluster(NODES, 10_000)
    notes = {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}
    for number in range(count):
        name = f"bound-{number:06}"
        spec = {"storageClassName": "local", "volumeName": f"of-{name}", "accessModes": ["ReadWriteOnce"]}
        body = {"spec": spec, "status": {"phase": "Bound"}}
        claim = view(CLAIM, name, "default", **body)
        claim.metadata.annotations.update(notes)
        snapshot.volumes.observe_claim(None, claim)
    return snapshot


def with_capacity(count: int) -> Snapshot:
    """An object for every node and class, with as many classes as needed; additive capacity."""
    snapshot = a_cluster(NODES, 0)
    snapshot.volumes.observe_driver(None, view(CSI_DRIVER, DRIVER, spec={"storageCapacity": True}))
    for number in range(count):
        node, of_class = number % NODES, f"made-{number // NODES}"
        if not node:
            late = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
            snapshot.volumes.observe_class(None, view(STORAGE_CLASS, of_class, **late))
        room = {
            "storageClassName": of_class,
            "nodeTopology": {"matchLabels": {well_known.HOSTNAME: f"node-{node:05}"}},
            "capacity": f"{20 + number % 20}Gi",
            "maximumVolumeSize": "20Gi",
        }
        snapshot.volumes.observe_capacity(None, view(STORAGE_CAPACITY, f"capacity-{number}", "driver", **room))
    for name in ("made-a", "made-b"):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "made-0",
            "resources": {"requests": {"storage": "5Gi"}},
        }
        snapshot.volumes.observe_claim(None, view(CLAIM, name, "default", spec=spec, status={"phase": "Pending"}))
    return snapshot


def with_pods(count: int) -> Snapshot:
    """Running pods of fifty workloads, some with anti-affinity or spread constraints."""
    snapshot = a_cluster(NODES, 0)
    for number in range(count):
        app = f"app-{number % 50}"
        extra: dict[str, object] = {"affinity": apart(app)} if number % 5 == 0 else {}
        pod = view_pod(f"running-{number}", app, nodeName=f"node-{number % NODES:05}", **extra)
        snapshot.observe_pod(None, pod)
    return snapshot


def view_pod(name: str, app: str, **spec: object) -> Pod:
    pod = a_pod(name, **spec)
    pod.metadata.labels["app"] = app
    return pod


def choosy() -> Pod:
    """Has anti-affinity to its own app, affinity to another, and is spread over zones."""
    near = {"topologyKey": well_known.ZONE, "labelSelector": {"matchLabels": {"app": "app-7"}}}
    affinity = dict(apart("app-3"))
    affinity["podAffinity"] = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": near}]
    }
    spread = [
        {
            "topologyKey": key,
            "maxSkew": 100,
            "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": "app-4"}},
        }
        for key, when in ((well_known.ZONE, "DoNotSchedule"), (well_known.HOSTNAME, "ScheduleAnyway"))
    ]
    return view_pod("choosy", "app-4", affinity=affinity, topologySpreadConstraints=spread)


def lines(largest: int) -> Iterable[Line]:
    steps = [step for step in STEPS if step <= largest]
    stateful = a_pod(volumes=mounting("small", "large"))
    nodes = [step for step in (500, 1_000, 2_000, 5_000, 10_000) if step <= largest]
    yield Line("nodes", "without volumes", nodes, lambda count: a_cluster(count, 0), a_pod())
    yield Line("nodes", "two late-bound claims", nodes, lambda count: a_cluster(count, 2 * count), stateful)
    yield Line("local volumes", "two late-bound claims", steps, lambda count: a_cluster(NODES, count), stateful)
    yield Line("claims", "two late-bound claims", steps, with_claims, stateful)
    made = a_pod(volumes=mounting("made-a", "made-b"))
    yield Line("capacity objects", "two volumes to be made", steps, with_capacity, made)
    pods = [step for step in (1_000, 10_000, 50_000) if step <= largest]
    yield Line("running pods", "affinity and spread", pods, with_pods, choosy())


def main() -> None:
    arguments = argparse.ArgumentParser(description="Cost of a decision as the cluster grows.")
    arguments.add_argument("--decisions", type=int, default=200)
    arguments.add_argument("--largest", type=int, default=STEPS[-1])
    arguments.add_argument("--figure", type=Path, help="where to draw it")
    given = arguments.parse_args()
    measured: list[tuple[Line, list[float]]] = []
    for line in lines(given.largest):
        costs: list[float] = []
        for step in line.steps:
            cost = seconds_per_decision(line.cluster(step), line.asked, DEFAULT, given.decisions) * 1e6
            costs.append(cost)
            print(f"{step:8} {line.grows:18} {line.pod:24} {cost:7.0f} µs", flush=True)
        measured.append((line, costs))
    if given.figure:
        draw(measured, given.figure)


def draw(measured: Sequence[tuple[Line, list[float]]], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    # Text stays text, and the same figures make the same file.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mooring", "font.size": 9})
    from matplotlib import pyplot as plt

    grown = list(dict.fromkeys(line.grows for line, _ in measured))
    figure, axes = plt.subplots(1, len(grown), figsize=(3.1 * len(grown), 2.8), sharey=True, layout="constrained")
    for axis, grows in zip(axes, grown, strict=True):
        for line, costs in measured:
            if line.grows == grows:
                axis.plot(line.steps, costs, marker="o", markersize=3, label=line.pod)
        axis.set_xscale("log")
        axis.set_xlabel(grows)
        axis.grid(visible=True, alpha=0.3)
        axis.legend(fontsize=7, frameon=False)
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("µs per decision")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
