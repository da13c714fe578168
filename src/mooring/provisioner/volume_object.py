"""The PersistentVolume for a volume that a driver has made. Pure."""

from typing import Any

from mooring.api import keys, quantity
from mooring.csi.contract import DriverVolume, Topology
from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.planning import Plan
from mooring.provisioner.settings import DriverFacts
from mooring.provisioner.topology_terms import term

#: In a volume's attributes: which run of which provisioner made it.
PROVISIONER_IDENTITY = "storage.kubernetes.io/csiProvisionerIdentity"


def unusable(plan: Plan, made: DriverVolume) -> Refusal | None:
    """Why a volume that was made cannot be given to the claim; it must be deleted, then tried again."""
    wanted, got = plan.request.required_bytes, made.capacity_bytes
    if not made.volume_id:
        return Refusal(State.IN_BACKGROUND, "the driver returned a volume without an id")
    if got and got < wanted:
        return Refusal(State.IN_BACKGROUND, f"created volume capacity {got} less than requested capacity {wanted}")
    return None


def volume_body(plan: Plan, made: DriverVolume, facts: DriverFacts, *, created_at: str) -> dict[str, Any]:
    """The object to create: the plan's draft, completed by what the driver answered, and when."""
    spec = dict(plan.draft["spec"])
    spec["capacity"] = {"storage": size(made.capacity_bytes or plan.request.required_bytes)}
    spec["csi"] = spec["csi"] | {
        "volumeHandle": made.volume_id,
        "volumeAttributes": {PROVISIONER_IDENTITY: facts.identity} | dict(made.context),
    }
    terms = _terms(made.accessible_from) if facts.knows_topology else []
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    metadata = dict(plan.draft["metadata"])
    metadata["annotations"] = metadata["annotations"] | {keys.VOLUME_CREATED_AT: created_at}
    return {"metadata": metadata, "spec": spec}


def size(count: int) -> str:
    """Bytes in binary units: 5Gi."""
    return quantity.canonical(f"{count // 1024}Ki") if count and count % 1024 == 0 else str(count)


def _terms(places: tuple[Topology, ...]) -> list[dict[str, Any]]:
    """One per place that says something; a place without segments would make a term that the API refuses for ever."""
    return [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in term(each.segments)]}
        for each in places
        if each.segments
    ]
