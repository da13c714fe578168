"""The protocol's state in API objects: what is read off them, and the bodies of the writes that change it.

A volume's state is its `claimRef`. Annotations say which attempt made it, for which node and since when; labels show
people that it is unused and for which node it was made (ordinary users cannot write volumes). Of all these only the
`claimRef` and the attempt count, and a wrong attempt can do no more than have a held volume given up.
"""

from dataclasses import replace
from typing import Any, Final, cast

from mooring.api import keys
from mooring.api.kinds import CONFIG_MAP, Kind
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.volume import Volume
from mooring.volumes.holds.facts import ClaimFacts, VolumeFacts
from mooring.volumes.holds.intent import Intent, from_data
from mooring.volumes.plan import HOLD_PREFIX, ROLLBACK_PREFIX, hold_state

#: Which attempt made the volume; the one annotation that decides anything.
ATTEMPT: Final = "hold.mooring.dev/attempt"
#: `namespace/name` of the claim the volume is held for.
CLAIM: Final = "hold.mooring.dev/claim"
NODE: Final = "hold.mooring.dev/node"
SINCE: Final = "hold.mooring.dev/since"
#: On a volume that was there before anybody held it. Who made it once does not tell: a volume that was used, kept and
#: made available again still names its provisioner.
EXISTING: Final = "hold.mooring.dev/existing"
#: Why the volume is being rolled back.
REASON: Final = "hold.mooring.dev/reason"

#: An administrator's word that the storage behind a volume, or behind an attempt, went with its node.
STORAGE_LOST: Final = "hold.mooring.dev/storage-lost"

#: On a volume that no claim was ever given.
UNUSED_LABEL: Final = "mooring.dev/unused"
#: On the same: the node it was made for.
FOR_NODE_LABEL: Final = "mooring.dev/provisioned-for"

#: Of Kubernetes, for the value of a label.
LONGEST_LABEL: Final = 63

#: What a merge patch takes off a volume that is no longer held.
_CLEARED: Final = dict.fromkeys((ATTEMPT, CLAIM, NODE, SINCE, EXISTING))
_UNLABELLED: Final = dict.fromkeys((UNUSED_LABEL, FOR_NODE_LABEL))


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
    if reference is None or reference.namespace != hold_namespace or reference.uid:
        return ""
    for prefix in (HOLD_PREFIX, ROLLBACK_PREFIX):
        if reference.name.startswith(prefix):
            return reference.name.removeprefix(prefix)
    return ""


def claim_facts(claim: Claim) -> ClaimFacts:
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


def held_marks(claim: Claim, node: str, *, since: str, attempt: int = 0) -> dict[str, Any]:
    """Labels and annotations of a volume that is held; `attempt` 0 is a static one's."""
    made = {ATTEMPT: str(attempt)} if attempt else {EXISTING: keys.YES}
    notes = {CLAIM: claim.key, NODE: node, SINCE: since} | made
    return {"annotations": notes, "labels": {UNUSED_LABEL: "true"} | node_label(node)}


def node_label(node: str) -> dict[str, str]:
    """For people to select by; nodes may have longer names than labels have values."""
    return {FOR_NODE_LABEL: node} if len(node) <= LONGEST_LABEL else {}


def committed(volume: Volume, claim: Claim) -> dict[str, Any]:
    """The patch that makes a held volume the claim's own, if nobody touched it since it was looked at."""
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
    chosen = {keys.BOUND_BY_CONTROLLER: keys.YES} if _is_static(volume) else {}
    return _swap(volume, whose, {"annotations": _CLEARED | chosen, "labels": _UNLABELLED})


def given_up(volume: Volume, claim_uid: str, why: str, *, hold_namespace: str) -> dict[str, Any]:
    """The patch that sends a held volume on its way out, or frees a static one."""
    if volume_facts(volume, hold_namespace=hold_namespace, attached=False).static:
        return _swap(volume, None, {"annotations": _CLEARED, "labels": _UNLABELLED})
    whose = {"namespace": hold_namespace, "name": f"{ROLLBACK_PREFIX}{claim_uid}", "uid": None}
    return _swap(volume, whose, {"annotations": {REASON: why}})


def _is_static(volume: Volume) -> bool:
    """Only a provisioner writes who made a volume, and it does so for every volume it makes."""
    notes = volume.metadata.annotations
    return EXISTING in notes or keys.PROVISIONED_BY not in notes


def _swap(volume: Volume, reference: dict[str, Any] | None, metadata: dict[str, Any]) -> dict[str, Any]:
    version = {"resourceVersion": volume.metadata.resource_version}
    return {"metadata": metadata | version, "spec": {"claimRef": reference}}
