"""The plan of an attempt on record: its volume carries the attempt's number, and is held or given at once. Pure."""

import msgspec

from mooring.api import keys
from mooring.api.timestamps import to_time
from mooring.api.views.claim import Claim
from mooring.provisioner.planning import Plan
from mooring.volumes.holds import objects
from mooring.volumes.holds.intent import Intent
from mooring.volumes.plan import held_reference


def wanted_on(claim: Claim, node: str) -> Claim:
    """The claim as if this node were selected for it: what is known of it may be older than the attempt."""
    notes = claim.metadata.annotations | {keys.SELECTED_NODE: node}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=notes))


def given_plan(plan: Plan, intent: Intent) -> Plan:
    """For a volume that its claim is given at once, because nobody is there to decide about it any more."""
    metadata = dict(plan.draft["metadata"])
    metadata["annotations"] = metadata["annotations"] | {objects.ATTEMPT: str(intent.attempt)}
    return msgspec.structs.replace(plan, draft=plan.draft | {"metadata": metadata})


def held_plan(plan: Plan, claim: Claim, intent: Intent, *, now: float, hold_namespace: str) -> Plan:
    """For a volume that nobody can bind until it is committed."""
    marks = objects.held_marks(claim, intent.node, since=to_time(now), attempt=intent.attempt)
    metadata = dict(plan.draft["metadata"])
    metadata["annotations"] = metadata["annotations"] | marks["annotations"]
    metadata["labels"] = marks["labels"]
    reference = held_reference(claim.uid, hold_namespace=hold_namespace)
    spec = plan.draft["spec"] | {"claimRef": reference.body()}
    return msgspec.structs.replace(plan, draft={"metadata": metadata, "spec": spec})
