"""Claims that want to be filled from something: who would fill them, and why this provisioner does not.

Pure. Snapshots and clones are understood and refused; everything else is a volume populator's, which makes the volume
itself.
"""

import enum

from mooring.api.views.claim import Claim
from mooring.provisioner.attempt import Refusal, State

SNAPSHOT_GROUP = "snapshot.storage.k8s.io"


class Filled(enum.Enum):
    """By whom a claim's volume is filled."""

    NOBODY = "nobody"
    POPULATOR = "an external populator"


def filled_by(claim: Claim) -> Filled | Refusal:
    source = claim.spec.data_source or claim.spec.data_source_ref
    if source is None:
        return Filled.NOBODY
    if source.namespace and source.namespace != claim.namespace:
        return _refused(f"dataSourceRef names namespace {source.namespace!r}: sources elsewhere are not supported")
    if source.kind == "VolumeSnapshot":
        if source.api_group != SNAPSHOT_GROUP:
            return _refused(f"the PVC source does not belong to the right APIGroup. Expected {SNAPSHOT_GROUP}")
        return _refused("restoring a VolumeSnapshot is not supported by this provisioner")
    if source.kind == "PersistentVolumeClaim":
        return _refused("cloning a PersistentVolumeClaim is not supported by this provisioner")
    return Filled.POPULATOR if source.name else _refused(f"the {source.kind} to fill the volume from has no name")


def _refused(text: str) -> Refusal:
    return Refusal(State.FINISHED, text)
