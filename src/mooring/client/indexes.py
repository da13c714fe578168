"""Indexes that several components need: named once, so that shared informers keep one of each.

Use as `informer.add_index(*POD_BY_NODE)` and `informer.by_index(POD_BY_NODE.name, "node-1")`.
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.api.views.storage import VolumeAttachment
from mooring.api.views.volume import Volume

V = TypeVar("V", bound=ApiObject)


class Index(NamedTuple, Generic[V]):
    name: str
    values: Callable[[V], Iterable[str]]


def _node(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _claims(pod: Pod) -> tuple[str, ...]:
    return pod.claim_keys


def _volume(attachment: VolumeAttachment) -> tuple[str, ...]:
    return (attachment.spec.source.persistent_volume_name,)


def _attached_to(attachment: VolumeAttachment) -> tuple[str, ...]:
    return (attachment.spec.node_name,)


def _claim_uid(volume: Volume) -> tuple[str, ...]:
    reference = volume.spec.claim_ref
    return (reference.uid,) if reference is not None and reference.uid else ()


def _owners(item: ApiObject) -> tuple[str, ...]:
    return tuple(owner.uid for owner in item.metadata.owner_references)


def _uid(item: ApiObject) -> tuple[str, ...]:
    return (item.uid,)


def _orphaned(item: ApiObject) -> tuple[str, ...]:
    if item.controller is not None:
        return ()
    return (item.namespace, *(labelled(item.namespace, *label) for label in item.metadata.labels.items()))


def labelled(namespace: str, key: str, value: str) -> str:
    """What `ORPHANS` files objects of a namespace with this label under."""
    return f"{namespace} {key}={value}"


#: Pods by the node they are bound to.
POD_BY_NODE: Final[Index[Pod]] = Index("node", _node)
#: Pods by `namespace/name` of the claims they use.
POD_BY_CLAIM: Final[Index[Pod]] = Index("claim", _claims)
#: VolumeAttachments by the PersistentVolume that they are of, and by the node.
ATTACHMENT_BY_VOLUME: Final[Index[VolumeAttachment]] = Index("volume", _volume)
ATTACHMENT_BY_NODE: Final[Index[VolumeAttachment]] = Index("node", _attached_to)
#: PersistentVolumes by the uid of the claim that they belong to.
VOLUME_BY_CLAIM_UID: Final[Index[Volume]] = Index("owning claim uid", _claim_uid)
#: Anything by its own uid.
BY_UID: Final[Index[ApiObject]] = Index("uid", _uid)
#: Anything by the uid of its owners.
BY_OWNER: Final[Index[ApiObject]] = Index("owner", _owners)
#: Anything that nobody controls, by its namespace, and by that with each of its labels (`labelled`).
ORPHANS: Final[Index[ApiObject]] = Index("orphan", _orphaned)
