"""Volumes that no node can reach: what is bound to them or waits for them, and what an administrator can do.

Pure. A volume is an orphan if its node affinity, or its zone labels, choose none of the nodes that are ready: its node
was deleted or is lost, its zone is empty, its labels were changed. So are claims whose volume is gone and claims for
which a node was chosen that is gone. Nothing is done about any of it here: only an administrator knows whether the data
may go.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from mooring.api import keys, quantity
from mooring.api.kinds import CLAIM, NODE, POD, VOLUME
from mooring.api.label_selector import Operator
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.explain import data_loss, new_node
from mooring.explain.cluster_changes import RecoverNode
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.lost_nodes import lost_nodes
from mooring.explain.node_remedies import recovery
from mooring.explain.remedies import Step
from mooring.explain.trials import applied
from mooring.explain.verdicts import Part, Remedy
from mooring.volumes.affinity import affinity
from mooring.volumes.topology import TopologyIndex
from mooring.volumes.zones import in_zone, places_of

#: Nodes that are proposed for a volume.
MAX_NODES: Final = 3
#: What makes a claim one of these, beside being bound to an orphan.
VOLUME_GONE: Final = "its volume is gone"
NODE_GONE: Final = "the node chosen for it is gone"


class WaitingPod(Part, frozen=True, omit_defaults=True):
    """A pod that uses a claim; `since` is when it was last found to have no place."""

    pod: str
    phase: str
    node: str = ""
    since: str | None = None


class OrphanedClaim(Part, frozen=True, omit_defaults=True):
    """A claim that cannot be used as things are, and who wants to use it."""

    claim: str
    phase: str
    reason: str
    created: str | None = None
    pods: tuple[WaitingPod, ...] = ()
    #: What can be done, the gentlest first; what costs data begins with the loss.
    helps: tuple[str, ...] = ()


class Orphan(Part, frozen=True, omit_defaults=True):
    """A volume that no node can reach."""

    volume: str
    phase: str
    size: str
    storage_class: str
    reclaim_policy: str
    #: What a node would have to be to reach it.
    where: str
    #: Nodes its affinity names by their host names, and which are not there.
    missing_nodes: tuple[str, ...] = ()
    #: Nodes that would reach it and are not ready.
    lost_nodes: tuple[str, ...] = ()
    created: str | None = None
    #: Since when it is in this phase, as far as it says.
    since: str | None = None
    claim: OrphanedClaim | None = None
    helps: tuple[str, ...] = ()
    #: Those of `helps` that are changes, tried: with them some node reaches the volume.
    remedies: tuple[Remedy, ...] = ()


class Orphans(Part, frozen=True):
    verdict: str
    ok: bool
    volumes: tuple[Orphan, ...] = ()
    claims: tuple[OrphanedClaim, ...] = ()


def orphans(objects: ClusterObjects) -> Orphans:
    """All of them, by name."""
    finding = _Finding(objects)
    volumes = tuple(sorted(finding.volumes(), key=lambda orphan: orphan.volume))
    claims = tuple(sorted(finding.claims(), key=lambda claim: claim.claim))
    return Orphans(_verdict(volumes, claims), not volumes and not claims, volumes, claims)


def orphan_of(volume: Volume, objects: ClusterObjects) -> Orphan | None:
    """What is to be said of this volume as an orphan; None where some node can reach it."""
    return _Finding(objects).of(volume)


class _Finding:
    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._nodes = {node.name: node for node in objects.of(NODE)}
        self._topology = TopologyIndex()
        for node in self._nodes.values():
            self._topology.put(node.name, node.metadata.labels)
        self._lost = lost_nodes(objects)
        self._hosts = {node.metadata.labels.get(keys.HOSTNAME, node.name) for node in self._nodes.values()}
        self._claims = {claim.key: claim for claim in objects.of(CLAIM)}
        self._users: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in objects.of(POD):
            for key in pod.claim_keys:
                self._users[key].append(pod)

    def volumes(self) -> Iterator[Orphan]:
        return (orphan for volume in self._objects.of(VOLUME) if (orphan := self.of(volume)) is not None)

    def of(self, volume: Volume) -> Orphan | None:
        return None if self._reachable(volume) else self._orphan(volume)

    def claims(self) -> Iterator[OrphanedClaim]:
        """Those that are in trouble without an orphan that would show it."""
        volumes = {volume.name for volume in self._objects.of(VOLUME)}
        for claim in self._claims.values():
            name, node = claim.spec.volume_name, claim.selected_node
            if name and name not in volumes:
                yield self._claim(claim, VOLUME_GONE, _without_volume(claim))
            elif not name and node is not None and node not in self._nodes:
                yield self._claim(claim, f"{NODE_GONE}: {node}", _without_node(claim))

    def _reachable(self, volume: Volume) -> bool:
        return any(name not in self._lost for name in self._reaching(volume))

    def _reaching(self, volume: Volume) -> Iterator[str]:
        for name in self._topology.names(self._topology.matching(affinity(volume))):
            if in_zone(volume, self._nodes[name].metadata.labels):
                yield name

    def _orphan(self, volume: Volume) -> Orphan:
        missing = tuple(sorted(self._missing(volume)))
        reference = volume.spec.claim_ref
        claim = self._claims.get(f"{reference.namespace}/{reference.name}") if reference is not None else None
        if claim is not None and reference is not None and reference.uid not in ("", claim.uid):
            # A claim of the name came later; this volume was another's.
            claim = None
        unreached = f"its volume {volume.name} can be reached from no node"
        orphaned = None if claim is None else self._claim(claim, unreached)
        remedies = tuple(self._tried(volume))
        return Orphan(
            volume=volume.name,
            phase=volume.status.phase or "Pending",
            size=_amount(volume),
            storage_class=volume.storage_class,
            reclaim_policy=volume.spec.persistent_volume_reclaim_policy,
            where=_where(volume),
            missing_nodes=missing,
            lost_nodes=tuple(sorted(self._reaching(volume))),
            created=volume.metadata.creation_timestamp,
            since=volume.status.last_phase_transition_time,
            claim=orphaned,
            helps=(*(one.text for one in remedies), *_costly(volume, orphaned)),
            remedies=remedies,
        )

    def _tried(self, volume: Volume) -> Iterator[Remedy]:
        """Nodes to bring back or to add, with which the volume can be reached."""
        place, after = affinity(volume), _after_return(volume)
        lost = [node for name in sorted(self._reaching(volume)) if (node := self._nodes.get(name)) is not None]
        proposals = [
            *(Step(recovery(node, self._objects.moment), (RecoverNode(node.name),)) for node in lost[:MAX_NODES]),
            *(proposal.choices[0][0] for proposal in new_node.returning_nodes(place, self._objects)),
            *(proposal.choices[0][0] for proposal in new_node.new_node_at(place, self._objects)),
        ]
        for step in proposals[:MAX_NODES]:
            changed, _ = applied(self._objects, step.changes)
            if _Finding(changed)._reachable(volume):
                yield Remedy(f"{step.text}{after}", step.changes)

    def _missing(self, volume: Volume) -> Iterator[str]:
        required = affinity(volume)
        for term in required.terms if required is not None else ():
            for one in term.expressions:
                if one.key == keys.HOSTNAME and one.operator is Operator.IN:
                    yield from (name for name in one.values if name not in self._hosts)

    def _claim(self, claim: Claim, reason: str, helps: Sequence[str] = ()) -> OrphanedClaim:
        users = sorted(self._users.get(claim.key, ()), key=lambda pod: pod.key)
        return OrphanedClaim(
            claim=claim.key,
            phase=claim.status.phase or "Pending",
            reason=reason,
            created=claim.metadata.creation_timestamp,
            pods=tuple(_waiting(pod) for pod in users if not pod.finished),
            helps=tuple(helps),
        )


def _waiting(pod: Pod) -> WaitingPod:
    said = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), None)
    since = said.last_transition_time if said is not None else None
    return WaitingPod(pod.key, pod.status.phase or "Pending", pod.spec.node_name, since)


def _after_return(volume: Volume) -> str:
    """What is still to be done about a volume once a node reaches it."""
    if volume.status.phase == "Released":
        return "; the volume is Released, and no claim gets it until its claimRef is removed"
    return ""


def _costly(volume: Volume, claim: OrphanedClaim | None) -> Iterator[str]:
    """What to do without the volume."""
    if claim is not None:
        pods = [each.pod for each in claim.pods]
        yield f"{data_loss.delete_claim(claim.claim, volume, pods)}; a StatefulSet then makes both again"
    yield data_loss.delete_volume(volume)


def _without_volume(claim: Claim) -> Sequence[str]:
    return (
        f"create PersistentVolume {claim.spec.volume_name} again, if its storage is still there, with a claimRef to "
        "this claim",
        data_loss.delete_claim(claim.key),
    )


def _without_node(claim: Claim) -> Sequence[str]:
    notes = f"{keys.SELECTED_NODE}-"
    return (
        "wait: the provisioner, or Mooring's selected-node-janitor, gives the choice back to the scheduler",
        f"by hand: kubectl -n {claim.namespace} annotate pvc {claim.name} {notes}",
    )


def _where(volume: Volume) -> str:
    required = affinity(volume)
    terms = [] if required is None else [",".join(map(str, term.expressions)) for term in required.terms]
    terms = [term for term in terms if term]
    labels = [f"{place.key}={'|'.join(place.values)}" for place in places_of(volume)]
    return " or ".join(terms) or ",".join(labels) or "nowhere"


def _amount(volume: Volume) -> str:
    try:
        return quantity.canonical(volume.size)
    except QuantityError:
        return str(volume.size)


def _verdict(volumes: Sequence[Orphan], claims: Sequence[OrphanedClaim]) -> str:
    if not volumes and not claims:
        return "Every volume can be reached from some node that is ready."
    held = [orphan.claim for orphan in volumes if orphan.claim is not None]
    waiting = {pod.pod for claim in (*held, *claims) for pod in claim.pods}
    parts = []
    ready = " that is ready" if any(orphan.lost_nodes for orphan in volumes) else ""
    if volumes:
        parts.append(f"{_count(len(volumes), 'volume')} can be reached from no node{ready}")
    if claims:
        parts.append(f"{_count(len(claims), 'claim')} lost {'its' if len(claims) == 1 else 'their'} volume or node")
    tail = f"; {_count(len(held), 'claim')} and {_count(len(waiting), 'pod')} depend on that" if held or waiting else ""
    return f"{' and '.join(parts)}{tail}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
