"""Groups in API objects: the ConfigMap of a group's record, the marks of its held volumes, and the patches. Pure.

A volume that is held for a member has the label `mooring.dev/group` with the uid of the PodGroup from its creation on.
The annotations with record and epoch are written with it where the record has the member, and by the coordinator
otherwise (beside a scheduler that writes no records).
"""

from typing import Any, Final

from mooring.api.views.storage import Volume
from mooring.volumes.holds.group_record import (
    GROUP_EPOCH,
    GROUP_LABEL,
    GROUP_RECORD,
    UNMARKED,
    GroupMark,
    GroupRecord,
    StoredGroup,
    group_data,
    group_from_data,
    record_name,
)
from mooring.volumes.holds.objects import IntentRecord

#: On records alone: intents of members have the label of the group too.
RECORD_LABEL: Final = "mooring.dev/group-record"
#: On the coordinator's Lease, with the identity of the holder: it decides about groups. Another holder, of a version
#: that does not, is told from it by the identity.
ANNOUNCEMENT: Final = "mooring.dev/holds-groups"
#: Bytes of a record beyond which a group is not held: an object of 1 MiB is the limit of etcd.
MAX_RECORD_BYTES: Final = 900_000

#: At most, in a record: of a member on a node with a name of 63 characters, and of one of its claims.
_MEMBER_BYTES: Final = 140
_CLAIM_BYTES: Final = 82

#: Reasons and texts of events on the PodGroup.
HOLDING: Final = "GroupHolding"
HOLDING_TEXT: Final = "volumes are held until {needed} members have theirs"
COMMITTED: Final = "GroupCommitted"
COMMITTED_TEXT: Final = "{members} members have all their volumes, which are committed to their claims"
GIVEN_UP: Final = "GroupGivenUp"
GIVEN_UP_TEXT: Final = "held volumes are rolled back ({reason}): {text}"
#: The group is not held.
TOO_LARGE: Final = "GroupTooLarge"
TOO_LARGE_TEXT: Final = (
    "the group has too many members for one record: the volumes of each member are bound as soon as it has them, and "
    "members may run although others cannot"
)
#: A record was deleted while its list was being committed.
RECORD_LOST: Final = "GroupRecordLost"
RECORD_LOST_TEXT: Final = "the record of the group was deleted by another client: its held volumes are rolled back"


def record_labels(group_uid: str) -> dict[str, str]:
    return {GROUP_LABEL: group_uid, RECORD_LABEL: "true"}


def record_body(record: GroupRecord) -> dict[str, Any]:
    metadata = {"name": record_name(record.uid), "labels": record_labels(record.uid)}
    return {"metadata": metadata, "data": group_data(record)}


def is_too_large(record: GroupRecord) -> bool:
    """Whether the group has too many members for one object; from COMMITTING on its claims are in it twice."""
    claims = sum(len(member.claims) for member in record.members)
    return sum(map(len, group_data(record).values())) + 40 * claims > MAX_RECORD_BYTES


def may_be_too_large(*, members: int, claims: int) -> bool:
    """The same of a group whose nodes are not known yet."""
    return members * _MEMBER_BYTES + claims * _CLAIM_BYTES > MAX_RECORD_BYTES


def record_patch(stored: StoredGroup, record: GroupRecord) -> dict[str, Any]:
    """Replaces the record that was read, and no later one."""
    return {"metadata": {"resourceVersion": stored.version, "uid": stored.uid}, "data": group_data(record)}


def stored_group(found: IntentRecord) -> StoredGroup:
    """Raises MalformedGroup."""
    return StoredGroup(group_from_data(found.data), found.uid, found.metadata.resource_version)


def is_record(found: IntentRecord) -> bool:
    return RECORD_LABEL in found.metadata.labels


def group_uid_of(volume: Volume) -> str:
    """Of the group that the volume is held for, or ""."""
    return volume.metadata.labels.get(GROUP_LABEL, "")


def mark_of(volume: Volume) -> GroupMark:
    notes = volume.metadata.annotations
    epoch = notes.get(GROUP_EPOCH, "")
    return GroupMark(notes.get(GROUP_RECORD, ""), int(epoch)) if epoch.isdecimal() else UNMARKED


def with_group(metadata: dict[str, Any], group_uid: str, mark: GroupMark = UNMARKED) -> dict[str, Any]:
    """Labels and annotations of a held volume, with those of its group."""
    notes = {} if mark == UNMARKED else {GROUP_RECORD: mark.record, GROUP_EPOCH: str(mark.epoch)}
    return metadata | {
        "labels": metadata.get("labels", {}) | {GROUP_LABEL: group_uid},
        "annotations": metadata.get("annotations", {}) | notes,
    }


def adoption_patch(volume: Volume, group_uid: str, mark: GroupMark) -> dict[str, Any]:
    """Enters a held volume into the record that its group has."""
    version = {"resourceVersion": volume.metadata.resource_version}
    return {"metadata": with_group(version, group_uid, mark)}


def detachment_patch(volume: Volume) -> dict[str, Any]:
    """Leaves the decision about a held volume to the rules for its pod alone."""
    notes = dict.fromkeys((GROUP_RECORD, GROUP_EPOCH))
    version = {"resourceVersion": volume.metadata.resource_version}
    return {"metadata": version | {"annotations": notes, "labels": {GROUP_LABEL: None}}}
