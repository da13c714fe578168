"""Cost of one volume decision by number of volumes: 5,000 nodes, a pod with two WaitForFirstConsumer claims.

Run it as `python -m bench.volume_matching [--nodes N] [--decisions N]`. A decision is claims_of, rejections for all
nodes, plan and assume on one of the nodes left, and restore. The first lines are local volumes, two per node until
every node has some; then come volumes that many nodes reach, claims with selectors, and volumes to provision where a
driver reports enough capacity, with an object per node.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import msgspec

from mooring.api import kinds, well_known
from mooring.api.views.pods import Pod
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import TopologyIndex

Body = dict[str, object]

ON_SSD: Body = {"matchLabels": {"medium": "ssd"}}


def volume(number: int, *, affinity: Body | None, labels: dict[str, str]) -> bytes:
    spec: Body = {
        "capacity": {"storage": f"{10 + number % 7}Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "volumeMode": "Filesystem",
    }
    if affinity is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}}
    meta = {"name": f"volume-{number:06}", "resourceVersion": "1", "labels": labels}
    return msgspec.json.encode({"metadata": meta, "spec": spec, "status": {"phase": "Available"}})


def claim(name: str, size: str, *, selector: Body | None) -> bytes:
    spec: Body = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": size}},
    }
    if selector is not None:
        spec["selector"] = selector
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    return msgspec.json.encode({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})


def a_pod() -> Pod:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("small", "large")]
    meta = {"name": "pod", "namespace": "default", "uid": "pod"}
    return kinds.POD.decode(msgspec.json.encode({"metadata": meta, "spec": {"volumes": volumes}}))


def on_node(number: int, nodes: int) -> Body:
    return {"key": well_known.HOSTNAME, "operator": "In", "values": [f"node-{number // 2 % nodes:05}"]}


def in_zone(number: int, nodes: int) -> Body:
    return {"key": well_known.ZONE, "operator": "In", "values": [f"zone-{number % 3}"]}


def anywhere(number: int, nodes: int) -> None:
    return None


class Cluster(NamedTuple):
    topology: TopologyIndex
    volumes: VolumeState


def a_cluster(
    nodes: int, volumes: int, place: Callable[[int, int], Body | None], *, selector: Body | None = None
) -> Cluster:
    topology = TopologyIndex()
    state = VolumeState(topology)
    for number in range(nodes):
        topology.put(
            f"node-{number:05}", {well_known.HOSTNAME: f"node-{number:05}", well_known.ZONE: f"zone-{number % 3}"}
        )
    labels = {"medium": "ssd"}
    for number in range(volumes):
        body = volume(number, affinity=place(number, nodes), labels=labels)
        state.observe_volume(None, kinds.VOLUME.decode(body))
    for name, size in (("small", "5Gi"), ("large", "10Gi")):
        state.observe_claim(None, kinds.CLAIM.decode(claim(name, size, selector=selector)))
    late = {"metadata": {"name": "local"}, "provisioner": well_known.NO_PROVISIONER}
    body = msgspec.json.encode(late | {"volumeBindingMode": "WaitForFirstConsumer"})
    state.observe_class(None, kinds.STORAGE_CLASS.decode(body))
    return Cluster(topology, state)


def with_capacity(nodes: int) -> Cluster:
    """No volumes; a driver that reports its free capacity on every node, and a class of it."""
    cluster = a_cluster(nodes, 0, anywhere)
    state = cluster.volumes
    for number in range(nodes):
        segment = {"matchLabels": {well_known.HOSTNAME: f"node-{number:05}"}}
        meta = {"name": f"capacity-{number:05}", "namespace": "driver"}
        room = {"metadata": meta, "storageClassName": "local", "capacity": f"{1 + number % 20}Gi"}
        body = msgspec.json.encode(room | {"nodeTopology": segment})
        state.observe_capacity(None, kinds.STORAGE_CAPACITY.decode(body))
    driver = {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}
    state.observe_driver(None, kinds.CSI_DRIVER.decode(msgspec.json.encode(driver)))
    made = {"metadata": {"name": "local"}, "provisioner": "csi.example.com"}
    body = msgspec.json.encode(made | {"volumeBindingMode": "WaitForFirstConsumer"})
    state.observe_class(None, kinds.STORAGE_CLASS.decode(body))
    return cluster


def microseconds_per_decision(cluster: Cluster, decisions: int) -> float:
    """The median; garbage and neighbours on the machine show in the mean."""
    topology, state = cluster
    pod = a_pod()
    durations: list[float] = []
    for _ in range(decisions):
        start = time.perf_counter()
        claims = state.claims_of(pod)
        assert not isinstance(claims, str)
        left = topology.all
        for nodes, _reason in state.rejections(claims):
            left &= ~nodes
        assert left, "every line is about pods that can be placed"
        promised = state.assume(state.plan(claims, topology.name(left.bit_length() - 1)))
        state.restore(promised)
        durations.append(time.perf_counter() - start)
    return median(durations) * 1e6


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--nodes", type=int, default=5000)
    arguments.add_argument("--decisions", type=int, default=300)
    given = arguments.parse_args()

    first: float | None = None
    for volumes in (100, 1_000, 10_000, 100_000):
        start = time.perf_counter()
        cluster = a_cluster(given.nodes, volumes, on_node)
        loading = (time.perf_counter() - start) / volumes * 1e6
        cost = microseconds_per_decision(cluster, given.decisions)
        first = cost if first is None else first
        print(
            f"{volumes:>7} local volumes, {given.nodes} nodes: {cost:8.0f} µs per decision, "
            f"{cost / first:5.2f} x the first line; {loading:4.1f} µs to load one"
        )
    for label, place, selector, volumes in (
        ("zonal volumes", in_zone, None, 10_000),
        ("volumes without affinity", anywhere, None, 10_000),
        ("local volumes, claims with a selector", on_node, ON_SSD, 10_000),
        ("zonal volumes, claims with a selector", in_zone, ON_SSD, 10_000),
    ):
        cluster = a_cluster(given.nodes, volumes, place, selector=selector)
        cost = microseconds_per_decision(cluster, max(given.decisions // 30, 1))
        print(f"{volumes:>7} {label}, {given.nodes} nodes: {cost:8.0f} µs per decision")
    for nodes in (given.nodes // 10, given.nodes):
        cost = microseconds_per_decision(with_capacity(nodes), given.decisions)
        print(f"{nodes:>7} capacity objects, as many nodes: {cost:8.0f} µs per decision")


if __name__ == "__main__":
    main()
