"""The hold protocol's state in API objects: how it is read, and the patches that change it.

A volume's state is its `claimRef`. Annotations record the attempt, node and time; labels let operators select unused
volumes (ordinary users cannot write volumes). Only `claimRef` and attempt decide anything, and a wrong attempt can
do no more than have a held volume rolled back.
"""

from dataclasses import replace
from typing import Any, Final, cast

from mooring.api import well_known
from mooring.api.kinds import CONFIG_MAP, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.binding import HOLD_PREFIX, ROLLBACK_PREFIX, HoldState, hold_state
from mooring.volumes.holds.group_record import GROUP_EPOCH, GROUP_LABEL, GROUP_RECORD
from mooring.volumes.holds.transitions import ClaimFacts, Intent, VolumeFacts, from_data

#: Which attempt made the volume; the one annotation that decides anything.
ATTEMPT: Final = "hold.mooring.dev/attempt"
#: `namespace/name` of the claim the volume is held for.
CLAIM: Final = "hold.mooring.dev/claim"
NODE: Final = "hold.mooring.dev/node"
SINCE: Final = "hold.mooring.dev/since"
#: On a volume that existed before it was held. Its provisioner does not show that: a volume that was used, kept and
#: made available again still names its provisioner.
EXISTING: Final = "hold.mooring.dev/existing"
#: Why the volume is being rolled back.
REASON: Final = "hold.mooring.dev/reason"

#: An administrator's word that the storage behind a volume, or behind an attempt, went with its node.
STORAGE_LOST: Final = "hold.mooring.dev/storage-lost"

#: On a volume that no claim was ever given.
UNUSED_LABEL: Final = "mooring.dev/unused"
#: On the same: the node it was provisioned for.
FOR_NODE_LABEL: Final = "mooring.dev/provisioned-for"

#: Of Kubernetes, for the value of a label.
MAX_LABEL_LENGTH: Final = 63

_PREFIXES: Final = {HoldState.HELD: HOLD_PREFIX, HoldState.ROLLING_BACK: ROLLBACK_PREFIX}

#: What a merge patch takes off a volume that is no longer held.
_CLEARED: Final = dict.fromkeys((ATTEMPT, CLAIM, NODE, SINCE, EXISTING, GROUP_RECORD, GROUP_EPOCH))
_UNLABELLED: Final = dict.fromkeys((UNUSED_LABEL, FOR_NODE_LABEL, GROUP_LABEL))


class IntentRecord(ApiObject, frozen=True, gc=False):
    """The ConfigMap that holds a claim's intent."""

    data: dict[str, str] = {}


INTENT_RECORD: Final = cast("Kind[IntentRecord]", replace(CONFIG_MAP, view=IntentRecord))


def intent_name(claim_uid: str) -> str:
    return f"intent-{claim_uid}"


def claim_uid_of(record: IntentRecord) -> str:
    """Whose record it is; "" for a ConfigMap that is none."""
    prefix = intent_name("")
    return record.name.removeprefix(prefix) if record.name.startswith(prefix) else ""


def intent_of(record: IntentRecord) -> Intent:
    """Raises MalformedIntent."""
    return from_data(record.data)


def held_for(volume: Volume, *, hold_namespace: str) -> str:
    """The uid of the claim that a volume is held or rolled back for; "" where it is neither."""
    reference = volume.spec.claim_ref
    prefix = _PREFIXES.get(hold_state(volume, hold_namespace=hold_namespace))
    return "" if reference is None or prefix is None else reference.name.removeprefix(prefix)


def claim_facts(claim: Claim | None) -> ClaimFacts | None:
    """None for a claim that is gone."""
    if claim is None:
        return None
    return ClaimFacts(claim.uid, claim.selected_node or "", claim.spec.volume_name, claim.deleting)


def volume_facts(volume: Volume, *, hold_namespace: str, attached: bool) -> VolumeFacts:
    notes = volume.metadata.annotations
    attempt = notes.get(ATTEMPT, "")
    return VolumeFacts(
        volume.name,
        hold_state(volume, hold_namespace=hold_namespace),
        notes.get(NODE, ""),
        int(attempt) if attempt.isdecimal() else 0,
        volume.spec.csi.volume_handle if volume.spec.csi is not None else "",
        static=_is_static(volume),
        deleting=volume.deleting,
        marked=CLAIM in notes,
        attached=attached,
    )


def hold_metadata(claim: Claim, node: str, *, since: str, attempt: int = 0) -> dict[str, Any]:
    """Labels and annotations of a volume that is held; `attempt` 0 is a static one's."""
    made = {ATTEMPT: str(attempt)} if attempt else {EXISTING: well_known.ANNOTATION_SET}
    notes = {CLAIM: claim.key, NODE: node, SINCE: since} | made
    return {"annotations": notes, "labels": {UNUSED_LABEL: "true"} | node_label(node)}


def node_label(node: str) -> dict[str, str]:
    """For people to select by; nodes may have longer names than labels have values."""
    return {FOR_NODE_LABEL: node} if len(node) <= MAX_LABEL_LENGTH else {}


def commit_patch(volume: Volume, claim: Claim) -> dict[str, Any]:
    """The patch that makes a held volume the claim's own, unless it has changed since it was read."""
    reference = claim.reference
    whose = {
        "kind": reference.kind,
        "apiVersion": reference.api_version,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
        "resourceVersion": None,
    }
    # As every binder marks a volume that the user did not choose, so that it can be unbound with its claim.
    chosen = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET} if _is_static(volume) else {}
    return _swap(volume, whose, {"annotations": _CLEARED | chosen, "labels": _UNLABELLED})


def rollback_patch(volume: Volume, claim_uid: str, why: str, *, hold_namespace: str) -> dict[str, Any]:
    """The patch that sends a held volume on its way out, or frees a static one."""
    if _is_static(volume):
        return _swap(volume, None, {"annotations": _CLEARED, "labels": _UNLABELLED})
    whose = {"namespace": hold_namespace, "name": f"{ROLLBACK_PREFIX}{claim_uid}", "uid": None}
    return _swap(volume, whose, {"annotations": {REASON: why}})


def _is_static(volume: Volume) -> bool:
    """Only a provisioner writes who made a volume, and it does so for every volume it makes."""
    notes = volume.metadata.annotations
    return EXISTING in notes or well_known.PROVISIONED_BY not in notes


def _swap(volume: Volume, reference: dict[str, Any] | None, metadata: dict[str, Any]) -> dict[str, Any]:
    version = {"resourceVersion": volume.metadata.resource_version}
    return {"metadata": metadata | version, "spec": {"claimRef": reference}}
