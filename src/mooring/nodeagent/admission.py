"""May this pod run on this node? What a kubelet checks before it starts anything.

Pure. Two kinds of no: `Reject` is final, the pod fails and its owner must make another; `Wait` is for what may still
come right, and the pod stays Pending with an event. The scheduler checked all this before, but it is not the only one
who can put a pod on a node, and facts change.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mooring.api import node_selector, quantity
from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume


class Reject(NamedTuple):
    reason: str
    message: str


class Wait(NamedTuple):
    reason: str
    message: str


class Admit(NamedTuple):
    pass


Verdict = Admit | Wait | Reject

#: A pod's needs by resource, in the unit `quantity.to_milli` gives.
Needs = Mapping[str, int]


def needs_of(pod: Pod) -> Needs:
    """The sum over containers, raised to what any init container needs alone, plus overhead."""
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        for name, amount in container.resources.requests.items():
            total[name] = total.get(name, 0) + quantity.to_milli(amount)
    for container in pod.spec.init_containers:
        for name, amount in container.resources.requests.items():
            total[name] = max(total.get(name, 0), quantity.to_milli(amount))
    for name, amount in pod.spec.overhead.items():
        total[name] = total.get(name, 0) + quantity.to_milli(amount)
    return total


def admit(
    pod: Pod,
    node: Node,
    *,
    others: Iterable[Pod],
    claim: Callable[[str], Claim | None],
    volume: Callable[[str], Volume | None],
) -> Verdict:
    """`others` are the pods that already run here; `claim` and `volume` look up by key."""
    rejected = _lacking(pod, node, others)
    if rejected is not None:
        return rejected
    for source in pod.spec.volumes:
        name = pod.claim_name(source)
        if name:
            waiting = _unmountable(f"{pod.namespace}/{name}", source.name, node, claim, volume)
            if waiting is not None:
                return waiting
    return Admit()


def _lacking(pod: Pod, node: Node, others: Iterable[Pod]) -> Reject | None:
    offered = {name: quantity.to_milli(amount) for name, amount in node.status.allocatable.items()}
    used: dict[str, int] = {"pods": 0}
    for other in others:
        used["pods"] += 1000
        for name, amount in needs_of(other).items():
            used[name] = used.get(name, 0) + amount
    for name, amount in {"pods": 1000, **needs_of(pod)}.items():
        free = offered.get(name, 0) - used.get(name, 0)
        if amount > free:
            message = (
                f"Node didn't have enough resource: {name}, requested: {amount}, used: {used.get(name, 0)}, "
                f"capacity: {offered.get(name, 0)} (thousandths)"
            )
            return Reject(f"OutOf{name}", message)
    return None


def _unmountable(
    key: str,
    name: str,
    node: Node,
    claim: Callable[[str], Claim | None],
    volume: Callable[[str], Volume | None],
) -> Wait | None:
    found = claim(key)
    if found is None:
        return _wait(name, f"error processing PVC {key}: failed to fetch PVC from API server: not found")
    if found.deleting:
        return _wait(name, f"error processing PVC {key}: PVC is being deleted")
    if not found.fully_bound or found.status.phase != "Bound":
        return _wait(name, f"error processing PVC {key}: PVC is not bound")
    bound = volume(found.spec.volume_name)
    reference = bound.spec.claim_ref if bound is not None else None
    if bound is None or reference is None or reference.uid != found.uid:
        return _wait(name, f"error processing PVC {key}: PV {found.spec.volume_name} is not bound to this claim")
    affinity = bound.required_affinity
    if affinity is not None and not node_selector.from_view(affinity.node_selector_terms).matches(
        node.metadata.labels, fields=None
    ):
        message = f'MountVolume.NodeAffinity check failed for volume "{bound.name}" : no matching NodeSelectorTerms'
        return Wait("FailedMount", message)
    return None


def _wait(volume: str, why: str) -> Wait:
    return Wait("FailedMount", f"Unable to attach or mount volumes: unmounted volumes=[{volume}]: {why}")
