"""Cost of the dashboard for its process: the full state, a change, and the explanation of a pod.

Run it as `python -m bench.page_picture [--nodes N] [--volumes PER_NODE] [--readers N]`. Processor time; every node has
a pool, bound volumes, and a pod. The cost of the informers, which hold the same objects, is not included.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, NODE, POD, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.pod import explain_pod
from mooring.web.picture import Picture
from mooring.web.session import Feed

DRIVER = "csi.example.com"
Made = tuple[Kind[ApiObject], ApiObject]


def a_cluster(nodes: int, per_node: int) -> Iterator[Made]:
    delayed = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    yield view(STORAGE_CLASS, "made", **delayed)
    yield view(CSI_DRIVER, DRIVER, spec={"storageCapacity": True})
    for number in range(nodes):
        node = f"node-{number}"
        yield a_node(node, zone=f"zone-{number % 3}")
        topology = {"matchLabels": {well_known.HOSTNAME: node}}
        yield view(STORAGE_CAPACITY, f"room-{number}", storageClassName="made", nodeTopology=topology, capacity="50Gi")
        for each in range(per_node):
            name = f"data-{number}-{each}"
            yield a_volume(f"pv-{name}", node, claim=name)
            spec = {"volumeName": f"pv-{name}", "resources": {"requests": {"storage": "10Gi"}}}
            notes = {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}
            yield view(CLAIM, name, annotations=notes, spec=spec, status={"phase": "Bound"})
        yield a_pod(f"web-{number}", f"data-{number}-0", node=node)
    asked = {"storageClassName": "made", "resources": {"requests": {"storage": "900Gi"}}}
    yield view(CLAIM, "huge", spec=asked, status={"phase": "Pending"})
    yield a_pod("waits", "huge")


def view(kind: Kind[ApiObject], name: str, annotations: dict[str, str] | None = None, **body: object) -> Made:
    meta: dict[str, Any] = {
        "name": name,
        "uid": f"{name}-uid",
        "resourceVersion": "1",
        "annotations": annotations or {},
    }
    meta |= {"namespace": "default"} if kind.namespaced else {}
    meta |= {"labels": body.pop("labels", {})}
    return kind, kind.decode(msgspec.json.encode({"metadata": meta, **body}))


def a_node(name: str, *, zone: str) -> Made:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "110"}}
    return view(NODE, name, labels={well_known.HOSTNAME: name, well_known.ZONE: zone}, status=status)


def a_volume(name: str, node: str, *, claim: str) -> Made:
    here = {"key": well_known.HOSTNAME, "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "10Gi"},
        "storageClassName": "made",
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "claimRef": {"namespace": "default", "name": claim, "uid": f"{claim}-uid"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    return view(VOLUME, name, spec=spec, status={"phase": "Bound"})


def a_pod(name: str, claim: str, *, node: str = "") -> Made:
    mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return view(POD, name, spec={"nodeName": node, "volumes": mounted}, status={"phase": "Pending"})


def observer(picture: Picture) -> Callable[[Made], None]:
    observe: dict[Kind[ApiObject], Callable[[Any], None]] = {
        NODE: lambda found: picture.observe_node(None, found),
        STORAGE_CLASS: lambda found: picture.observe_class(None, found),
        STORAGE_CAPACITY: lambda found: picture.observe_capacity(None, found, now=0.0),
        CLAIM: lambda found: picture.observe_claim(None, found),
        VOLUME: lambda found: picture.observe_volume(None, found, now=0.0),
        POD: lambda found: picture.observe_pod(None, found),
    }
    return lambda made: observe[made[0]](made[1]) if made[0] in observe else None


def milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def main() -> None:
    arguments = argparse.ArgumentParser(description="What the page costs the process that serves it.")
    arguments.add_argument("--nodes", type=int, default=1000)
    arguments.add_argument("--volumes", type=int, default=3, help="of each node")
    arguments.add_argument("--readers", type=int, default=8)
    given = arguments.parse_args()
    made = list(a_cluster(given.nodes, given.volumes))
    picture = Picture()
    observe = observer(picture)
    print(f"{given.nodes} nodes, {len(made)} objects")
    print(f"  take them in           {milliseconds(lambda: [observe(one) for one in made]):8.1f} ms")
    print(f"  make all rows          {milliseconds(picture.changes):8.1f} ms")
    frames: list[bytes] = []
    encoded = milliseconds(lambda: frames.append(msgspec.json.encode(picture.all_rows())))
    print(f"  the whole picture      {encoded:8.1f} ms")
    print(f"                         {len(frames[0]) / 1e6:8.2f} MB, shared by all tabs")
    feed = Feed("bench")
    readers = [feed.join() for _ in range(given.readers)]

    def change() -> None:
        for number in range(100):
            observe(a_volume(f"pv-data-{number}-0", "node-0", claim=f"data-{number}-0"))
            feed.publish(msgspec.json.encode(picture.changes()))

    print(f"  a change, {len(readers)} tabs      {milliseconds(change) / 100:8.3f} ms")
    objects = ClusterObjects(now=0.0)
    for kind, item in made:
        objects.put(kind, item)
    pod = objects.get(POD, "default/waits")
    assert pod is not None
    print(f"  explain a waiting pod  {milliseconds(lambda: explain_pod(pod, objects)):8.1f} ms, beside the event loop")


if __name__ == "__main__":
    main()
