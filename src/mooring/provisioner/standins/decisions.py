"""What a stand-in provisioner does about a claim or a volume, by external-provisioner's rules. Pure.

Claims are provisioned if they name the stand-in, have no volume and, in delayed classes, a selected node. Volumes get a
finalizer while bound and are deleted once Released; a Failed volume is left to operators.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from mooring.api import quantity, well_known
from mooring.api.views.core import Node
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.provisioner.standins.disks import BY_NAME, Cloud, Domain, Place, StandIn, StandInFailure, StandInPools
from mooring.volumes.in_tree import allowed_topologies


class StandInRequest(NamedTuple):
    """A claim that waits for a stand-in provisioner."""

    stand_in: StandIn
    claim: Claim
    storage_class: StorageClass

    @property
    def volume(self) -> str:
        return f"pvc-{self.claim.uid}"

    @property
    def size(self) -> int:
        return quantity.to_bytes(self.claim.request)


class StandInPlan(NamedTuple):
    """The volume to create, and the topology domains that it is charged to."""

    body: dict[str, Any]
    places: tuple[Place, ...]


def request_for(
    claim: Claim, storage_class: StorageClass | None, *, delayed_binding: bool = True
) -> StandInRequest | None:
    notes = claim.metadata.annotations
    named = notes.get(well_known.STORAGE_PROVISIONER) or notes.get(well_known.STORAGE_PROVISIONER_BETA, "")
    stand_in = BY_NAME.get(named) or BY_NAME.get(notes.get(well_known.MIGRATED_TO, ""))
    if stand_in is None or claim.spec.volume_name or storage_class is None:
        return None
    if storage_class.provisioner not in (stand_in.provisioner, stand_in.in_tree):
        # The class was replaced after the PV controller had annotated the claim.
        return None
    if delayed_binding and storage_class.delayed and not claim.selected_node:
        return None
    return StandInRequest(stand_in, claim, storage_class)


def decide(request: StandInRequest, node: Node | None, nodes: Collection[Node], pools: StandInPools) -> StandInPlan:
    """The volume for a claim; `node` is the selected one, None for immediate binding. Raises StandInFailure."""
    claim, storage_class = request.claim, request.storage_class
    if claim.spec.selector is not None:
        raise StandInFailure("claim Selector is not supported")
    domains = request.stand_in.disk_for(storage_class.parameters).provision(
        node,
        allowed_topologies(storage_class),
        parameters=storage_class.parameters,
        claim=claim.name,
        cloud=Cloud(nodes, lambda place: pools.unavailable_reason(place, storage_class, request.size)),
    )
    return StandInPlan(_volume(request, domains), tuple(domain.place for domain in domains))


def _volume(request: StandInRequest, domains: Sequence[Domain]) -> dict[str, Any]:
    claim, storage_class = request.claim, request.storage_class
    return {
        "metadata": {
            "name": request.volume,
            "annotations": {well_known.PROVISIONED_BY: storage_class.provisioner},
            "finalizers": [well_known.EXTERNAL_PROVISIONER],
        },
        "spec": {
            "capacity": {"storage": claim.request},
            "accessModes": list(claim.spec.access_modes),
            "volumeMode": claim.spec.volume_mode,
            "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
            "storageClassName": storage_class.name,
            "claimRef": claim.reference.body(),
            "nodeAffinity": {"required": {"nodeSelectorTerms": _terms(domains)}},
            **request.stand_in.source(storage_class.provisioner, request.volume),
        },
    }


def _terms(domains: Sequence[Domain]) -> list[dict[str, Any]]:
    """With one label, all values in one term, as upstream's volume topology design has it; else a term per domain."""
    if all(len(domain.labels) == 1 for domain in domains):
        values = [domain.labels[0][1] for domain in domains]
        return [{"matchExpressions": [{"key": domains[0].labels[0][0], "operator": "In", "values": values}]}]
    return [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in domain.labels]}
        for domain in domains
    ]


def is_stand_in_volume(volume: Volume) -> bool:
    annotations = volume.metadata.annotations
    provisioner = annotations.get(well_known.PROVISIONED_BY)
    if provisioner is not None:
        return provisioner in BY_NAME or annotations.get(well_known.MIGRATED_TO, "") in BY_NAME
    return volume.spec.csi is not None and volume.spec.csi.driver in BY_NAME
