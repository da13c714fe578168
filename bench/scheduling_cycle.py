"""Cost of one decision: 5,000 nodes, pods without volumes, and pods with two WaitForFirstConsumer claims, by number
of local volumes.

Run it as `python -m bench.scheduling_cycle [--nodes N] [--decisions N] [--microseconds]`. A decision is everything
between taking a pod from the queue and starting to bind it (all plugins on all nodes, scores, the plan for the selected
node, assume), and restore. Lines are shown as multiples of the first one.
"""

import argparse
import random
import time
from collections.abc import Mapping
from statistics import median
from typing import Any, TypeVar

import msgspec

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot

V = TypeVar("V", bound=ApiObject)

VOLUME_PLUGINS = {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}
WITHOUT_VOLUMES = Profile(plugin for plugin in DEFAULT.plugins if plugin.name not in VOLUME_PLUGINS)


def view(kind: Kind[V], name: str, namespace: str = "", **body: object) -> V:
    meta = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"}
    labels = body.pop("labels", {})
    return kind.decode(msgspec.json.encode({"metadata": meta | {"labels": labels}} | body))


def a_node(snapshot: Snapshot, number: int) -> None:
    name = f"node-{number:05}"
    labels = {well_known.HOSTNAME: name, well_known.ZONE: f"zone-{number % 3}"}
    offers = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    snapshot.observe_node(None, view(NODE, name, labels=labels, status={"allocatable": offers}))


def a_volume(snapshot: Snapshot, number: int, nodes: int) -> None:
    where = {"key": well_known.HOSTNAME, "operator": "In", "values": [f"node-{number // 2 % nodes:05}"]}
    spec = {
        "capacity": {"storage": f"{10 + number % 7}Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
    }
    volume = view(VOLUME, f"volume-{number:06}", spec=spec, status={"phase": "Available"})
    snapshot.volumes.observe_volume(None, volume)


def a_pod(name: str = "pod", **spec: object) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}}}
    return view(POD, name, "default", labels={"app": "db"}, spec={"containers": [container]} | spec)


def a_cluster(nodes: int, volumes: int) -> Snapshot:
    """Every second node runs a pod with anti-affinity to its own app, as in a StatefulSet."""
    snapshot = Snapshot()
    for number in range(nodes):
        a_node(snapshot, number)
    for number in range(0, nodes, 2):
        pod = a_pod(f"db-{number}", nodeName=f"node-{number:05}", affinity=apart("web"))
        snapshot.observe_pod(None, pod)
    for number in range(volumes):
        a_volume(snapshot, number, nodes)
    late = {"provisioner": well_known.NO_PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"}
    snapshot.volumes.observe_class(None, view(STORAGE_CLASS, "local", **late))
    for name, size in (("small", "5Gi"), ("large", "10Gi")):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": size}},
        }
        claim = view(CLAIM, name, "default", spec=spec, status={"phase": "Pending"})
        snapshot.volumes.observe_claim(None, claim)
    return snapshot


def apart(app: str) -> Mapping[str, Any]:
    term = {"topologyKey": well_known.HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def seconds_per_decision(snapshot: Snapshot, pod: Pod, profile: Profile, decisions: int) -> float:
    """The median of processor time: garbage shows in the mean, and neighbours on the machine in what a clock says."""
    rng = random.Random(0)
    durations: list[float] = []
    for _ in range(decisions):
        start = time.process_time()
        attempt = CycleState(pod, snapshot)
        decision = cycle.run_cycle(attempt, profile, rng)
        assert decision.node, cycle.fit_error(decision)
        plan = cycle.reserve(attempt, profile, decision.node)
        snapshot.assume(pod, decision.node)
        durations.append(time.process_time() - start)
        snapshot.volumes.restore(plan)
        snapshot.forget(pod)
    return median(durations)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Cost of one scheduling decision, as multiples of the plainest.")
    arguments.add_argument("--nodes", type=int, default=5000)
    arguments.add_argument("--decisions", type=int, default=300)
    arguments.add_argument("--microseconds", action="store_true", help="show what the figures are multiples of")
    given = arguments.parse_args()

    plain = a_pod()
    picky = a_pod(affinity=apart("db"))
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("small", "large")]
    stateful = a_pod(volumes=volumes)
    first = 0.0

    def line(what: str, snapshot: Snapshot, pod: Pod, profile: Profile = DEFAULT) -> None:
        nonlocal first
        cost = seconds_per_decision(snapshot, pod, profile, given.decisions)
        first = first or cost
        absolute = f"  {cost * 1e6:7.0f} µs" if given.microseconds else ""
        print(f"{cost / first:6.2f} x  {what}{absolute}", flush=True)

    empty = a_cluster(given.nodes, 0)
    line("no volumes, without the volume plugins", empty, plain, WITHOUT_VOLUMES)
    line("no volumes", empty, plain)
    line("no volumes, pod with anti-affinity to half the nodes", empty, picky)
    for count in (1_000, 10_000, 100_000):
        cluster = a_cluster(given.nodes, count)
        line(f"{count} local volumes, pod without volumes", cluster, plain)
        line(f"{count} local volumes, pod with two late-bound claims", cluster, stateful)


if __name__ == "__main__":
    main()
