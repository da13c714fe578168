"""A question about a cluster: its objects, and what is to be different. `prepared` applies the changes. Pure.

What makes no sense is a `BadQuestion`, raised before anything runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from mooring.api import keys
from mooring.api.errors import ApiError
from mooring.api.kinds import (
    CLAIM,
    DAEMON_SET,
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    STATEFUL_SET,
    STORAGE_CAPACITY,
    VOLUME,
    Kind,
)
from mooring.api.views.meta import ApiObject
from mooring.client.indexes import BY_OWNER
from mooring.cluster.bootstrap import NAMESPACES
from mooring.explain.lost_nodes import lost_since, told_since
from mooring.server.validation.disruption import SYSTEM_CLASSES
from mooring.server.validation.table import require_valid
from mooring.sim.whatif.additions import Addition, add_nodes
from mooring.sim.whatif.comparison import Cluster
from mooring.sim.whatif.drivers import Played, forget_secrets, played
from mooring.sim.whatif.inventory import KINDS, BadQuestion, Body, Inventory
from mooring.sim.whatif.removals import cordon, remove_zone
from mooring.sim.whatif.rollback import Rollback, Wanted, rollback_of
from mooring.sim.whatif.rollback import notes as rollback_notes
from mooring.sim.whatif.scaling import Scaling
from mooring.sim.whatif.successors import successor

#: Kinds whose template makes pods.
_TEMPLATED: Final[tuple[Kind[ApiObject], ...]] = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET)


@dataclass(frozen=True)
class Question:
    """What would happen with these objects, if. The inventory is used up."""

    inventory: Inventory
    drain: Sequence[str] = ()
    remove_zones: Sequence[str] = ()
    additions: Sequence[Addition] = ()
    scalings: Sequence[Scaling] = ()
    seed: int = 0
    #: Feature gates that are to be set like this, whatever the objects tell.
    gates: Wanted = field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """The cluster as it begins, how it was before anybody changed anything, and what is to happen in it."""

    inventory: Inventory
    before: Cluster
    drivers: Sequence[Played]
    #: Names by which pods ask for a scheduler.
    schedulers: frozenset[str]
    rollback: Rollback
    drained: Sequence[str] = ()
    #: Pods to make once those of their keys are gone.
    copies: dict[str, Body] = field(default_factory=dict)
    notes: Sequence[str] = ()


def prepared(question: Question) -> Prepared:
    """Raises BadQuestion."""
    inventory = question.inventory
    before = cluster_of(inventory)
    notes = [*_left_alone(inventory), *_on_lost_nodes(inventory)]
    for scaling in question.scalings:
        scaling.apply(inventory)
    for addition in question.additions:
        add_nodes(inventory, addition)
    for zone in question.remove_zones:
        _strand(inventory, remove_zone(inventory, zone))
    for node in question.drain:
        cordon(inventory, node)
    leaving = [pod for pod in inventory.of(POD) if pod.spec.node_name in question.drain]
    copies = {pod.key: copy for pod in leaving if (copy := successor(pod, inventory)) is not None}
    _freeze_rollouts(inventory)
    rollback = rollback_of(inventory, question.gates)
    notes += rollback_notes(rollback, question.gates)
    _complete(inventory, rollback.namespace)
    forget_secrets(inventory)
    names = {keys.DEFAULT_SCHEDULER, *_schedulers(inventory)}
    if len(names) > 1:
        others = ", ".join(sorted(names - {keys.DEFAULT_SCHEDULER}))
        notes.append(f"pods that ask for the scheduler {others} are placed as the default scheduler places them")
    return Prepared(
        inventory,
        before,
        played(inventory),
        frozenset(names),
        rollback,
        tuple(question.drain),
        copies,
        tuple(notes),
    )


def cluster_of(inventory: Inventory) -> Cluster:
    return Cluster(
        nodes=inventory.of(NODE),
        pods=inventory.of(POD),
        claims=inventory.of(CLAIM),
        volumes=inventory.of(VOLUME),
        capacities=inventory.of(STORAGE_CAPACITY),
        stateful_sets=inventory.of(STATEFUL_SET),
        replica_sets=inventory.of(REPLICA_SET),
    )


def _on_lost_nodes(inventory: Inventory) -> Iterator[str]:
    """Nodes that do not report: pods that are there count as placed, and do not run."""
    for node in sorted(inventory.of(NODE), key=lambda each: each.name):
        since = lost_since(node, None)
        if since is not None:
            there = sum(pod.spec.node_name == node.name and not pod.finished for pod in inventory.of(POD))
            pods = f"{there} pod there does not run" if there == 1 else f"{there} pods there do not run"
            yield f"node {node.name} is lost, not ready {told_since(since)}: {pods}"


def _left_alone(inventory: Inventory) -> Iterator[str]:
    """Owners of pods that would do harm are left out: those that no server would have, which would make pods for ever
    that are not theirs, and Deployments whose ReplicaSets nobody listed, which would begin anew beside the pods they
    have."""
    for kind in _TEMPLATED:
        for each in inventory.of(kind):
            try:
                require_valid(kind, inventory.body(kind, each.key))
            except ApiError as error:
                inventory.remove(kind, each.key)
                yield f"{kind.singular}/{each.key} is left alone: {error.message}"
    owners = {uid for each in inventory.of(REPLICA_SET) for uid in BY_OWNER.values(each)}
    for deployment in inventory.of(DEPLOYMENT):
        if deployment.status.replicas and deployment.uid not in owners:
            inventory.remove(DEPLOYMENT, deployment.key)
            yield f"deployment/{deployment.key} is left alone: its ReplicaSets are not among the objects"


def _strand(inventory: Inventory, pods: Iterable[str]) -> None:
    """Pods whose node is gone are gone, with the claims that were theirs alone."""
    for key in pods:
        pod = inventory.get(POD, key)
        assert pod is not None, "it was found on a node"
        copy = successor(pod, inventory)
        inventory.remove(POD, key)
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                inventory.remove(CLAIM, f"{pod.namespace}/{pod.claim_name(volume)}")
        if copy is not None:
            inventory.create(POD, copy)


def _freeze_rollouts(inventory: Inventory) -> None:
    """Which template a pod was made from is told by hashes that no two implementations make alike: a set that nobody
    changed here must not replace pods for having other hashes than ours."""
    for kind in (STATEFUL_SET, DAEMON_SET):
        for each in inventory.of(kind):
            if not inventory.is_new(kind, each.key):
                body = inventory.body(kind, each.key)
                body["spec"]["updateStrategy"] = {"type": "OnDelete"}
                inventory.keep(kind, body)


def _complete(inventory: Inventory, *more: str) -> None:
    """What every cluster has, whether or not somebody listed it."""
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
    for kind in (POD, *_TEMPLATED):
        bodies = {} if kind is POD else {each.key: inventory.body(kind, each.key) for each in inventory.of(kind)}
        for key, body in {**bodies, **inventory.new(kind)}.items():
            try:
                spec = _template(kind, body).spec
            except msgspec.ValidationError as error:
                raise BadQuestion(f"{kind.kind} {key}: {error}") from error
            yield spec.scheduler_name or keys.DEFAULT_SCHEDULER


def _template(kind: Kind[ApiObject], body: Body) -> _Template:
    return msgspec.convert(body, _Template) if kind is POD else msgspec.convert(body, _Owner).spec.template
