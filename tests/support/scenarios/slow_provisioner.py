"""A pod with one claim on an existing volume and one on a volume that a slow provisioner creates.

The scenario acts as the provisioner `disks.example.com`, at a time of its choice.
"""

from typing import Final

from mooring.api import well_known
from mooring.volumes.holds import objects
from support.builders import Body, claim_body, claim_ref, class_body, pod_body, volume_body
from support.scenarios.placements import Objects

PROVISIONER: Final = "disks.example.com"
#: The only node with existing volumes, so the only feasible one for both claims.
NODE: Final = "node-2"
ELSEWHERE: Final = "node-1"


def slow(suffix: str) -> list[Body]:
    """The pod that has to wait, with its claims and classes; `suffix` keeps cluster-scoped names apart."""
    old, new = f"old{suffix}", f"new{suffix}"
    return [
        class_body(name=old),
        class_body(name=new, provisioner=PROVISIONER),
        volume_body(name=f"{old}-1", storage_class=old, node=NODE),
        volume_body(name=f"{old}-2", storage_class=old, node=NODE),
        claim_body(name="slow-old", namespace="", storage_class=old),
        claim_body(name="slow-new", namespace="", storage_class=new),
        pod_body(name="slow", namespace="", claims=["slow-old", "slow-new"]),
    ]


def quick(suffix: str) -> list[Body]:
    """A pod that is created later and needs no provisioning."""
    return [
        claim_body(name="quick", namespace="", storage_class=f"old{suffix}"),
        pod_body(name="quick", namespace="", claims=["quick"]),
    ]


def many(suffix: str, count: int) -> list[Body]:
    """Pods that all have to wait, each for its own volume."""
    bodies = [class_body(name=f"new{suffix}", provisioner=PROVISIONER)]
    for number in range(count):
        bodies.append(claim_body(name=f"slow-{number}", namespace="", storage_class=f"new{suffix}"))
        bodies.append(pod_body(name=f"slow-{number}", namespace="", claims=[f"slow-{number}"]))
    return bodies


def all_asked_for(claims: Objects) -> bool:
    """Whether every claim has a selected node, and none its volume."""
    assert claims, "there are no claims"
    return all(
        well_known.SELECTED_NODE in claim["metadata"].get("annotations", {}) and not claim["spec"].get("volumeName")
        for claim in claims
    )


def alone(suffix: str) -> list[Body]:
    """A pod with only a claim to provision, for which NODE is selected."""
    only = {well_known.HOSTNAME: NODE}
    return [
        class_body(
            name=f"new{suffix}", provisioner=PROVISIONER, allowed_topologies=[{key: [v] for key, v in only.items()}]
        ),
        claim_body(name="slow-new", namespace="", storage_class=f"new{suffix}"),
        pod_body(name="slow", namespace="", claims=["slow-new"]),
    ]


def made(suffix: str, *, namespace: str, node: str = NODE) -> Body:
    """The volume as a provisioner creates it: for one claim, by name."""
    reference = claim_ref(name="slow-new", namespace=namespace)
    return volume_body(name=f"made{suffix}", storage_class=f"new{suffix}", node=node, claim_ref=reference)


def is_waiting(pods: Objects, claims: Objects, volumes: Objects) -> bool:
    """All volumes are selected or reserved, and the pod is not bound before all are provisioned."""
    [pod] = [pod for pod in pods if pod["metadata"]["name"] == "slow"]
    [claim] = [claim for claim in claims if claim["metadata"]["name"] == "slow-new"]
    reserved = [volume for volume in volumes if _reserved_for("slow-old", volume)]
    notes = claim["metadata"].get("annotations", {})
    asked = notes.get(well_known.SELECTED_NODE) == NODE and notes.get(well_known.STORAGE_PROVISIONER) == PROVISIONER
    return asked and len(reserved) == 1 and not pod["spec"].get("nodeName")


def _reserved_for(claim: str, volume: Body) -> bool:
    """Reserved for the claim, or held for it until the other volume exists."""
    notes = volume["metadata"].get("annotations", {})
    is_given = (volume["spec"].get("claimRef") or {}).get("name") == claim
    return is_given or notes.get(objects.CLAIM, "").endswith(f"/{claim}")
