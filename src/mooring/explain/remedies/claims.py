"""Steps that would give the claims of a pod their volumes. Pure; `search` verifies them.

An unbound claim may be recreated in another form; for a bound one the text begins with the data loss.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from mooring.api import quantity, well_known
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME
from mooring.api.quantity import QuantityError
from mooring.api.views.storage import Claim
from mooring.explain import capacity
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.inspection import PodDecision
from mooring.explain.remedies import changes, data_loss
from mooring.explain.remedies.search import Choice, Proposal, Step
from mooring.explain.results import Candidate, ClaimReport, ClaimVerdict, NodeVerdict, Reason
from mooring.explain.volume_candidates import quantity_text
from mooring.scheduler.framework.interface import RejectionCode
from mooring.volumes.claim_rollback import is_clean
from mooring.volumes.in_tree import allowed_topologies
from mooring.volumes.shortage import readable_size

#: The name of a node that is proposed and does not exist yet.
NEW_NODE: Final = "a-new-node"
#: Other classes that are tried for a claim, and bound claims that are tried without their volumes.
MAX_CLASSES: Final = 3
MAX_CLAIMS: Final = 3

_GROWN: Final = frozenset({capacity.TOO_SMALL, capacity.ZERO, capacity.TOGETHER, capacity.IN_FLIGHT, capacity.MAXIMUM})
_UNUSABLE: Final = frozenset({capacity.NO_TOPOLOGY, capacity.NO_FIGURE, capacity.UNREADABLE})


def choices_on(scene: PodDecision, node: str, reason: Reason, verdict: NodeVerdict) -> Iterator[Choice]:
    """The choices about claims of the pod that keep it off a node for this reason."""
    for found in verdict.volumes:
        claim = scene.objects.get(CLAIM, found.claim)
        if claim is None:
            continue
        match RejectionCode(reason.code):
            case RejectionCode.VOLUME_ZONE if found.state == "bound":
                yield (_recreate_claim_step(scene.objects, claim),)
            case code if found.code != code.value:
                continue
            case RejectionCode.NO_VOLUME | RejectionCode.STORAGE_CAPACITY:
                yield tuple(_provisioning_steps(scene, node, found, claim))
            case RejectionCode.VOLUME_MISSING:
                yield (_restore_volume_step(claim),)
            case RejectionCode.VOLUME_AFFINITY:
                yield (_recreate_claim_step(scene.objects, claim),)


def _provisioning_steps(scene: PodDecision, node: str, found: ClaimVerdict, claim: Claim) -> Iterator[Step]:
    """Without a loss first."""
    if claim.selected_node not in (None, node):
        yield _clear_selected_node(claim)
        return
    provisioners = scene.snapshot.volumes.provisioners
    storage_class = found.storage_class
    if not provisioners.provisioner(storage_class):
        yield _add_volume_step(claim, node, storage_class)
        yield from _clear_claim_ref_steps(found.candidates, claim)
        return
    if not provisioners.allowed(storage_class) & scene.snapshot.topology.named(node):
        if labels := _place_of(scene, storage_class, node):
            place = ", ".join(f"{key}={value}" for key, value in labels.items())
            text = f"create StorageClass {storage_class} again so that it allows volumes in {place}"
            yield Step(text, (changes.AllowTopology(storage_class, labels),))
        return
    yield from _capacity_steps(scene, node, found, claim)


def _capacity_steps(scene: PodDecision, node: str, found: ClaimVerdict, claim: Claim) -> Iterator[Step]:
    pool = scene.snapshot.volumes.provisioners.pool
    mine = pool(claim.storage_class)
    # All of the pod's claims that take from the same storage need room, whether a driver's figures add up or not.
    size = sum(_bytes(needs.claim) for needs in scene.open_claims if pool(needs.storage_class) == mine)
    nearest = found.capacity_reports[0] if found.capacity_reports else None
    if nearest is None or nearest.problem in (capacity.MISSING, capacity.ELSEWHERE) or nearest.problem in _UNUSABLE:
        why = f" ({nearest.detail})" if nearest is not None else ""
        at_least = f"at least {readable_size(size)} of"
        text = (
            f"with {at_least} class {found.storage_class} that its driver publishes for the node"
            if node == NEW_NODE
            else f"have the driver publish {at_least} free capacity of class {found.storage_class} for {node}: check "
            f"that its provisioner runs with capacity publishing enabled and knows the node{why}"
        )
        yield Step(text, (changes.PublishCapacity(found.storage_class, node, size),))
        return
    grown = nearest.problem in _GROWN and nearest.missing_bytes > 0
    if grown:
        missing = max(nearest.missing_bytes, size - nearest.largest_bytes)
        text = f"add {readable_size(missing)} to segment {nearest.segment} ({nearest.capacity})"
        yield Step(text, (changes.RaiseCapacity(nearest.capacity, missing),))
    left = nearest.largest_bytes - (size - _bytes(claim))
    if 0 < left < _bytes(claim):
        text = f"create claim {claim.key} again with at most {readable_size(left)}"
        text = text if grown else f"{text}: {nearest.detail}"
        yield Step(text, (changes.ShrinkClaim(claim.key, str(left)),))


def _add_volume_step(claim: Claim, node: str, storage_class: str) -> Step:
    modes = ",".join(claim.spec.access_modes) or "any access mode"
    reach = "" if not node else f" that {node} reaches" if node != NEW_NODE else " on it"
    mode = f", {claim.spec.volume_mode}" if claim.spec.volume_mode != "Filesystem" else ""
    verb = "with" if node == NEW_NODE else "add"
    size = quantity_text(claim.request)
    wanted = f"class {storage_class or 'none'}, at least {size}, {modes}{mode}"
    text = f"{verb} a volume for {claim.key}{reach}: {wanted}"
    change = changes.AddVolume(claim.key, storage_class, size, claim.spec.access_modes, claim.spec.volume_mode, node)
    return Step(text, (change,))


def _clear_claim_ref_steps(candidates: Sequence[Candidate], claim: Claim) -> Iterator[Step]:
    """The first Released volume that would do if its claimRef were removed."""
    released = [one.volume for one in candidates if one.once_cleared][:1]
    return (Step(data_loss.clear_claim_ref(volume), (changes.ClearClaimRef(volume, claim.key),)) for volume in released)


def _restore_volume_step(claim: Claim) -> Step:
    name = claim.spec.volume_name
    text = f"create PersistentVolume {name} again with a claimRef to {claim.key}, if its storage is still there"
    return Step(text, (changes.RestoreVolume(name, claim.key),))


def _recreate_claim_step(objects: ClusterObjects, claim: Claim) -> Step:
    volume = objects.get(VOLUME, claim.spec.volume_name)
    users = [pod.key for pod in objects.of(POD) if claim.key in pod.claim_keys and not pod.finished]
    text = data_loss.delete_claim(claim.key, volume, users, unused=is_clean(claim))
    freed = (changes.DeletePods(tuple(users)),) if users else ()
    text = f"{text}, then create the claim again and restore the data into it"
    return Step(text, (*freed, changes.RecreateClaim(claim.key)))


def _clear_selected_node(claim: Claim) -> Step:
    text = f"kubectl -n {claim.namespace} annotate pvc {claim.name} {well_known.SELECTED_NODE}-"
    return Step(text, (changes.ForgetSelectedNode(claim.key),))


def other_classes(scene: PodDecision) -> Iterator[Proposal]:
    """For claims without a volume that get none anywhere: the classes there are besides."""
    for needs in scene.open_claims[:MAX_CLAIMS]:
        if needs.claim.selected_node is None:
            yield from _in_other_class(scene.objects, needs.claim)


def _in_other_class(objects: ClusterObjects, claim: Claim) -> Iterator[Proposal]:
    others = (each for each in objects.of(STORAGE_CLASS) if each.name != claim.storage_class)
    delayed = sorted(each.name for each in others if each.delayed)
    text = f"create claim {claim.key}, which has no volume and no data yet, again with class"
    steps = tuple(Step(f"{text} {name}", (changes.ChangeClass(claim.key, name),)) for name in delayed[:MAX_CLASSES])
    if steps:
        yield Proposal((steps,), alone=True)


def without_volumes(scene: PodDecision) -> Iterator[Proposal]:
    """The mend for a pod that has some of its volumes where it cannot get the others: to let one of them go."""
    for claim in scene.claims.bound[:MAX_CLAIMS]:
        users = [pod for pod in scene.objects.of(POD) if claim.key in pod.claim_keys and not pod.finished]
        if not any(pod.spec.node_name for pod in users if pod.key != scene.pod.key):
            yield Proposal(((_recreate_claim_step(scene.objects, claim),),))


def claim_proposals(report: ClaimReport, claim: Claim, objects: ClusterObjects) -> Iterator[Proposal]:
    """What could be done about a claim that waits for something else than its pod's node."""
    match report.state:
        case "NoVolume":
            added = _add_volume_step(claim, "", claim.storage_class)
            yield Proposal(((added, *_clear_claim_ref_steps(report.candidates, claim)),))
            yield from _in_other_class(objects, claim)
        case "ClassMissing":
            yield from _in_other_class(objects, claim)
            for model in _template_classes(objects):
                text = f"create StorageClass {claim.storage_class}, for example like {model}"
                yield Proposal(((Step(text, (changes.CreateClass(claim.storage_class, model),)),),))
        case "VolumeMissing" | "Lost" | "Unreachable" | "Misbound":
            if report.state in ("VolumeMissing", "Lost") and claim.spec.volume_name:
                yield Proposal(((_restore_volume_step(claim),),))
            yield Proposal(((_recreate_claim_step(objects, claim),),))
        case "SelectedNodeGone":
            yield Proposal(((_clear_selected_node(claim),),))
        case "NoProvisioner":
            yield from _in_other_class(objects, claim)


def _template_classes(objects: ClusterObjects) -> list[str]:
    """One existing class that others can be made like: the default one, or the first by name."""
    classes = sorted(each.name for each in objects.of(STORAGE_CLASS) if each.delayed)
    default = [each.name for each in objects.of(STORAGE_CLASS) if well_known.DEFAULT_CLASS in each.metadata.annotations]
    return [name for name in (*default, *classes) if name in classes][:1]


def volume_on_new_node(scene: PodDecision, node: str) -> Iterator[Step]:
    """What the pod's open claims need on a node that does not exist yet."""
    for needs in scene.open_claims:
        if not scene.snapshot.volumes.provisioners.provisioner(needs.storage_class):
            yield _add_volume_step(needs.claim, node, needs.storage_class)


def _place_of(scene: PodDecision, storage_class: str, node: str) -> dict[str, str]:
    """The labels of a node under the keys that the class's allowed topologies go by."""
    found = scene.snapshot.volumes.storage_class(storage_class)
    labels = scene.snapshot.topology.labels(node)
    terms = () if found is None else allowed_topologies(found)
    wanted = dict.fromkeys(one.key for term in terms for one in term.match_label_expressions)
    return {key: labels[key] for key in wanted if key in labels}


def _bytes(claim: Claim) -> int:
    try:
        return quantity.to_bytes(claim.request)
    except QuantityError:
        return 0
