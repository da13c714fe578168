"""What could be done so that the claims of a pod get volumes where the pod can run: a choice of steps for each. Pure.

Whether any of it helps is for `remedies` to try. A claim that has no volume may be made again in another form; one that
has a volume only with the loss of its data, which the text then begins with.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from mooring.api import keys, quantity
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.explain import data_loss, rooms
from mooring.explain.cluster_changes import DeletePods
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.mismatches import amount
from mooring.explain.remedies import Choice, Proposal, Step
from mooring.explain.storage_changes import (
    AddVolume,
    AllowTopology,
    ChangeClass,
    ClearClaimRef,
    CreateClass,
    ForgetSelectedNode,
    PublishCapacity,
    RaiseCapacity,
    RecreateClaim,
    RestoreVolume,
    ShrinkClaim,
)
from mooring.explain.trials import Scene
from mooring.explain.verdicts import Candidate, ClaimStanding, ClaimVerdict, NodeVerdict
from mooring.scheduler.contract import RejectionCode
from mooring.volumes.clean_claims import is_clean
from mooring.volumes.shortage import readable
from mooring.volumes.zone_parameters import allowed_topologies

#: The name of a node that is proposed and does not exist yet.
NEW_NODE: Final = "a-new-node"
#: Other classes that are tried for a claim, and bound claims that are tried without their volumes.
MAX_CLASSES: Final = 3
MAX_CLAIMS: Final = 3

_GROWN: Final = frozenset({rooms.TOO_SMALL, rooms.ZERO, rooms.TOGETHER, rooms.IN_FLIGHT, rooms.MAXIMUM})
_UNUSABLE: Final = frozenset({rooms.NO_TOPOLOGY, rooms.NO_FIGURE, rooms.UNREADABLE})


def choices_on(scene: Scene, node: str, code: RejectionCode, verdict: NodeVerdict) -> Iterator[Choice]:
    """The choices about claims of the pod that keep it off a node for this reason."""
    for found in verdict.volumes:
        claim = scene.objects.get(CLAIM, found.claim)
        if claim is None or found.code != code.value:
            continue
        match code:
            case RejectionCode.NO_VOLUME | RejectionCode.STORAGE_CAPACITY:
                yield tuple(_unserved(scene, node, found, claim))
            case RejectionCode.VOLUME_MISSING:
                yield (_restored(claim),)
            case RejectionCode.VOLUME_AFFINITY:
                yield (_made_again(scene.objects, claim),)
    if code is RejectionCode.VOLUME_ZONE:
        for found in verdict.volumes:
            claim = scene.objects.get(CLAIM, found.claim)
            if claim is not None and found.state == "bound":
                yield (_made_again(scene.objects, claim),)


def _unserved(scene: Scene, node: str, found: ClaimVerdict, claim: Claim) -> Iterator[Step]:
    """Without a loss first."""
    if claim.selected_node not in (None, node):
        yield forgotten(claim)
        return
    provisioners = scene.snapshot.volumes.provisioners
    storage_class = found.storage_class
    if not provisioners.provisioner(storage_class):
        yield _added(claim, node, storage_class)
        yield from _cleared(found.candidates, claim)
        return
    here = scene.snapshot.topology.named(node)
    if not provisioners.allowed(storage_class) & here:
        labels = _place_of(scene, storage_class, node)
        if labels:
            place = ", ".join(f"{key}={value}" for key, value in labels.items())
            text = f"create StorageClass {storage_class} again so that it allows volumes in {place}"
            yield Step(text, (AllowTopology(storage_class, labels),))
        return
    yield from _with_room(scene, node, found, claim)


def _with_room(scene: Scene, node: str, found: ClaimVerdict, claim: Claim) -> Iterator[Step]:
    pool = scene.snapshot.volumes.provisioners.pool
    mine = pool(claim.storage_class)
    # All of the pod's claims that take from the same storage need room, whether a driver's figures add up or not.
    size = sum(_bytes(each) for each in _open_claims(scene) if pool(each.storage_class) == mine)
    nearest = found.rooms[0] if found.rooms else None
    if nearest is None or nearest.problem in (rooms.MISSING, rooms.ELSEWHERE) or nearest.problem in _UNUSABLE:
        why = f" ({nearest.detail})" if nearest is not None else ""
        text = f"with at least {readable(size)} of class {found.storage_class} that its driver publishes for the node"
        text = (
            text
            if node == NEW_NODE
            else (
                f"have the driver publish at least {readable(size)} of free storage of class {found.storage_class} for "
                f"{node}: see that its provisioner runs with capacity publishing on and knows the node{why}"
            )
        )
        yield Step(text, (PublishCapacity(found.storage_class, node, size),))
        return
    grown = nearest.problem in _GROWN and nearest.missing_bytes > 0
    if grown:
        missing = max(nearest.missing_bytes, size - nearest.largest_bytes)
        text = f"add {readable(missing)} to segment {nearest.segment} ({nearest.capacity})"
        yield Step(text, (RaiseCapacity(nearest.capacity, missing),))
    left = nearest.largest_bytes - (size - _bytes(claim))
    if 0 < left < _bytes(claim):
        text = f"create claim {claim.key} again with at most {readable(left)}"
        text = text if grown else f"{text}: {nearest.detail}"
        yield Step(text, (ShrinkClaim(claim.key, str(left)),))


def _added(claim: Claim, node: str, storage_class: str) -> Step:
    modes = ",".join(claim.spec.access_modes) or "any access mode"
    reach = "" if not node else f" that {node} reaches" if node != NEW_NODE else " on it"
    mode = f", {claim.spec.volume_mode}" if claim.spec.volume_mode != "Filesystem" else ""
    verb = "with" if node == NEW_NODE else "add"
    size = amount(claim.request)
    wanted = f"class {storage_class or 'none'}, at least {size}, {modes}{mode}"
    text = f"{verb} a volume for {claim.key}{reach}: {wanted}"
    change = AddVolume(claim.key, storage_class, size, claim.spec.access_modes, claim.spec.volume_mode, node)
    return Step(text, (change,))


def _cleared(candidates: Sequence[Candidate], claim: Claim) -> Iterator[Step]:
    """The first Released volume that would do if its claimRef were removed."""
    for one in candidates:
        if one.once_cleared:
            yield Step(data_loss.clear_claim_ref(one.volume), (ClearClaimRef(one.volume, claim.key),))
            return


def _restored(claim: Claim) -> Step:
    name = claim.spec.volume_name
    text = f"create PersistentVolume {name} again with a claimRef to {claim.key}, if its storage is still there"
    return Step(text, (RestoreVolume(name, claim.key),))


def _made_again(objects: ClusterObjects, claim: Claim) -> Step:
    volume = objects.get(VOLUME, claim.spec.volume_name) if claim.spec.volume_name else None
    users = [pod.key for pod in objects.of(POD) if claim.key in pod.claim_keys and not pod.finished]
    text = data_loss.delete_claim(claim.key, volume, users, unused=is_clean(claim))
    changes = (*((DeletePods(tuple(users)),) if users else ()), RecreateClaim(claim.key))
    return Step(f"{text}, then create the claim again and restore the data into it", changes)


def forgotten(claim: Claim) -> Step:
    text = f"kubectl -n {claim.namespace} annotate pvc {claim.name} {keys.SELECTED_NODE}-"
    return Step(text, (ForgetSelectedNode(claim.key),))


def other_classes(scene: Scene) -> Iterator[Proposal]:
    """For claims without a volume that get none anywhere: the classes there are besides."""
    for claim in _open_claims(scene)[:MAX_CLAIMS]:
        if claim.selected_node is None:
            yield from _in_other_class(scene.objects, claim)


def _in_other_class(objects: ClusterObjects, claim: Claim) -> Iterator[Proposal]:
    delayed = sorted(
        each.name for each in objects.of(STORAGE_CLASS) if each.delayed and each.name != claim.storage_class
    )
    text = f"create claim {claim.key}, which has no volume and no data yet, again with class"
    steps = tuple(Step(f"{text} {name}", (ChangeClass(claim.key, name),)) for name in delayed[:MAX_CLASSES])
    if steps:
        yield Proposal((steps,), alone=True)


def without_volumes(scene: Scene) -> Iterator[Proposal]:
    """The mend for a pod that has some of its volumes where it cannot get the others: to let one of them go."""
    claims = scene.attempt.claims
    if isinstance(claims, str) or not claims.bound:
        return
    for claim in claims.bound[:MAX_CLAIMS]:
        users = [pod for pod in scene.objects.of(POD) if claim.key in pod.claim_keys and not pod.finished]
        if not any(pod.spec.node_name for pod in users if pod.key != scene.pod.key):
            yield Proposal(((_made_again(scene.objects, claim),),))


def for_standing(standing: ClaimStanding, claim: Claim, objects: ClusterObjects) -> Iterator[Proposal]:
    """What could be done about a claim that waits for something else than its pod's node."""
    match standing.state:
        case "NoVolume":
            steps = (_added(claim, "", claim.storage_class), *_cleared(standing.candidates, claim))
            yield Proposal((steps,))
            yield from _in_other_class(objects, claim)
        case "ClassMissing":
            yield from _in_other_class(objects, claim)
            for model in _models(objects):
                text = f"create StorageClass {claim.storage_class}, for example like {model}"
                yield Proposal(((Step(text, (CreateClass(claim.storage_class, model),)),),))
        case "VolumeMissing" | "Lost":
            if claim.spec.volume_name:
                yield Proposal(((_restored(claim),),))
            yield Proposal(((_made_again(objects, claim),),))
        case "Unreachable":
            yield Proposal(((_made_again(objects, claim),),))
        case "SelectedNodeGone":
            yield Proposal(((forgotten(claim),),))
        case "Misbound":
            yield Proposal(((_made_again(objects, claim),),))
        case "NoProvisioner":
            yield from _in_other_class(objects, claim)


def _models(objects: ClusterObjects) -> list[str]:
    """One existing class that others can be made like: the default one, or the first by name."""
    classes = sorted(each.name for each in objects.of(STORAGE_CLASS) if each.delayed)
    default = [each.name for each in objects.of(STORAGE_CLASS) if keys.DEFAULT_CLASS in each.metadata.annotations]
    return [name for name in (*default, *classes) if name in classes][:1]


def volume_on_new_node(scene: Scene, node: str) -> Iterator[Step]:
    """What the pod's open claims need on a node that does not exist yet."""
    provisioners = scene.snapshot.volumes.provisioners
    for claim in _open_claims(scene):
        storage_class = claim.storage_class
        if not provisioners.provisioner(storage_class):
            yield _added(claim, node, storage_class)


def _open_claims(scene: Scene) -> list[Claim]:
    claims = scene.attempt.claims
    return [] if isinstance(claims, str) else [needs.claim for needs in (*claims.unbound, *claims.selected)]


def _place_of(scene: Scene, storage_class: str, node: str) -> dict[str, str]:
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
