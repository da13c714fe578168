"""Storage that was lost with its node: which claim and volume may be deleted and created again. Pure.

Only for StorageClasses that opt in (`mooring.dev/lost-storage`), only if the volume can be reached from one node alone,
and only while that Node is deleted or has the taint out-of-service, and an administrator or the class confirms that
the data is lost. Every other pair gets a refusal with a code. What is done then is in `lost_storage_record`.
"""

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mooring.api import well_known
from mooring.api.selectors import Operator
from mooring.api.times import DurationError, parse_duration
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.volumes.holds.objects import STORAGE_LOST
from mooring.volumes.in_tree import in_zone
from mooring.volumes.matching import is_reserved_for
from mooring.volumes.topology import TopologyIndex, affinity_of

#: Value of the class's annotation if only an administrator confirms the loss.
CONFIRMED_ONLY: Final = "confirmed"
#: Keys of node labels that many nodes share, whatever a node is called.
_SHARED_KEYS: Final = frozenset(
    {well_known.ZONE, well_known.REGION, well_known.ZONE_BETA, well_known.REGION_BETA, well_known.RACK}
)


class RecoveryRefusalCode(enum.StrEnum):
    """Why a claim and its volume are left alone."""

    CLASS_NOT_OPTED_IN = "ClassNotOptedIn"
    BAD_POLICY = "BadPolicy"
    NOT_BOUND = "NotBound"
    NODE_UNKNOWN = "NodeUnknown"
    NODE_EXISTS = "NodeExists"
    CLAIM_DELETING = "ClaimDeleting"
    VOLUME_CHOSEN = "VolumeChosen"
    POD_OWNED = "PodOwned"
    IN_USE = "InUse"
    UNCONFIRMED = "Unconfirmed"
    DELAY_NOT_OVER = "DelayNotOver"
    WOULD_NOT_FIT = "WouldNotFit"


class Refusal(NamedTuple):
    code: RecoveryRefusalCode
    reason: str


class LostPair(NamedTuple):
    """A claim and its volume that may be deleted, and the claim created again."""

    claim: Claim
    volume: Volume
    #: The only node that could reach the volume, and the label by which the volume names it.
    node: str
    node_key: str
    #: Pods that were bound to that node and use the claim.
    pods: tuple[Pod, ...]
    #: What confirms that the data is lost.
    confirmed_by: str


class VolumePair(NamedTuple):
    """A volume with the objects that decide about it."""

    volume: Volume
    claim: Claim | None
    storage_class: StorageClass | None
    #: Pods that have not finished and use the claim.
    pods: Sequence[Pod] = ()


class Confirmation(NamedTuple):
    """What is known beside the objects."""

    #: Nodes whose storage the administrator has confirmed to be lost.
    nodes: Collection[str] = ()
    #: For how many seconds a node is known to be deleted or out of service, without interruption.
    lost_seconds: Mapping[str, float] = {}


class ReachableNodes:
    """The nodes that exist, and those of them that are out of service."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        listed = tuple(nodes)
        self._topology = TopologyIndex.of(listed)
        self._out_of_service = frozenset(node.name for node in listed if is_out_of_service(node))

    def existing(self, volume: Volume, node: str) -> str:
        """A Node without the taint that has this name or can reach the volume; "" if there is none."""
        names = self._topology.names(self._topology.matching(affinity_of(volume)))
        reaching = (name for name in names if in_zone(volume, self._topology.labels(name)))
        named = (node,) if node in self._topology else ()
        return min((name for name in (*reaching, *named) if name not in self._out_of_service), default="")


def is_out_of_service(node: Node) -> bool:
    return any(taint.key == well_known.OUT_OF_SERVICE for taint in node.spec.taints)


def node_of(volume: Volume, claim: Claim) -> tuple[str, str] | None:
    """The one node that the volume's affinity names, with the label key; None if the volume is not local to a node.

    A topology key of a driver counts if its value is the node that was selected for the claim: drivers choose their
    own keys.
    """
    required = affinity_of(volume)
    if required is None or not required.terms:
        return None
    found: set[tuple[str, str]] = set()
    for term in required.terms:
        names = [
            (one.key, value)
            for one in term.expressions
            if one.operator is Operator.IN and len(one.values) == 1
            for value in one.values
            if one.key == well_known.HOSTNAME or (one.key not in _SHARED_KEYS and value == claim.selected_node)
        ]
        if not names:
            return None
        found.add(names[0])
    return found.pop() if len(found) == 1 else None


def delay_of(storage_class: StorageClass | None) -> float | Refusal | None:
    """After how many seconds the class confirms the loss; None if only an administrator does."""
    if storage_class is None:
        return Refusal(RecoveryRefusalCode.CLASS_NOT_OPTED_IN, "its StorageClass does not exist")
    value = storage_class.metadata.annotations.get(well_known.LOST_STORAGE)
    if value is None:
        reason = f"StorageClass {storage_class.name} does not have the annotation {well_known.LOST_STORAGE}"
        return Refusal(RecoveryRefusalCode.CLASS_NOT_OPTED_IN, reason)
    if value == CONFIRMED_ONLY:
        return None
    try:
        return parse_duration(value)
    except DurationError as error:
        reason = f"{well_known.LOST_STORAGE} of StorageClass {storage_class.name} is not {CONFIRMED_ONLY}, and: {error}"
        return Refusal(RecoveryRefusalCode.BAD_POLICY, reason)


def lost_pair(pair: VolumePair, nodes: ReachableNodes, known: Confirmation) -> LostPair | Refusal:
    """What may be deleted and created again, or why not."""
    volume, claim = pair.volume, pair.claim
    if claim is None or not is_reserved_for(volume, claim) or claim.spec.volume_name != volume.name:
        return Refusal(RecoveryRefusalCode.NOT_BOUND, f"no claim is bound to {volume.name}")
    delay = delay_of(pair.storage_class)
    if isinstance(delay, Refusal):
        return delay
    place = node_of(volume, claim)
    if place is None:
        return Refusal(RecoveryRefusalCode.NODE_UNKNOWN, f"the node affinity of {volume.name} does not name one node")
    key, node = place
    if existing := nodes.existing(volume, node):
        return Refusal(RecoveryRefusalCode.NODE_EXISTS, _exists(volume, existing))
    if refused := next(_against_claim(pair, claim, node), None):
        return refused
    confirmed = _confirmed_by(volume, node, delay, known)
    if isinstance(confirmed, Refusal):
        return confirmed
    return LostPair(claim, volume, node, key, tuple(pod for pod in pair.pods if pod.spec.node_name), confirmed)


def _against_claim(pair: VolumePair, claim: Claim, node: str) -> Iterator[Refusal]:
    if claim.deleting:
        yield Refusal(RecoveryRefusalCode.CLAIM_DELETING, f"{claim.key} is being deleted already")
    if well_known.BOUND_BY_CONTROLLER not in claim.metadata.annotations:
        reason = f"{claim.key} was created with volumeName {pair.volume.name}, and no other volume would be bound to it"
        yield Refusal(RecoveryRefusalCode.VOLUME_CHOSEN, reason)
    if any(owner.kind == "Pod" for owner in claim.metadata.owner_references):
        yield Refusal(RecoveryRefusalCode.POD_OWNED, f"{claim.key} is an ephemeral volume: it is replaced with its pod")
    for pod in pair.pods:
        if pod.spec.node_name not in ("", node):
            yield Refusal(RecoveryRefusalCode.IN_USE, f"pod {pod.key} on {pod.spec.node_name} uses {claim.key}")


def _confirmed_by(volume: Volume, node: str, delay: float | None, known: Confirmation) -> str | Refusal:
    if node in known.nodes:
        return f"the administrator confirms that the storage of {node} is lost"
    if STORAGE_LOST in volume.metadata.annotations:
        return f"annotation {STORAGE_LOST} of {volume.name}"
    if delay is None:
        reason = f"{node} may come back with the data: no administrator has confirmed that its storage is lost"
        return Refusal(RecoveryRefusalCode.UNCONFIRMED, reason)
    if node not in known.lost_seconds:
        reason = f"{node} may come back with the data: only the running controller counts the delay of the class"
        return Refusal(RecoveryRefusalCode.UNCONFIRMED, reason)
    if (passed := known.lost_seconds[node]) < delay:
        reason = f"{node} is lost for {passed:.0f}s, and its class waits {delay:.0f}s"
        return Refusal(RecoveryRefusalCode.DELAY_NOT_OVER, reason)
    return f"{node} is lost for longer than the {delay:.0f}s of the class"


def _exists(volume: Volume, node: str) -> str:
    stale = f"; remove its annotation {STORAGE_LOST}" if STORAGE_LOST in volume.metadata.annotations else ""
    taint = f"does not have the taint {well_known.OUT_OF_SERVICE}"
    return f"Node {node} exists and {taint}, so {volume.name} may be in use or come back{stale}"
