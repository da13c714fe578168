"""Cost of one decision in a full cluster: 5,000 nodes, 50,000 running pods, pods with affinity and anti-affinity.

    python -m bench.crowded_cluster [--decisions N] [--nodes N ...] [--figure docs/figures/crowded-cluster.svg]

Ten pods run on every node, a hundred of each app. A fifth of the apps keep their pods on different hosts and label each
with its own name, as a StatefulSet does; a fifth prefer that; a fifth prefer to be in the zone of another app. One line
for each kind of new pod, one column for each number of nodes, which doubles: with it double the pods, the apps and so
the different terms. A decision is everything between taking a pod from the queue and starting to bind it. Prints the
median of processor time, and draws it. The last lines are the cost of a pod that finds every node full and needs
preemption.
"""

import argparse
import gc
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

from bench.scheduling_cycle import a_cluster, a_pod, apart, seconds_per_decision
from mooring.api import well_known
from mooring.api.views.pods import Pod
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.preemption.evaluator import Preemption, PreemptionInput, preempt
from mooring.scheduler.preemption.nominator import DisruptionBudgets, Nominator
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot

NODES: Final = (1_250, 2_500, 5_000, 10_000)
PODS_ON_NODE: Final = 10
PODS_OF_APP: Final = 100
FULL: Final = "all nodes full, others have to go"
FULL_AND_CHOOSY: Final = "the same, apart and spread over hosts"


def a_term(app: str, key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def preferring(side: str, *terms: Mapping[str, Any]) -> dict[str, Any]:
    wishes = [{"weight": 50, "podAffinityTerm": term} for term in terms]
    return {side: {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}


def near(app: str, key: str) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [a_term(app, key)]}}


def spread(app: str, *wanted: tuple[str, str]) -> list[dict[str, Any]]:
    """Skews that the pods running already are within."""
    labels = {"matchLabels": {"app": app}}
    return [
        {"topologyKey": key, "maxSkew": 50, "whenUnsatisfiable": when, "labelSelector": labels} for key, when in wanted
    ]


def of_app(app: str, name: str, **spec: object) -> Pod:
    pod = a_pod(name, **spec)
    pod.metadata.labels["app"] = app
    return pod


def affinity_of(number: int) -> dict[str, Any]:
    """Affinity of the pods of an app to each other and to the next app."""
    own, other = f"app-{number}", f"app-{number + 1}"
    match number % 5:
        case 0:
            return {"affinity": apart(own)}
        case 1:
            return {
                "affinity": preferring(
                    "podAntiAffinity", a_term(own, well_known.HOSTNAME), a_term(own, well_known.ZONE)
                )
            }
        case 2:
            return {"affinity": preferring("podAffinity", a_term(other, well_known.ZONE))}
        case _:
            return {}


def a_crowd(nodes: int) -> Snapshot:
    """A cluster with all running pods; every node has two free volumes."""
    snapshot = a_cluster(nodes, 2 * nodes)
    pods = nodes * PODS_ON_NODE
    apps = pods // PODS_OF_APP
    for number in range(pods):
        # One step further after each round, or an app would only ever meet the same nodes.
        node = (number + number // nodes) % nodes
        app = number % apps
        body = of_app(f"app-{app}", f"running-{number}", nodeName=f"node-{node:05}", **affinity_of(app))
        if app % 5 == 0:
            body.metadata.labels["statefulset.kubernetes.io/pod-name"] = body.name
        snapshot.observe_pod(None, body)
    return snapshot


def newcomers() -> Iterator[tuple[str, Pod]]:
    """One pod of each kind. Apps of 0 modulo 5 have anti-affinity, those of 3 no terms, see `affinity_of`."""
    host, zone = well_known.HOSTNAME, well_known.ZONE
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("small", "large")]
    hard = ((zone, "DoNotSchedule"), (host, "DoNotSchedule"))
    soft = ((zone, "ScheduleAnyway"), (host, "ScheduleAnyway"))
    prefers = preferring("podAntiAffinity", a_term("app-8", host), a_term("app-8", zone))
    prefers |= preferring("podAffinity", a_term("app-13", zone), a_term("app-13", host))
    yield "plain", of_app("app-3", "plain")
    yield "required anti-affinity, host", of_app("app-5", "apart", affinity=apart("app-5"))
    yield "required affinity, zone", of_app("app-3", "near", affinity=near("app-8", zone))
    yield "preferred affinity and anti-affinity", of_app("app-3", "prefers", affinity=prefers)
    yield (
        "spread, hard and soft, zone and host",
        of_app("app-3", "spread", topologySpreadConstraints=spread("app-3", *hard, *soft)),
    )
    yield "two late-bound claims", of_app("app-3", "stateful", volumes=volumes)
    everything = {**prefers, "podAffinity": prefers["podAffinity"] | near("app-8", zone)["podAffinity"]}
    everything["podAntiAffinity"] = prefers["podAntiAffinity"] | apart("app-5")["podAntiAffinity"]
    yield (
        "all of it",
        of_app(
            "app-5",
            "choosy",
            affinity=everything,
            topologySpreadConstraints=spread("app-5", *hard, *soft),
            volumes=volumes,
        ),
    )


def preemptors() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Pods of high priority: their apps, and further requirements."""
    yield FULL, "app-3", {}
    constraints = spread("app-5", (well_known.HOSTNAME, "DoNotSchedule"))
    yield FULL_AND_CHOOSY, "app-5", {"affinity": apart("app-5"), "topologySpreadConstraints": constraints}


def seconds_to_preempt(snapshot: Snapshot, decisions: int, app: str, **spec: object) -> float:
    """The pod requests more than any node has left beside its ten pods, and has a higher priority than all of them."""
    container = {"name": "main", "resources": {"requests": {"cpu": "15"}}}
    pod = of_app(app, "important", priority=1000, containers=[container], **spec)
    nominator, budgets, rng = Nominator(), DisruptionBudgets(), random.Random(0)

    def who_has_to_go() -> Preemption | str:
        attempt = CycleState(pod, snapshot)
        decision = cycle.run_cycle(attempt, DEFAULT, rng, nominator=nominator)
        filters = DEFAULT.for_pod(pod).filters
        ask = partial(cycle.run_filters_with_nominated_pods, attempt, nominator=nominator)
        return preempt(PreemptionInput(attempt, decision, budgets, nominator, filters, ask, rng))

    durations: list[float] = []
    for _ in range(decisions):
        start = process_time()
        outcome = who_has_to_go()
        durations.append(process_time() - start)
        assert isinstance(outcome, Preemption), outcome
    return median(durations)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Cost of a decision in a cluster full of pods.")
    arguments.add_argument("--decisions", type=int, default=200)
    arguments.add_argument("--nodes", type=int, nargs="+", default=NODES)
    arguments.add_argument("--figure", type=Path, help="where to draw it")
    given = arguments.parse_args()
    measured: dict[str, list[float]] = {}
    for nodes in given.nodes:
        snapshot = a_crowd(nodes)
        gc.freeze()
        for what, pod in newcomers():
            cost = seconds_per_decision(snapshot, pod, DEFAULT, given.decisions)
            measured.setdefault(what, []).append(cost * 1e3)
        for what, app, spec in preemptors():
            cost = seconds_to_preempt(snapshot, max(given.decisions // 20, 3), app, **spec)
            measured.setdefault(what, []).append(cost * 1e3)
        for what, costs in measured.items():
            pods = nodes * PODS_ON_NODE
            print(f"{nodes:6} nodes {pods:7} pods  {what:38} {costs[-1]:8.2f} ms", flush=True)
    if given.figure:
        draw(given.nodes, measured, given.figure)


def draw(nodes: Sequence[int], measured: Mapping[str, Sequence[float]], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    # Text stays text, and the same figures make the same file.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mooring", "font.size": 9})
    from matplotlib import pyplot as plt

    figure, (deciding, preempting) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for what, costs in measured.items():
        axis = preempting if what in (FULL, FULL_AND_CHOOSY) else deciding
        axis.plot(nodes, costs, marker="o", markersize=3, label=what)
    for axis in (deciding, preempting):
        axis.set_xlabel(f"nodes, {PODS_ON_NODE} running pods on each")
        axis.set_ylabel("ms of processor time per decision")
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, alpha=0.3)
        axis.legend(fontsize=7, frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
