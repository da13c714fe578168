"""A what-if question and its preparation: drains, lost zones, added nodes, other replica counts. Pure.

A drained node is cordoned; its pods are evicted during the run. A lost zone is removed with its pods, CSINodes and own
storage. Pods whose controller is not simulated (Jobs, operators) are replaced by a copy; pods without one are not.
Raises BadQuestion before anything runs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from mooring.api import well_known
from mooring.api.documents import Body
from mooring.api.errors import ApiError
from mooring.api.kinds import (
    CLAIM,
    CSI_NODE,
    DAEMON_SET,
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    STATEFUL_SET,
    STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
    Kind,
)
from mooring.api.views.core import Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import StorageCapacity
from mooring.client.cache import BY_OWNER
from mooring.cluster.bootstrap import NAMESPACES
from mooring.explain.cluster_objects import lost_since, since_text
from mooring.explain.text import counted_noun
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.registry import DEFAULT
from mooring.server.kinds.policy import SYSTEM_CLASSES
from mooring.server.kinds.registry import require_valid
from mooring.volumes.capacity import readable_segment
from mooring.volumes.topology import EMPTY, TopologyIndex
from mooring.whatif.additions import Addition, add_nodes
from mooring.whatif.drivers import (
    GateOverrides,
    Rollback,
    SimulatedDriver,
    forget_secrets,
    rollback_of,
    simulated_drivers,
)
from mooring.whatif.drivers import notes as rollback_notes
from mooring.whatif.inventory import KINDS, TEMPLATED, BadQuestion, Inventory
from mooring.whatif.results import Cluster, cluster_of


def cordon(inventory: Inventory, name: str) -> None:
    """Let nothing new onto a node. Raises BadQuestion."""
    if not inventory.is_there(NODE, name):
        raise BadQuestion(f"node {name} to drain not found")
    body = inventory.body(NODE, name)
    body.setdefault("spec", {})["unschedulable"] = True
    inventory.keep(NODE, body)


def nodes_of_zone(inventory: Inventory, zone: str) -> list[str]:
    """By name. Raises BadQuestion if there are none."""
    found = sorted(node.name for node in inventory.of(NODE) if _zone(node) == zone)
    if not found:
        zones = sorted({_zone(node) for node in inventory.of(NODE)} - {""})
        others = f"existing zones: {', '.join(zones)}" if zones else "no node has a zone label"
        raise BadQuestion(f"zone {zone} has no nodes: {others}")
    return found


def remove_zone(inventory: Inventory, zone: str) -> list[Pod]:
    """Take away all nodes of a zone; answers with the pods that were on them. Raises BadQuestion."""
    lost = set(nodes_of_zone(inventory, zone))
    _drop_storage(inventory, lost)
    for name in lost:
        inventory.remove(NODE, name)
        inventory.remove(CSI_NODE, name)
    for attachment in inventory.of(VOLUME_ATTACHMENT):
        if attachment.spec.node_name in lost:
            inventory.remove(VOLUME_ATTACHMENT, attachment.key)
    return [pod for pod in inventory.of(POD) if pod.spec.node_name in lost]


def _drop_storage(inventory: Inventory, lost: set[str]) -> None:
    """Capacity that only these nodes could reach is not offered any more."""
    topology = TopologyIndex.of(inventory.of(NODE))
    for capacity in inventory.of(STORAGE_CAPACITY):
        room = readable_segment(capacity)
        reached = EMPTY if room is None else topology.matching(room.segment)
        if reached and lost.issuperset(topology.names(reached)):
            inventory.remove(STORAGE_CAPACITY, capacity.key)


def _zone(node: Node) -> str:
    labels = node.metadata.labels
    return labels.get(well_known.ZONE) or labels.get(well_known.ZONE_BETA, "")


#: How kubectl lets people write the kinds that have replicas.
SCALED: Final[dict[str, Kind[ApiObject]]] = {
    word: kind for kind in (STATEFUL_SET, DEPLOYMENT, REPLICA_SET) for word in (kind.singular, kind.plural, *kind.short)
}


class Scaling(NamedTuple):
    kind: Kind[ApiObject]
    #: `namespace/name`.
    key: str
    replicas: int

    def apply(self, inventory: Inventory) -> None:
        """Raises BadQuestion."""
        kind, key = self.kind, self.key
        if inventory.is_new(kind, key):
            body = inventory.new(kind)[key]
            inventory.create(kind, body | {"spec": body.get("spec", {}) | {"replicas": self.replicas}})
            return
        if not inventory.is_there(kind, key):
            raise BadQuestion(f"{kind.kind} {key} to scale not found")
        body = inventory.body(kind, key)
        body["spec"]["replicas"] = self.replicas
        body["metadata"]["generation"] = body["metadata"].get("generation", 0) + 1
        inventory.keep(kind, body)


def scaling(text: str, *, namespace: str) -> Scaling:
    """What `sts/NAME=COUNT` says. Raises BadQuestion."""
    workload, equals, count = text.rpartition("=")
    word, slash, name = workload.partition("/")
    if not equals or not slash or not name or "/" in name or not count.isdecimal():
        raise BadQuestion(
            f"{text!r} does not say what to scale: write sts/NAME=COUNT, deploy/NAME=COUNT or rs/NAME=COUNT"
        )
    kind = SCALED.get(word.lower())
    if kind is None:
        raise BadQuestion(f"{word!r} has no replicas to scale: write sts, deploy or rs")
    return Scaling(kind, f"{namespace}/{name}", int(count))


#: The annotation of pods that a kubelet runs from files of its own: they are where their node is.
MIRROR: Final = "kubernetes.io/config.mirror"

#: Controllers of pods that take part.
SIMULATED: Final[dict[str, Kind[ApiObject]]] = {kind.kind: kind for kind in (STATEFUL_SET, REPLICA_SET, DAEMON_SET)}


def belongs_to_node(pod: Pod) -> bool:
    """Whether a pod goes with its node rather than leaving it."""
    daemon = pod.controller is not None and pod.controller.kind == DAEMON_SET.kind
    return daemon or MIRROR in pod.metadata.annotations


def is_simulated(pod: Pod, inventory: Inventory) -> bool:
    """Whether the pod's controller is here to make another."""
    owner = pod.controller
    kind = None if owner is None else SIMULATED.get(owner.kind)
    if owner is None or kind is None:
        return False
    found = inventory.get(kind, f"{pod.namespace}/{owner.name}")
    return found is not None and found.uid == owner.uid


def successor(pod: Pod, inventory: Inventory) -> Body | None:
    """The copy that replaces a pod; None if a simulated controller recreates it or it has no controller."""
    if pod.finished or pod.controller is None or belongs_to_node(pod) or is_simulated(pod, inventory):
        return None
    body = inventory.body(POD, pod.key)
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    metadata = {field: body["metadata"][field] for field in kept if field in body["metadata"]}
    spec = {field: value for field, value in body["spec"].items() if field != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Moves(NamedTuple):
    """Pods to evict from a node, which takes no new pods until all that follows has come to rest."""

    node: str
    #: Keys.
    pods: tuple[str, ...]


@dataclass(frozen=True)
class WhatIfQuestion:
    """What would happen with these objects, if. The inventory is used up."""

    inventory: Inventory
    drain: Sequence[str] = ()
    drain_zones: Sequence[str] = ()
    remove_zones: Sequence[str] = ()
    additions: Sequence[Addition] = ()
    scalings: Sequence[Scaling] = ()
    moves: Moves | None = None
    seed: int = 0
    #: Feature gates that are to be set like this, whatever the objects tell.
    gates: GateOverrides = field(default_factory=dict)
    #: Profiles by schedulerName; pods of other schedulers get that of the default scheduler, or the first.
    profiles: Mapping[str, Profile] = field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """The cluster before and after the requested changes, and what happens during the run."""

    inventory: Inventory
    before: Cluster
    drivers: Sequence[SimulatedDriver]
    #: By the names with which pods ask for a scheduler.
    profiles: Mapping[str, Profile]
    rollback: Rollback
    drained: Sequence[str] = ()
    #: Uids of pods to evict besides, and the node that is cordoned until that is done.
    moved: frozenset[str] = frozenset()
    cordoned: str = ""
    #: Pods to make once those of their keys are gone.
    copies: dict[str, Body] = field(default_factory=dict)
    notes: Sequence[str] = ()
    #: Capacity objects that come later, as they are then: their storage exists from the beginning.
    later: Sequence[StorageCapacity] = ()


def prepared(question: WhatIfQuestion) -> Prepared:
    """Raises BadQuestion."""
    inventory = question.inventory
    before = cluster_of(inventory.of)
    notes = [*_remove_unusable_workloads(inventory), *_lost_node_notes(inventory)]
    for scaling in question.scalings:
        scaling.apply(inventory)
    for addition in question.additions:
        add_nodes(inventory, addition)
    of_zones = (node for zone in question.drain_zones for node in nodes_of_zone(inventory, zone))
    drained = tuple(dict.fromkeys((*question.drain, *of_zones)))
    for zone in question.remove_zones:
        _delete_pods_of_removed_nodes(inventory, remove_zone(inventory, zone))
    for node in drained:
        cordon(inventory, node)
    cordoned, moved = _cordoned_for(inventory, question.moves)
    leaving = [pod for pod in inventory.of(POD) if pod.spec.node_name in drained or pod.uid in moved]
    copies = {pod.key: copy for pod in leaving if (copy := successor(pod, inventory)) is not None}
    _freeze_rollouts(inventory)
    rollback = rollback_of(inventory, question.gates)
    notes += rollback_notes(rollback, question.gates)
    _complete(inventory, rollback.namespace)
    forget_secrets(inventory)
    names = {well_known.DEFAULT_SCHEDULER, *_schedulers(inventory)}
    if others := ", ".join(sorted(names - {well_known.DEFAULT_SCHEDULER} - question.profiles.keys())):
        notes.append(f"pods that ask for the scheduler {others} are scheduled as the default scheduler does it")
    drivers = simulated_drivers(inventory)
    return Prepared(
        inventory,
        before,
        drivers,
        _profiles(names, question.profiles),
        rollback,
        drained,
        moved,
        cordoned,
        copies,
        tuple(notes),
    )


def _cordoned_for(inventory: Inventory, moves: Moves | None) -> tuple[str, frozenset[str]]:
    """The node that is cordoned for moves, and the uids of the pods to evict. Raises BadQuestion."""
    if moves is None:
        return "", frozenset()
    cordon(inventory, moves.node)
    pods = (inventory.get(POD, key) for key in moves.pods)
    return moves.node, frozenset(pod.uid for pod in pods if pod is not None)


def _profiles(names: Iterable[str], given: Mapping[str, Profile]) -> Mapping[str, Profile]:
    default = given.get(well_known.DEFAULT_SCHEDULER) or next(iter(given.values()), DEFAULT)
    return {name: given.get(name, default) for name in sorted(names)}


def _lost_node_notes(inventory: Inventory) -> Iterator[str]:
    """Nodes that do not report: pods that are there count as placed, and do not run."""
    lost = [(node.name, since) for node in inventory.of(NODE) if (since := lost_since(node, None)) is not None]
    if lost:
        by_node = Counter(pod.spec.node_name for pod in inventory.of(POD) if not pod.finished)
        for name, since in sorted(lost):
            there = by_node[name]
            pods = f"{counted_noun(there, 'pod')} there {'does' if there == 1 else 'do'} not run"
            yield f"node {name} is lost, not ready {since_text(since)}: {pods}"


def _remove_unusable_workloads(inventory: Inventory) -> Iterator[str]:
    """Owners of pods that would do harm are left out: those that no server would accept, which would create
    pods without end, and Deployments whose ReplicaSets are not listed, which would start another rollout."""
    for kind in TEMPLATED:
        for each in inventory.of(kind):
            try:
                require_valid(kind, inventory.body(kind, each.key))
            except ApiError as error:
                inventory.remove(kind, each.key)
                yield f"{kind.singular}/{each.key} is ignored: {error.message}"
    owners = {uid for each in inventory.of(REPLICA_SET) for uid in BY_OWNER.values(each)}
    for deployment in inventory.of(DEPLOYMENT):
        if deployment.status.replicas and deployment.uid not in owners:
            inventory.remove(DEPLOYMENT, deployment.key)
            yield f"deployment/{deployment.key} is ignored: its ReplicaSets are not among the objects"


def _delete_pods_of_removed_nodes(inventory: Inventory, pods: Iterable[Pod]) -> None:
    """Pods whose node is gone are gone, with the claims that were theirs alone."""
    for pod in pods:
        copy = successor(pod, inventory)
        inventory.remove(POD, pod.key)
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                inventory.remove(CLAIM, f"{pod.namespace}/{pod.claim_name(volume)}")
        if copy is not None:
            inventory.create(POD, copy)


def _freeze_rollouts(inventory: Inventory) -> None:
    """Hashes of pod templates differ between implementations: an unchanged set must not replace pods because
    their hashes differ from ours."""
    for kind in (STATEFUL_SET, DAEMON_SET):
        for each in inventory.of(kind):
            if not inventory.is_new(kind, each.key):
                body = inventory.body(kind, each.key)
                body["spec"]["updateStrategy"] = {"type": "OnDelete"}
                inventory.keep(kind, body)


def _complete(inventory: Inventory, *more: str) -> None:
    """Add namespaces and priority classes that every cluster has."""
    named = {each.namespace for kind in KINDS if kind.namespaced for each in inventory.of(kind)}
    named |= {key.partition("/")[0] for kind in KINDS if kind.namespaced for key in inventory.new(kind)}
    for name in sorted(named | {*NAMESPACES, *more}):
        if not inventory.is_there(NAMESPACE, name):
            inventory.keep(NAMESPACE, {"metadata": {"name": name}, "status": {"phase": "Active"}})
    for name, value in SYSTEM_CLASSES.items():
        if not inventory.is_there(PRIORITY_CLASS, name):
            inventory.keep(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _OwnerSpec(msgspec.Struct, frozen=True):
    template: _Template = _Template()


class _Owner(msgspec.Struct, frozen=True):
    spec: _OwnerSpec = _OwnerSpec()


def _schedulers(inventory: Inventory) -> Iterator[str]:
    """By which names pods, or what makes them, ask for a scheduler."""
    yield from (pod.spec.scheduler_name for pod in inventory.of(POD) if not pod.spec.node_name)
    for kind in (POD, *TEMPLATED):
        bodies = {} if kind is POD else {each.key: inventory.body(kind, each.key) for each in inventory.of(kind)}
        for key, body in {**bodies, **inventory.new(kind)}.items():
            try:
                template = (
                    msgspec.convert(body, _Template) if kind is POD else msgspec.convert(body, _Owner).spec.template
                )
            except msgspec.ValidationError as error:
                raise BadQuestion(f"{kind.kind} {key}: {error}") from error
            yield template.spec.scheduler_name or well_known.DEFAULT_SCHEDULER
