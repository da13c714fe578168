"""Unreachable volumes: no ready node matches their node affinity or zone labels. Pure.

Also claims whose volume or selected node was deleted. Only reports: an administrator decides whether the data is
needed.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, VOLUME
from mooring.api.selectors import Operator
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.explain.cluster_objects import ClusterObjects, lost_nodes
from mooring.explain.cluster_view import users_of
from mooring.explain.remedies import data_loss, new_node
from mooring.explain.remedies.changes import RecoverNode
from mooring.explain.remedies.nodes import recovery
from mooring.explain.remedies.search import Step
from mooring.explain.remedies.verification import applied
from mooring.explain.results import ExplainStruct, Remedy
from mooring.explain.text import counted_noun
from mooring.explain.volume_candidates import quantity_text
from mooring.volumes.in_tree import in_zone, zone_requirements_of
from mooring.volumes.matching import is_reserved_for
from mooring.volumes.topology import TopologyIndex, affinity_of

#: Nodes that are proposed for a volume.
MAX_NODES: Final = 3
#: What makes a claim one of these, beside being bound to an orphan.
VOLUME_DELETED: Final = "its volume was deleted"
SELECTED_NODE_DELETED: Final = "its selected node was deleted"


class WaitingPod(ExplainStruct, frozen=True, omit_defaults=True):
    """A pod that uses a claim; `since` is when it was last found to have no place."""

    pod: str
    phase: str
    node: str = ""
    since: str | None = None


class OrphanedClaim(ExplainStruct, frozen=True, omit_defaults=True):
    """A claim that cannot be used as things are, and who wants to use it."""

    claim: str
    phase: str
    reason: str
    created: str | None = None
    pods: tuple[WaitingPod, ...] = ()
    #: What can be done, the gentlest first; what costs data begins with the loss.
    remedy_texts: tuple[str, ...] = msgspec.field(name="helps", default=())


class Orphan(ExplainStruct, frozen=True, omit_defaults=True):
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
    remedy_texts: tuple[str, ...] = msgspec.field(name="helps", default=())
    #: Those of `helps` that are changes, tried: with them some node reaches the volume.
    remedies: tuple[Remedy, ...] = ()


class Orphans(ExplainStruct, frozen=True):
    verdict: str
    ok: bool
    volumes: tuple[Orphan, ...] = ()
    claims: tuple[OrphanedClaim, ...] = ()


def orphans(objects: ClusterObjects) -> Orphans:
    """All of them, by name."""
    finder = _OrphanFinder(objects)
    found = (finder.of(volume) for volume in sorted(objects.of(VOLUME), key=lambda volume: volume.name))
    volumes = tuple(orphan for orphan in found if orphan is not None)
    claims = tuple(finder.claims())
    return Orphans(_verdict(volumes, claims), not volumes and not claims, volumes, claims)


def orphan_of(volume: Volume, objects: ClusterObjects) -> Orphan | None:
    """What is to be said of this volume as an orphan; None where some node can reach it."""
    return _OrphanFinder(objects).of(volume)


def unreachable(objects: ClusterObjects) -> frozenset[str]:
    """Names of the volumes that no ready node can reach."""
    finder = _OrphanFinder(objects)
    return frozenset(volume.name for volume in objects.of(VOLUME) if not finder.is_reachable(volume))


class _OrphanFinder:
    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        nodes = objects.of(NODE)
        self._topology = TopologyIndex.of(nodes)
        self._hosts = {node.metadata.labels.get(well_known.HOSTNAME, node.name) for node in nodes}
        self._lost = lost_nodes(objects)
        self._users = users_of(objects.of(POD))

    def of(self, volume: Volume) -> Orphan | None:
        return None if self.is_reachable(volume) else self._orphan(volume)

    def claims(self) -> Iterator[OrphanedClaim]:
        """Those that are in trouble without an orphan that would show it, by key."""
        for claim in sorted(self._objects.of(CLAIM), key=lambda claim: claim.key):
            name, node = claim.spec.volume_name, claim.selected_node
            if name and self._objects.get(VOLUME, name) is None:
                again = f"create PersistentVolume {name} again, if its storage is still there"
                texts = (f"{again}, with a claimRef to this claim", data_loss.delete_claim(claim.key))
                yield self._claim(claim, VOLUME_DELETED, texts)
            elif not name and node is not None and node not in self._topology:
                wait = "wait: the provisioner, or Mooring's selected-node-janitor, clears the selected node"
                removed = f"{well_known.SELECTED_NODE}-"
                clear = f"kubectl -n {claim.namespace} annotate pvc {claim.name} {removed}"
                yield self._claim(claim, f"{SELECTED_NODE_DELETED}: {node}", (wait, f"manually: {clear}"))

    def is_reachable(self, volume: Volume) -> bool:
        return any(name not in self._lost for name in self._reaching(volume))

    def _reaching(self, volume: Volume) -> Iterator[str]:
        names = self._topology.names(self._topology.matching(affinity_of(volume)))
        return (name for name in names if in_zone(volume, self._topology.labels(name)))

    def _orphan(self, volume: Volume) -> Orphan:
        reference, orphaned = volume.spec.claim_ref, None
        claim = self._objects.get(CLAIM, f"{reference.namespace}/{reference.name}") if reference is not None else None
        # A claim of the name with another uid came later; this volume was another's.
        if claim is not None and is_reserved_for(volume, claim):
            orphaned = self._claim(claim, f"its volume {volume.name} cannot be reached from any node")
        remedies = tuple(self._tried(volume))
        texts = [one.text for one in remedies]
        if orphaned is not None:
            pods = [each.pod for each in orphaned.pods]
            texts.append(f"{data_loss.delete_claim(orphaned.claim, volume, pods)}; a StatefulSet then recreates both")
        return Orphan(
            volume=volume.name,
            phase=volume.status.phase or "Pending",
            size=quantity_text(volume.size),
            storage_class=volume.storage_class,
            reclaim_policy=volume.spec.persistent_volume_reclaim_policy,
            where=_where(volume),
            missing_nodes=tuple(sorted(self._missing(volume))),
            lost_nodes=tuple(sorted(self._reaching(volume))),
            created=volume.metadata.creation_timestamp,
            since=volume.status.last_phase_transition_time,
            claim=orphaned,
            remedy_texts=(*texts, data_loss.delete_volume(volume)),
            remedies=remedies,
        )

    def _tried(self, volume: Volume) -> Iterator[Remedy]:
        """Nodes to bring back or to add, with which the volume can be reached."""
        place = affinity_of(volume)
        is_released = volume.status.phase == "Released"
        after = "; the volume is Released and cannot be bound until its claimRef is removed" if is_released else ""
        lost = [node for name in sorted(self._reaching(volume)) if (node := self._objects.get(NODE, name)) is not None]
        proposals = [
            *(Step(recovery(node, self._objects.moment), (RecoverNode(node.name),)) for node in lost[:MAX_NODES]),
            *(proposal.choices[0][0] for proposal in new_node.returning_nodes(place, self._objects)),
            *(proposal.choices[0][0] for proposal in new_node.new_node_at(place, self._objects)),
        ]
        for step in proposals[:MAX_NODES]:
            changed, _ = applied(self._objects, step.changes)
            if _OrphanFinder(changed).is_reachable(volume):
                yield Remedy(f"{step.text}{after}", step.changes)

    def _missing(self, volume: Volume) -> Iterator[str]:
        required = affinity_of(volume)
        for term in required.terms if required is not None else ():
            for one in term.expressions:
                if one.key == well_known.HOSTNAME and one.operator is Operator.IN:
                    yield from (name for name in one.values if name not in self._hosts)

    def _claim(self, claim: Claim, reason: str, remedy_texts: Sequence[str] = ()) -> OrphanedClaim:
        return OrphanedClaim(
            claim=claim.key,
            phase=claim.status.phase or "Pending",
            reason=reason,
            created=claim.metadata.creation_timestamp,
            pods=tuple(_waiting(pod) for pod in self._users.get(claim.key, ())),
            remedy_texts=tuple(remedy_texts),
        )


def _waiting(pod: Pod) -> WaitingPod:
    said = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), None)
    since = said.last_transition_time if said is not None else None
    return WaitingPod(pod.key, pod.status.phase or "Pending", pod.spec.node_name, since)


def _where(volume: Volume) -> str:
    required = affinity_of(volume)
    terms = [",".join(map(str, term.expressions)) for term in (required.terms if required is not None else ())]
    labels = [f"{place.key}={'|'.join(place.values)}" for place in zone_requirements_of(volume)]
    return " or ".join(filter(None, terms)) or ",".join(labels) or "nowhere"


def _verdict(volumes: Sequence[Orphan], claims: Sequence[OrphanedClaim]) -> str:
    if not volumes and not claims:
        return "Every volume can be reached from a ready node."
    held = [orphan.claim for orphan in volumes if orphan.claim is not None]
    waiting = {pod.pod for claim in (*held, *claims) for pod in claim.pods}
    parts = []
    ready = "ready " if any(orphan.lost_nodes for orphan in volumes) else ""
    if volumes:
        parts.append(f"{counted_noun(len(volumes), 'volume')} cannot be reached from any {ready}node")
    if claims:
        whose = "its" if len(claims) == 1 else "their"
        parts.append(f"{counted_noun(len(claims), 'claim')} lost {whose} volume or node")
    affected = f"; {counted_noun(len(held), 'claim')} and {counted_noun(len(waiting), 'pod')} are affected"
    return f"{' and '.join(parts)}{affected if held or waiting else ''}."
