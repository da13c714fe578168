"""A scheduler of one's own in under a hundred lines: its policy is five lines, volumes are the library's business.

    kubectl get nodes,pv,pvc,sc,csinodes,csidrivers,csistoragecapacities,pods -A -o json > cluster.json
    python examples/custom_scheduler.py cluster.json

Places the pods whose `schedulerName` is `my-scheduler`, on the node with the fewest pods among those where the volumes
can be, and prints what has to be written. A live scheduler would call the same methods from its watches.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from mooring.api import well_known
from mooring.api.kinds import BY_KIND
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume
from mooring.volumes import BindingPlan, TopologyIndex, VolumeState

NAME = "my-scheduler"


class MyScheduler:
    def __init__(self) -> None:
        self.nodes = TopologyIndex()
        self.volumes = VolumeState(self.nodes)
        self.pods_on: Counter[str] = Counter()
        self.waiting: list[Pod] = []

    def observe(self, thing: object) -> None:
        match thing:
            case Node():
                self.nodes.put(thing.name, thing.metadata.labels)
            case Volume():
                self.volumes.observe_volume(None, thing)
            case Claim():
                self.volumes.observe_claim(None, thing)
            case StorageClass():
                self.volumes.observe_class(None, thing)
            case CsiNode():
                self.volumes.observe_csi_node(None, thing)
            case CsiDriver():
                self.volumes.observe_driver(None, thing)
            case StorageCapacity():
                self.volumes.observe_capacity(None, thing)
            case Pod() if thing.spec.node_name and not thing.finished:
                self.place(thing, thing.spec.node_name)
            case Pod() if thing.spec.scheduler_name == NAME and not thing.finished:
                self.waiting.append(thing)

    def place(self, pod: Pod, node: str) -> None:
        self.pods_on[node] += 1
        self.volumes.add_pod(pod, node)

    def decide(self, pod: Pod) -> BindingPlan | str:
        """Where the pod goes and what binding its volumes there takes, or why it goes nowhere."""
        claims = self.volumes.claims_of(pod)
        if isinstance(claims, str):
            return claims
        fitting = self.nodes.all & ~self.volumes.over_limit(pod, claims)
        for rejected, _why in self.volumes.rejections(claims):
            fitting &= ~rejected
        node = min(self.nodes.names(fitting), key=lambda name: self.pods_on[name], default=None)
        if node is None:
            why = sorted({why for _, why in self.volumes.rejections(claims)}) or ["node(s) exceed max volume count"]
            return f"0/{len(self.nodes)} nodes are available: {', '.join(why)}"
        plan = self.volumes.assume(self.volumes.plan(claims, node))
        self.place(pod, node)
        return plan


def commands(pod: Pod, plan: BindingPlan) -> Iterator[str]:
    for binding in plan.static:
        claim = {"kind": "PersistentVolumeClaim", "namespace": pod.namespace, "name": binding.claim.name}
        patch = {"spec": {"claimRef": claim | {"apiVersion": "v1", "uid": binding.claim.uid}}}
        yield f"kubectl patch pv {binding.volume.name} --type merge -p '{json.dumps(patch)}'"
    for wish in plan.provision:
        yield f"kubectl annotate pvc -n {pod.namespace} {wish.claim.name} {well_known.SELECTED_NODE}={plan.node}"
    yield f"# once its claims are bound: bind pod {pod.key} to {plan.node}"


def main(path: str) -> None:
    scheduler = MyScheduler()
    items: list[Mapping[str, str]] = json.loads(Path(path).read_text())["items"]
    for item in items:
        scheduler.observe(BY_KIND[item["apiVersion"], item["kind"]].decode(json.dumps(item).encode()))
    for pod in scheduler.waiting:
        decided = scheduler.decide(pod)
        print("\n".join([f"# {pod.key}: {decided}"] if isinstance(decided, str) else commands(pod, decided)))


if __name__ == "__main__":
    main(sys.argv[1])
