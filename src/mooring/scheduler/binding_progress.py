"""How far the binding of a pod's volumes has come, judged from what the informers show. Pure.

The binder asks after every change until all is bound or something is wrong. Two rules: what was seen before our own
write arrived is no evidence, and before the pod may go to its node all its volumes, also those bound long ago, are
checked once more against the node as it is now. Texts are kube-scheduler's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiNode
from mooring.api.views.volume import Volume
from mooring.volumes.in_tree import reaches_on
from mooring.volumes.plan import BindingPlan
from mooring.volumes.zones import in_zone


@dataclass(frozen=True)
class Seen:
    """The informers, as far as this needs them: each finds an object by its key, or None."""

    pod: Callable[[str], Pod | None]
    node: Callable[[str], Node | None]
    claim: Callable[[str], Claim | None]
    volume: Callable[[str], Volume | None]
    csi_node: Callable[[str], CsiNode | None]
    #: Whether a volume is held for the claim of a uid.
    holds: Callable[[Volume, str], bool] = lambda volume, uid: False


class Progress(NamedTuple):
    """Done, not yet (neither), or a problem that waiting will not solve."""

    done: bool = False
    problem: str = ""
    #: The problem is that a provisioner did not want the node that was chosen.
    given_back: bool = False


def progress_of(pod: Pod, plan: BindingPlan, *, written: Mapping[str, int], seen: Seen) -> Progress:
    """`written` holds the versions that our own writes gave to volumes and claims, by key."""
    node = seen.node(plan.node)
    if node is None:
        return Progress(problem=f'failed to get node "{plan.node}": node "{plan.node}" not found')
    now = seen.pod(pod.key)
    if now is None or now.uid != pod.uid:
        return Progress(problem=f'pod does not exist any more: pod "{pod.name}" not found')
    waiting = False
    for part in (_static(plan, written, seen), _provisioned(plan, written, seen), _really_bound(pod, plan, node, seen)):
        if part.problem:
            return part
        waiting |= not part.done
    return Progress(done=not waiting)


def objects_of(pod: Pod, plan: BindingPlan, seen: Seen) -> set[tuple[str, str]]:
    """(kind, key) of everything whose change can move the progress, as far as it is known now."""
    objects = {("Pod", pod.key), ("Node", plan.node)}
    objects |= {("PersistentVolume", binding.volume.key) for binding in plan.static}
    for key in pod.claim_keys:
        objects.add(("PersistentVolumeClaim", key))
        claim = seen.claim(key)
        if claim is not None and claim.spec.volume_name:
            objects.add(("PersistentVolume", claim.spec.volume_name))
    return objects


def _static(plan: BindingPlan, written: Mapping[str, int], seen: Seen) -> Progress:
    """The volumes we gave to claims are still theirs."""
    done = True
    for binding in plan.static:
        volume, claim = seen.volume(binding.volume.key), seen.claim(binding.claim.key)
        if volume is None:
            return Progress(problem=f'failed to check binding: persistentvolume "{binding.volume.name}" not found')
        if claim is None or claim.uid != binding.claim.uid:
            name = binding.claim.name
            return Progress(problem=f'failed to check binding: persistentvolumeclaim "{name}" not found')
        if _is_older(volume, written):
            done = False
            continue
        reference = volume.spec.claim_ref
        if seen.holds(volume, claim.uid):
            done = False
            continue
        if reference is None or reference.uid != claim.uid:
            return Progress(problem=f'ClaimRef got reset for pv "{volume.name}"')
        if volume.deleting and not claim.fully_bound:
            # SEEN: the PV controller binds no claim to a volume on its way out: waiting would last until the timeout.
            return Progress(problem=f'pv "{volume.name}" is being deleted')
        done &= claim.fully_bound
    return Progress(done)


def _provisioned(plan: BindingPlan, written: Mapping[str, int], seen: Seen) -> Progress:
    """The claims we sent to a provisioner are still meant for this node."""
    done = True
    for wish in plan.provision:
        claim = seen.claim(wish.claim.key)
        if claim is None or claim.uid != wish.claim.uid:
            name = wish.claim.name
            return Progress(problem=f'failed to check provisioning pvc: persistentvolumeclaim "{name}" not found')
        if _is_older(claim, written):
            done = False
            continue
        if claim.selected_node is None:
            return Progress(problem=f'selectedNode annotation reset for PVC "{claim.name}"', given_back=True)
        if claim.selected_node != plan.node:
            return Progress(problem=f'provisioning failed for PVC "{claim.name}"', given_back=True)
        done &= claim.fully_bound
    return Progress(done)


def _really_bound(pod: Pod, plan: BindingPlan, node: Node, seen: Seen) -> Progress:
    """Whatever volumes the claims ended up with: they belong to the claims, and the node reaches them."""
    coming = {binding.claim.key for binding in plan.static} | {wish.claim.key for wish in plan.provision}
    done = True
    for key in dict.fromkeys(pod.claim_keys):
        claim = seen.claim(key)
        if claim is None:
            return Progress(problem=f'persistentvolumeclaim "{key.partition("/")[2]}" not found')
        volume = seen.volume(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is None or not claim.fully_bound:
            if key not in coming:
                # SEEN: it was bound when the node was chosen, and nobody is about to bind it again.
                return Progress(problem=f'persistentvolumeclaim "{claim.name}" is not bound any more')
            done = False
            continue
        if not reaches_on(node.name, node.metadata.labels, volume, seen.csi_node(node.name)):
            mismatch = f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}"'
            return Progress(problem=f"{mismatch}: no matching NodeSelectorTerms")
        if not in_zone(volume, node.metadata.labels):
            return Progress(problem=f'pv "{volume.name}" zone labels don\'t match node "{node.name}"')
        reference = volume.spec.claim_ref
        if reference is not None and reference.uid not in ("", claim.uid):
            return Progress(problem=f'pv "{volume.name}" belongs to another claim than "{claim.name}"')
        # Claims and volumes are watched apart: the volume may be the one that is seen late.
        done &= reference is not None and reference.uid == claim.uid
    return Progress(done)


def _is_older(thing: Volume | Claim, written: Mapping[str, int]) -> bool:
    return int(thing.metadata.resource_version) < written.get(thing.key, 0)
