"""What a stand-in does about a claim: nothing, make a volume, or say why not.

Pure. The conditions are those of external-provisioner: only claims without a volume that name this provisioner, and of
delayed classes only those with a node.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from mooring.api import keys, quantity
from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.storage import StorageClass
from mooring.provisioner.standins.contract import Cloud, Domain, Made, Place, Refused
from mooring.provisioner.standins.pools import Pools
from mooring.provisioner.standins.table import BY_NAME, StandIn
from mooring.volumes.zone_parameters import allowed_topologies


class Task(NamedTuple):
    """A claim that waits for a volume from us."""

    stand_in: StandIn
    claim: Claim
    storage_class: StorageClass

    @property
    def volume(self) -> str:
        return f"pvc-{self.claim.uid}"

    @property
    def size(self) -> int:
        return quantity.to_bytes(self.claim.request)


class Plan(NamedTuple):
    """The volume to create, and where it takes up room."""

    body: dict[str, Any]
    places: tuple[Place, ...]


def task(claim: Claim, storage_class: StorageClass | None) -> Task | None:
    """Whether a claim waits for one of the stand-ins."""
    stand_in = _asked(claim)
    if stand_in is None or claim.spec.volume_name or storage_class is None:
        return None
    if storage_class.provisioner not in (stand_in.provisioner, stand_in.in_tree):
        # SEEN: the class was replaced since the claim was handed over.
        return None
    if storage_class.delayed and not claim.selected_node:
        return None
    return Task(stand_in, claim, storage_class)


def _asked(claim: Claim) -> StandIn | None:
    notes = claim.metadata.annotations
    named = notes.get(keys.STORAGE_PROVISIONER) or notes.get(keys.STORAGE_PROVISIONER_BETA, "")
    return BY_NAME.get(named) or BY_NAME.get(notes.get(keys.MIGRATED_TO, ""))


def decide(wanted: Task, node: Node | None, nodes: Collection[Node], pools: Pools) -> Plan | Refused:
    """The volume for a claim; `node` is the one selected, None where the class does not wait for one."""
    claim, storage_class = wanted.claim, wanted.storage_class
    if claim.spec.selector is not None:
        return Refused("claim Selector is not supported")
    answer = wanted.stand_in.disk_for(storage_class.parameters).provision(
        node,
        allowed_topologies(storage_class),
        parameters=storage_class.parameters,
        claim=claim.name,
        cloud=Cloud(nodes, lambda place: pools.trouble_in(place, storage_class, wanted.size)),
    )
    if isinstance(answer, Made):
        return Plan(_volume(wanted, answer.domains), tuple(domain.place for domain in answer.domains))
    return answer


def _volume(wanted: Task, domains: Sequence[Domain]) -> dict[str, Any]:
    claim, storage_class = wanted.claim, wanted.storage_class
    return {
        "metadata": {
            "name": wanted.volume,
            "annotations": {keys.PROVISIONED_BY: storage_class.provisioner},
            "finalizers": [keys.EXTERNAL_PROVISIONER],
        },
        "spec": {
            "capacity": {"storage": claim.request},
            "accessModes": list(claim.spec.access_modes),
            "volumeMode": claim.spec.volume_mode,
            "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
            "storageClassName": storage_class.name,
            "claimRef": claim.reference.body(),
            "nodeAffinity": {"required": {"nodeSelectorTerms": _terms(domains)}},
            **wanted.stand_in.source(storage_class.provisioner, wanted.volume),
        },
    }


def _terms(domains: Sequence[Domain]) -> list[dict[str, Any]]:
    """One label: all its values in one term, as the topology design writes them; several: a term for each domain."""
    if all(len(domain.labels) == 1 for domain in domains):
        values = [domain.labels[0][1] for domain in domains]
        return [{"matchExpressions": [{"key": domains[0].labels[0][0], "operator": "In", "values": values}]}]
    return [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in domain.labels]}
        for domain in domains
    ]
