"""Scoring policies for volumes: what fits, what stays usable, and what a lost node costs.

    python -m bench.scoring_policies [--nodes N ...] [--seeds N] [-o table|json] [--figure FILE.svg]

Each policy decides the same pods, one after the other, with the whole default profile, so that resources and the
spreading of replicas count as they do in a cluster: three workloads (uniform sizes, mixed sizes, churn) on three kinds
of storage (existing volumes, provisioned volumes, half of each). docs/decisions/0010-volume-scoring.md is made of these
figures; `bench.simulated_volume_workloads` confirms them in the simulated world.
"""

import argparse
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Final

import msgspec

from bench.volume_workloads import Request, Storage, StorageNodes, Workload, requests
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.registry import DEFAULT, KUBE_SCHEDULER
from mooring.volumes.scoring import CapacityPolicy, UtilizationShape, UtilizationShapePoint

FULLEST_FIRST: Final = UtilizationShape((UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10)))

#: GiB of a large volume. A pod with two of them is what a fragmented cluster rejects first.
LARGE: Final = 80
#: Share of all storage that pods have requested when fragmentation and lost nodes are measured. Existing volumes are
#: larger than the claims they serve, so less of them can be requested.
LOAD: Final = {Storage.EXISTING: 0.35, Storage.PROVISIONED: 0.75, Storage.BOTH: 0.55}
#: The part of LOAD at which the fullest node is looked at first: long before storage is short.
EARLY: Final = 1 / 3
#: As LOAD for churn, where it is kept while pods come and go.
CHURN_LOAD: Final = {Storage.EXISTING: 0.50, Storage.PROVISIONED: 0.85, Storage.BOTH: 0.65}
#: How often every pod is replaced, on average.
TURNOVER: Final = 1
#: Nodes that are lost, one at a time, beside the fullest.
LOST_NODES: Final = 2
#: Shares of all storage at which the rejected share of what was requested so far is drawn.
MARKS: Final = tuple(share / 20 for share in range(6, 21))


def with_volume_binding(binding: VolumeBinding, **weights: int) -> Profile:
    plugins = (binding if plugin.name == binding.name else plugin for plugin in DEFAULT.plugins)
    return Profile(plugins, weights=weights)


#: By name as shown. "none" is kube-scheduler's default up to 1.36, "kube-scheduler" that of 1.37, "reversed" the same
#: with a shape that prefers full pools and close fits. Weights are the policies' own.
POLICIES: Final[Mapping[str, Profile]] = {
    "none": with_volume_binding(VolumeBinding(), VolumeBinding=0),
    "kube-scheduler": KUBE_SCHEDULER,
    "kube-scheduler, reversed": with_volume_binding(VolumeBinding(FULLEST_FIRST)),
    "Spread": with_volume_binding(VolumeBinding(policy=CapacityPolicy.SPREAD)),
    "Pack": with_volume_binding(VolumeBinding(policy=CapacityPolicy.PACK)),
}


class Measured(msgspec.Struct, frozen=True, rename="camel"):
    """Of one run. Shares are of 1."""

    policy: str
    workload: str
    storage: str
    nodes: int
    seed: int
    #: Of all storage, requested by running pods when the first pod was rejected.
    first_rejection: float
    #: Of pods: in churn of those that came, else of those that request all storage together.
    rejected: float
    #: GiB of the largest volume that still fits somewhere, and its share of all that is free.
    largest: int
    largest_share: float
    #: Of free storage, what can be had in volumes of the size LARGE.
    usable: float
    #: Of nodes, those that could have a pod with two such volumes.
    two_large: float
    #: Of all storage, what is in volumes beyond what their claims request.
    wasted: float
    #: Pods lost with the node that has most of them, and as a multiple of the average node.
    lost: int
    lost_ratio: float
    #: The same ratio when a third of that is requested.
    lost_ratio_early: float
    #: Of the pods lost with that node, and with any node, those that find another one.
    returned: float
    returned_any: float
    #: Of applications with three replicas, those that have two or more of them on one node.
    quorum_at_risk: float
    #: Of provisioned volumes, those that could grow by half where they are.
    growable: float = 0.0
    #: By MARKS, the share of requested GiB that was rejected; not measured in churn.
    curve: tuple[float, ...] = ()


class Fragments(msgspec.Struct, frozen=True):
    largest: int
    largest_share: float
    usable: float
    two_large: float
    wasted: float
    growable: float


def fragments(cluster: StorageNodes) -> Fragments:
    nodes = cluster.nodes.values()
    free = sum(each.total_free for each in nodes)
    largest = max(each.largest for each in nodes)
    fitting = [each.fitting(LARGE) for each in nodes]
    taken = cluster.total - free
    made = [(each.node, size) for each in cluster.pods.values() for _, size in each.provisioned]
    return Fragments(
        largest,
        largest / free,
        sum(fitting) * LARGE / free,
        sum(count >= 2 for count in fitting) / len(fitting),
        (taken - cluster.requested) / cluster.total,
        sum(cluster.nodes[node].free >= size / 2 for node, size in made) / max(len(made), 1),
    )


class Loss(msgspec.Struct, frozen=True):
    lost: int
    lost_ratio: float
    returned: float
    returned_any: float
    quorum_at_risk: float


def lost_ratio(cluster: StorageNodes) -> float:
    """Pods on the node that has most of them, as a multiple of the average node."""
    counted = cluster.pods_per_node()
    return max(counted.values()) * len(cluster.nodes) / counted.total()


def loss(cluster: StorageNodes, rng: random.Random) -> Loss:
    counted = cluster.pods_per_node()
    (fullest, lost), *_ = counted.most_common(1)
    others = rng.sample(sorted(name for name in counted if name != fullest), LOST_NODES)
    returned = {name: cluster.lose(name) for name in (fullest, *others)}
    on_node = Counter((each.request.application, each.node) for each in cluster.pods.values())
    applications = {each.request.application for each in cluster.pods.values()}
    at_risk = {application for (application, _), replicas in on_node.items() if replicas > 1}
    return Loss(
        lost,
        lost_ratio(cluster),
        returned[fullest] / lost,
        sum(returned.values()) / sum(counted[name] for name in returned),
        len(at_risk) / len(applications),
    )


class Offered:
    """What pods have requested so far, and what was rejected of it."""

    def __init__(self, cluster: StorageNodes) -> None:
        self._cluster = cluster
        self.pods = self.rejected_pods = 0
        self.requested = self.rejected = 0
        #: Of all storage, what running pods had requested at the first rejection.
        self.first_rejection: float | None = None
        #: By MARKS passed so far, the share of requested GiB that was rejected.
        self.curve: list[float] = []

    @property
    def share(self) -> float:
        return self.requested / self._cluster.total

    def add(self, request: Request) -> bool:
        """Whether the pod was given a node."""
        placed = bool(self._cluster.place(request))
        self.pods += 1
        self.requested += request.total
        if not placed:
            if self.first_rejection is None:
                self.first_rejection = self._cluster.requested / self._cluster.total
            self.rejected_pods += 1
            self.rejected += request.total
        passed = sum(mark <= self.share for mark in MARKS[len(self.curve) :])
        self.curve += [self.rejected / self.requested] * passed
        return placed


def measure(policy: str, workload: Workload, storage: Storage, nodes: int, seed: int) -> Measured:
    cluster = StorageNodes(nodes, storage, POLICIES[policy], random.Random(f"cluster {seed}"))
    coming, rng = requests(workload, random.Random(f"pods {seed}")), random.Random(f"churn {seed}")
    offered = Offered(cluster)
    if workload is Workload.CHURN:
        early, churned = churn(cluster, coming, rng, storage)
        pieces, lost = fragments(cluster), loss(cluster, rng)
        while offered.add(next(coming)):
            pass
        rejected = churned.rejected_pods / churned.pods
    else:
        while offered.share < EARLY * LOAD[storage]:
            offered.add(next(coming))
        early = lost_ratio(cluster)
        while offered.share < LOAD[storage]:
            offered.add(next(coming))
        pieces, lost = fragments(cluster), loss(cluster, rng)
        while offered.share < 1.0:
            offered.add(next(coming))
        rejected = offered.rejected_pods / offered.pods
    first = 1.0 if offered.first_rejection is None else offered.first_rejection
    return Measured(
        policy=policy,
        workload=workload.value,
        storage=storage.value,
        nodes=nodes,
        seed=seed,
        first_rejection=first,
        rejected=rejected,
        lost_ratio_early=early,
        curve=() if workload is Workload.CHURN else tuple(offered.curve),
        **msgspec.structs.asdict(pieces),
        **msgspec.structs.asdict(lost),
    )


def churn(
    cluster: StorageNodes, coming: Iterator[Request], rng: random.Random, storage: Storage
) -> tuple[float, Offered]:
    """Fill the cluster, then delete pods at random and add others as long as the load is below that for churn. Returns
    the early `lost_ratio` as well."""
    load = CHURN_LOAD[storage]
    while cluster.requested < EARLY * LOAD[storage] * cluster.total:
        cluster.place(next(coming))
    early = lost_ratio(cluster)
    while cluster.requested < load * cluster.total and cluster.place(next(coming)):
        pass
    offered = Offered(cluster)
    for _ in range(TURNOVER * len(cluster.pods)):
        cluster.remove(rng.choice(list(cluster.pods)))
        while cluster.requested < load * cluster.total and offered.add(next(coming)):
            pass
    return early, offered


#: Heading, attribute, and how it is written.
COLUMNS: Final = (
    ("first rejection", "first_rejection", "{:.1%}"),
    ("rejected", "rejected", "{:.1%}"),
    ("largest GiB", "largest", "{:.0f}"),
    (f"usable for {LARGE}", "usable", "{:.0%}"),
    (f"nodes for 2x{LARGE}", "two_large", "{:.0%}"),
    ("wasted", "wasted", "{:.1%}"),
    ("lost pods", "lost", "{:.1f}"),
    ("x average", "lost_ratio", "{:.2f}"),
    ("x when emptier", "lost_ratio_early", "{:.2f}"),
    ("return", "returned", "{:.0%}"),
    ("return, any node", "returned_any", "{:.0%}"),
    ("2 of 3 on a node", "quorum_at_risk", "{:.1%}"),
    ("can grow by half", "growable", "{:.0%}"),
)


def grouped(runs: Iterable[Measured]) -> dict[tuple[int, str, str], dict[str, list[Measured]]]:
    groups: dict[tuple[int, str, str], dict[str, list[Measured]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        groups[run.nodes, run.storage, run.workload][run.policy].append(run)
    return groups


def print_table(runs: Sequence[Measured]) -> None:
    """The mean of all seeds, and the standard deviation of the first column."""
    for (nodes, storage, workload), by_policy in grouped(runs).items():
        print(f"\n{nodes} nodes, {storage} volumes, {workload}")
        print(f"{'':24}" + " ".join(f"{heading:>16}" for heading, _, _ in COLUMNS))
        for policy, some in by_policy.items():
            cells = [form.format(mean(getattr(run, name) for run in some)) for _, name, form in COLUMNS]
            if len(some) > 1:
                cells[0] += f" ±{stdev(run.first_rejection for run in some) * 100:.1f}"
            print(f"{policy:24}" + " ".join(f"{cell:>16}" for cell in cells))


#: Colours of the policies, and of nothing else.
COLOURS: Final = {
    "none": "#999999",
    "kube-scheduler": "#d62728",
    "kube-scheduler, reversed": "#9467bd",
    "Spread": "#1f77b4",
    "Pack": "#2ca02c",
}


def draw(runs: Sequence[Measured], file: Path) -> None:
    """Of the smallest number of nodes: rejected storage by load, the first rejection, and what a large volume finds."""
    import matplotlib as mpl

    mpl.use("svg")
    # Text stays text, and the same figures make the same file.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mooring", "font.size": 9})
    from matplotlib import pyplot as plt

    nodes = min(run.nodes for run in runs)
    order = [(nodes, storage.value, workload.value) for storage in Storage for workload in Workload]
    groups = {key[1:]: by_policy for key in order if (by_policy := grouped(runs).get(key))}
    policies = [name for name in COLOURS if all(name in by_policy for by_policy in groups.values())]
    figure, axes = plt.subplots(2, 3, figsize=(10, 6.2), layout="constrained")
    for axis, storage in zip(axes[0], Storage, strict=True):
        by_policy = groups.get((storage.value, Workload.MIXED.value), {})
        for policy in policies:
            curves = [run.curve for run in by_policy.get(policy, ())]
            rejected = [100 * mean(shares) for shares in zip(*curves, strict=True)]
            # Where two policies decide alike, the later line is drawn over the earlier one.
            style = {"linewidth": 3.5 if policy == "Spread" else 1.6}
            axis.plot(
                [100 * mark for mark in MARKS][: len(rejected)], rejected, color=COLOURS[policy], label=policy, **style
            )
        axis.set_title(f"mixed sizes, {storage.value} volumes", fontsize=9)
        axis.set_xlabel("requested, % of all storage")
        axis.set_ylabel("rejected, % of what was requested")
    bars = (
        ("first_rejection", "used at the first rejection, % of storage"),
        ("usable", f"free storage usable for {LARGE} GiB, %"),
        ("growable", "new volumes that can grow by half, %"),
    )
    for axis, (name, title) in zip(axes[1], bars, strict=True):
        cases = [key for key in groups if name != "growable" or key[0] != Storage.EXISTING.value]
        for place, policy in enumerate(policies):
            values = [100 * mean(getattr(run, name) for run in groups[case][policy]) for case in cases]
            offsets = [number + 0.8 * (place + 0.5) / len(policies) - 0.4 for number in range(len(cases))]
            axis.bar(offsets, values, width=0.8 / len(policies), color=COLOURS[policy], label=policy)
        axis.set_xticks(
            range(len(cases)), [f"{storage}, {workload}" for storage, workload in cases], rotation=40, ha="right"
        )
        axis.tick_params(axis="x", labelsize=7)
        axis.set_title(title, fontsize=9)
    for axis in axes.flat:
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, axis="y", alpha=0.3)
    axes[0][0].legend(fontsize=7, frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nodes", type=int, nargs="+", default=[50])
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--storage", nargs="+", choices=[each.value for each in Storage], default=list(Storage))
    arguments.add_argument("--workloads", nargs="+", choices=[each.value for each in Workload], default=list(Workload))
    arguments.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    arguments.add_argument("--runs", type=Path, nargs="+", help="JSON of earlier runs, to be shown instead of new ones")
    arguments.add_argument("--output", "-o", choices=("table", "json"), default="table")
    arguments.add_argument("--figure", type=Path, help="where to draw it")
    given = arguments.parse_args()
    runs: list[Measured] = []
    for file in given.runs or ():
        runs += msgspec.json.decode(file.read_bytes(), type=list[Measured])
    for nodes in () if given.runs else given.nodes:
        for storage in map(Storage, given.storage):
            for workload in map(Workload, given.workloads):
                for seed in range(given.seeds):
                    runs += (measure(policy, workload, storage, nodes, seed) for policy in given.policies)
                print(f"{nodes} nodes, {storage.value}, {workload.value}: done", file=sys.stderr, flush=True)
    if given.output == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(runs)) + b"\n")
    else:
        print_table(runs)
    if given.figure:
        draw(runs, given.figure)


if __name__ == "__main__":
    main()
