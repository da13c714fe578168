"""How a claim whose storage was lost is replaced: the record that is written first, and the next step. Pure.

The record keeps the claim's manifest, so that a crash between deleting and creating the claim loses nothing. The next
step follows from the record and from the objects as they are now; there is no other state.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar, cast

import msgspec

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CONFIG_MAP, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.lost_storage import LostPair, Refusal

#: Label of every record, by which records are listed.
RECORD_LABEL: Final = "mooring.dev/record"
RECORD_VALUE: Final = "lost-storage"
RECORD_SELECTOR: Final = f"{RECORD_LABEL}={RECORD_VALUE}"
_NAME_PREFIX: Final = "lost-storage-"

#: What controllers write to a claim; the next claim gets its own.
_WRITTEN: Final = frozenset(
    {
        well_known.BIND_COMPLETED,
        well_known.BOUND_BY_CONTROLLER,
        well_known.SELECTED_NODE,
        well_known.SELECTED_NODE_DRAFT,
        well_known.STORAGE_PROVISIONER,
        well_known.STORAGE_PROVISIONER_BETA,
    }
)
#: Finalizers of a volume that wait for the storage to be deleted, which lost storage never is.
STORAGE_FINALIZERS: Final = frozenset({well_known.EXTERNAL_PROVISIONER, well_known.IN_TREE_DELETER})


class ClaimManifest(ApiObject, frozen=True, gc=False):
    """A claim with its whole spec."""

    spec: dict[str, Any] = {}


CLAIM_MANIFEST: Final = cast("Kind[ClaimManifest]", replace(cast("Kind[ApiObject]", CLAIM), view=ClaimManifest))


class RecoveryConfigMap(ApiObject, frozen=True, gc=False):
    data: dict[str, str] = {}


RECOVERY_RECORD: Final = cast("Kind[RecoveryConfigMap]", replace(CONFIG_MAP, view=RecoveryConfigMap))


class MalformedRecovery(ValueError):
    """A record that cannot be continued; the text says why."""


class ClaimRecord(Protocol):
    """What the record of every replaced claim has, also that of an unused one."""

    #: The label of its ConfigMap, by which such records are listed.
    SELECTOR: ClassVar[str]

    @property
    def name(self) -> str:
        """Name of its ConfigMap."""

    @property
    def namespace(self) -> str:
        """Namespace of the claim."""

    @property
    def key(self) -> str:
        """Key of the claim."""


R = TypeVar("R", bound=ClaimRecord)


class RecoveryRecord(msgspec.Struct, frozen=True, rename="camel"):
    SELECTOR: ClassVar[str] = RECORD_SELECTOR

    namespace: str
    claim: str
    claim_uid: str
    volume: str
    volume_uid: str
    node: str
    node_key: str
    #: Body of the claim that is created.
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{_NAME_PREFIX}{self.claim_uid}"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.claim}"


def record_of(pair: LostPair, manifest: ClaimManifest) -> RecoveryRecord:
    """`manifest` is the claim of the pair, read with its whole spec."""
    claim, volume = pair.claim, pair.volume
    body = new_claim_body(manifest)
    return RecoveryRecord(
        claim.namespace, claim.name, claim.uid, volume.name, volume.uid, pair.node, pair.node_key, body
    )


def new_claim_body(claim: ClaimManifest) -> dict[str, Any]:
    """The claim as its user created it: without volume, selected node, and what the server sets."""
    meta = claim.metadata
    metadata: dict[str, Any] = {"name": claim.name, "namespace": claim.namespace}
    if meta.labels:
        metadata["labels"] = dict(meta.labels)
    if notes := {key: value for key, value in meta.annotations.items() if key not in _WRITTEN}:
        metadata["annotations"] = notes
    if meta.owner_references:
        metadata["ownerReferences"] = msgspec.to_builtins(meta.owner_references)
    spec = {key: value for key, value in claim.spec.items() if key != "volumeName"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def record_body(record: ClaimRecord) -> dict[str, Any]:
    text = msgspec.json.encode(record).decode()
    metadata = {"name": record.name, "labels": dict([record.SELECTOR.split("=")])}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"record": text}}


def read_record(found: RecoveryConfigMap, form: type[R]) -> R:
    """Raises MalformedRecovery."""
    try:
        record = msgspec.json.decode(found.data.get("record", ""), type=form)
    except msgspec.DecodeError as error:
        raise MalformedRecovery(f"ConfigMap {found.key}: {error}") from error
    if record.name != found.name:
        raise MalformedRecovery(f"ConfigMap {found.key}: the record is that of {record.name}")
    return record


class RecoveryState(NamedTuple):
    """The objects of a record as they are now."""

    #: The claim of that name, also another one.
    claim: Claim | None
    #: The volume of that name, also another one.
    volume: Volume | None
    #: Pods that have not finished, were bound to the lost node and use the claim.
    pods: Sequence[Pod]
    #: Why the claim must not be deleted now, by `lost_pair`.
    refusal: Refusal | None
    #: Whether the Node is still deleted or out of service.
    node_lost: bool


class Abandon(NamedTuple):
    """Nothing was deleted and nothing may be."""

    refusal: Refusal


class DeleteClaim(NamedTuple):
    claim: Claim


class DeletePodOfLostNode(NamedTuple):
    pod: Pod


class AwaitClaimDeletion(NamedTuple):
    """A finalizer keeps the claim."""

    claim: Claim


class DeleteLostVolume(NamedTuple):
    volume: Volume


class ReleaseLostVolume(NamedTuple):
    """Remove the finalizers that wait for the deletion of storage."""

    volume: Volume
    finalizers: tuple[str, ...]


class CreateClaim(NamedTuple):
    body: dict[str, Any]


class Finish(NamedTuple):
    """The record can be deleted."""


Step = (
    Abandon
    | DeleteClaim
    | DeletePodOfLostNode
    | AwaitClaimDeletion
    | DeleteLostVolume
    | ReleaseLostVolume
    | CreateClaim
    | Finish
)


def next_step(record: RecoveryRecord, state: RecoveryState) -> Step:
    claim = state.claim
    if claim is not None and claim.uid == record.claim_uid:
        if claim.deleting:
            if state.pods and state.node_lost:
                return DeletePodOfLostNode(state.pods[0])
            return AwaitClaimDeletion(claim)
        return DeleteClaim(claim) if state.refusal is None else Abandon(state.refusal)
    # From here on the old claim is deleted: the new one is created also if the node came back.
    if (step := _volume_step(record, state)) is not None:
        return step
    return CreateClaim(record.manifest) if claim is None else Finish()


def _volume_step(record: RecoveryRecord, state: RecoveryState) -> Step | None:
    """A volume whose node came back is left to its driver, one with reclaim policy Retain to the administrator."""
    volume = state.volume
    if volume is None or volume.uid != record.volume_uid or not state.node_lost:
        return None
    reference = volume.spec.claim_ref
    if reference is None or reference.uid != record.claim_uid:
        # An administrator has given it to another claim.
        return None
    if volume.spec.persistent_volume_reclaim_policy != "Delete":
        return None
    if not volume.deleting:
        return DeleteLostVolume(volume)
    kept = tuple(name for name in volume.metadata.finalizers if name not in STORAGE_FINALIZERS)
    return ReleaseLostVolume(volume, kept) if len(kept) < len(volume.metadata.finalizers) else None
