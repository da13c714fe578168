"""Progress of binding a pod's volumes, evaluated from the informers' caches. Pure.

The binder asks after every update until all volumes are bound or a problem is found. Objects older than the binder's
own writes are no evidence. All volumes of the pod, also those bound long ago, are checked against the node once more.
Messages are kube-scheduler's.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, CsiNode, Volume
from mooring.volumes.binding import BindingPlan
from mooring.volumes.in_tree import in_zone, reaches_on


@dataclass(frozen=True)
class InformerLookups:
    """Cached objects by key, None if unknown."""

    pod: Callable[[str], Pod | None]
    node: Callable[[str], Node | None]
    claim: Callable[[str], Claim | None]
    volume: Callable[[str], Volume | None]
    csi_node: Callable[[str], CsiNode | None]
    #: Whether a volume is held for the claim with this uid.
    holds: Callable[[Volume, str], bool] = lambda volume, uid: False


class Progress(NamedTuple):
    """Done, pending (neither), or a problem that waiting does not solve."""

    done: bool = False
    problem: str = ""
    #: The problem is that provisioning failed on the chosen node.
    provisioning_failed: bool = False


def progress_of(
    pod: Pod,
    plan: BindingPlan,
    *,
    written: Mapping[str, int],
    lookups: InformerLookups,
    awaited: Collection[str] = (),
) -> Progress:
    """`written`: the resourceVersions of the binder's own writes, by key of the volume or claim. `awaited`: the keys of
    claims that are bound for other members of the pod's group, or by the coordinator."""
    node = lookups.node(plan.node)
    if node is None:
        return Progress(problem=f'failed to get node "{plan.node}": node "{plan.node}" not found')
    now = lookups.pod(pod.key)
    if now is None or now.uid != pod.uid:
        return Progress(problem=f'pod does not exist any more: pod "{pod.name}" not found')
    waiting = False
    for part in (
        _static(plan, written, lookups),
        _provisioned(plan, written, lookups),
        _all_bound(pod, plan, node, lookups, awaited),
    ):
        if part.problem:
            return part
        waiting |= not part.done
    return Progress(done=not waiting)


def objects_of(pod: Pod, plan: BindingPlan, lookups: InformerLookups) -> set[tuple[str, str]]:
    """(kind, key) of the objects whose updates can change the progress, as far as known."""
    objects = {("Pod", pod.key), ("Node", plan.node)}
    objects |= {("PersistentVolume", binding.volume.key) for binding in plan.static}
    for key in pod.claim_keys:
        objects.add(("PersistentVolumeClaim", key))
        claim = lookups.claim(key)
        if claim is not None and claim.spec.volume_name:
            objects.add(("PersistentVolume", claim.spec.volume_name))
    return objects


def _static(plan: BindingPlan, written: Mapping[str, int], lookups: InformerLookups) -> Progress:
    """Existing volumes: still reserved for their claims."""
    done = True
    for binding in plan.static:
        volume, claim = lookups.volume(binding.volume.key), lookups.claim(binding.claim.key)
        if volume is None:
            return Progress(problem=f'failed to check binding: persistentvolume "{binding.volume.name}" not found')
        if claim is None or claim.uid != binding.claim.uid:
            name = binding.claim.name
            return Progress(problem=f'failed to check binding: persistentvolumeclaim "{name}" not found')
        if _is_older(volume, written) or lookups.holds(volume, claim.uid):
            done = False
            continue
        reference = volume.spec.claim_ref
        if reference is None or reference.uid != claim.uid:
            return Progress(problem=f'ClaimRef got reset for pv "{volume.name}"')
        if volume.deleting and not claim.fully_bound:
            # The PV controller binds no claim to a terminating volume: waiting would last until the timeout.
            return Progress(problem=f'pv "{volume.name}" is being deleted')
        done &= claim.fully_bound
    return Progress(done)


def _provisioned(plan: BindingPlan, written: Mapping[str, int], lookups: InformerLookups) -> Progress:
    """Volumes to provision: still requested for this node."""
    done = True
    for each in plan.provision:
        claim = lookups.claim(each.claim.key)
        if claim is None or claim.uid != each.claim.uid:
            name = each.claim.name
            return Progress(problem=f'failed to check provisioning pvc: persistentvolumeclaim "{name}" not found')
        if _is_older(claim, written):
            done = False
            continue
        if claim.selected_node is None:
            return Progress(problem=f'selectedNode annotation reset for PVC "{claim.name}"', provisioning_failed=True)
        if claim.selected_node != plan.node:
            return Progress(problem=f'provisioning failed for PVC "{claim.name}"', provisioning_failed=True)
        done &= claim.fully_bound
    return Progress(done)


def _all_bound(pod: Pod, plan: BindingPlan, node: Node, lookups: InformerLookups, awaited: Collection[str]) -> Progress:
    """All volumes: bound to their claims, and accessible from the node."""
    planned = {each.claim.key for each in plan.static} | {each.claim.key for each in plan.provision} | {*awaited}
    done = True
    for key in dict.fromkeys(pod.claim_keys):
        claim = lookups.claim(key)
        if claim is None:
            return Progress(problem=f'persistentvolumeclaim "{key.partition("/")[2]}" not found')
        volume = lookups.volume(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is None or not claim.fully_bound:
            if key not in planned:
                # It was bound when the node was chosen, and no controller is about to bind it again.
                return Progress(problem=f'persistentvolumeclaim "{claim.name}" is not bound any more')
            done = False
            continue
        if not reaches_on(node.name, node.metadata.labels, volume, lookups.csi_node(node.name)):
            mismatch = f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}"'
            return Progress(problem=f"{mismatch}: no matching NodeSelectorTerms")
        if not in_zone(volume, node.metadata.labels):
            return Progress(problem=f'pv "{volume.name}" zone labels don\'t match node "{node.name}"')
        reference = volume.spec.claim_ref
        if reference is not None and reference.uid not in ("", claim.uid):
            return Progress(problem=f'pv "{volume.name}" belongs to another claim than "{claim.name}"')
        # Race: claims and volumes have separate watches, and the volume's may be the later one.
        done &= reference is not None and reference.uid == claim.uid
    return Progress(done)


def _is_older(item: Volume | Claim, written: Mapping[str, int]) -> bool:
    return int(item.metadata.resource_version) < written.get(item.key, 0)
