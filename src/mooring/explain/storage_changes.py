"""Changes to volumes, claims, classes and reported capacity that a remedy consists of.

As `cluster_changes`: typed values with the edits they make on listed objects. Where the PV controller would act on a
change by itself (bind a claim to the volume that was added for it), its part is among the edits. Pure.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from mooring.api import keys, quantity
from mooring.api.kinds import CLAIM, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim, ClaimStatus
from mooring.api.views.meta import (
    LabelSelectorView,
    Meta,
    NodeSelectorTermView,
    NodeSelectorView,
    ObjectReference,
    SelectorRequirement,
)
from mooring.api.views.storage import StorageCapacity, StorageClass, TopologyRequirement, TopologyTerm
from mooring.api.views.volume import Volume, VolumeNodeAffinity, VolumeSpec, VolumeStatus
from mooring.explain.cluster_changes import Edit
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.verdicts import Part
from mooring.volumes.matching import AVAILABLE
from mooring.volumes.pod_claims import is_delayed

#: Of objects that a remedy adds.
ADDED: Final = "mooring-remedy"


class AddVolume(Part, frozen=True, tag=True, tag_field="type"):
    """A new volume that does for the claim and that the node reaches; from everywhere where no node is named."""

    claim: str
    storage_class: str
    size: str
    access_modes: tuple[str, ...]
    volume_mode: str
    node: str = ""

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        claim = objects.get(CLAIM, self.claim)
        if claim is None:
            return
        name = f"{ADDED}-{self.claim.replace('/', '-')}"
        spec = VolumeSpec(
            capacity={"storage": self.size},
            access_modes=self.access_modes,
            storage_class_name=self.storage_class,
            volume_mode=self.volume_mode,
            volume_attributes_class_name=claim.spec.volume_attributes_class_name,
            node_affinity=_only_on(objects, self.node),
        )
        selector = claim.spec.selector
        labels = {} if selector is None else _labels_for(selector)
        volume = Volume(metadata=Meta(name=name, uid=name, labels=labels), spec=spec, status=VolumeStatus(AVAILABLE))
        yield from _offered(claim, None, volume, objects)


class ClearClaimRef(Part, frozen=True, tag=True, tag_field="type"):
    """A Released volume becomes free for any claim."""

    volume: str
    claim: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        volume, claim = objects.get(VOLUME, self.volume), objects.get(CLAIM, self.claim)
        if volume is not None and claim is not None:
            spec = msgspec.structs.replace(volume.spec, claim_ref=None)
            free = msgspec.structs.replace(volume, spec=spec, status=VolumeStatus(AVAILABLE))
            yield from _offered(claim, volume, free, objects)


class RestoreVolume(Part, frozen=True, tag=True, tag_field="type"):
    """The PersistentVolume that a bound claim has lost exists again, with the same storage."""

    volume: str
    claim: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        claim = objects.get(CLAIM, self.claim)
        if claim is None:
            return
        spec = VolumeSpec(
            capacity={"storage": claim.request},
            access_modes=claim.spec.access_modes,
            storage_class_name=claim.storage_class,
            volume_mode=claim.spec.volume_mode,
            claim_ref=_reference(claim),
        )
        yield Edit(
            VOLUME, None, Volume(metadata=Meta(name=self.volume, uid=ADDED), spec=spec, status=VolumeStatus("Bound"))
        )
        yield Edit(CLAIM, claim, msgspec.structs.replace(claim, status=ClaimStatus(phase="Bound")))


class RecreateClaim(Part, frozen=True, tag=True, tag_field="type"):
    """The claim is deleted and made again: it has no volume then. Its old volume is deleted or stays Released."""

    claim: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        claim = objects.get(CLAIM, self.claim)
        if claim is None:
            return
        volume = objects.get(VOLUME, claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None and volume.spec.persistent_volume_reclaim_policy == "Delete":
            yield Edit(VOLUME, volume, None)
        elif volume is not None:
            yield Edit(VOLUME, volume, msgspec.structs.replace(volume, status=VolumeStatus("Released")))
        yield Edit(CLAIM, claim, _anew(claim))


class ChangeClass(Part, frozen=True, tag=True, tag_field="type"):
    """The claim, which has no volume, is made again with another class."""

    claim: str
    storage_class: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (claim := objects.get(CLAIM, self.claim)) is not None:
            anew = _anew(claim)
            spec = msgspec.structs.replace(anew.spec, storage_class_name=self.storage_class)
            yield Edit(CLAIM, claim, msgspec.structs.replace(anew, spec=spec))


class ShrinkClaim(Part, frozen=True, tag=True, tag_field="type"):
    """The claim, which has no volume, is made again and asks for less."""

    claim: str
    size: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (claim := objects.get(CLAIM, self.claim)) is not None:
            anew = _anew(claim)
            resources = msgspec.structs.replace(anew.spec.resources, requests={"storage": self.size})
            spec = msgspec.structs.replace(anew.spec, resources=resources)
            yield Edit(CLAIM, claim, msgspec.structs.replace(anew, spec=spec))


class ForgetSelectedNode(Part, frozen=True, tag=True, tag_field="type"):
    """The annotation that says for which node the claim's volume is to be made is removed."""

    claim: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (claim := objects.get(CLAIM, self.claim)) is not None:
            notes = {key: text for key, text in claim.metadata.annotations.items() if key not in _SELECTED}
            metadata = msgspec.structs.replace(claim.metadata, annotations=notes)
            yield Edit(CLAIM, claim, msgspec.structs.replace(claim, metadata=metadata))


class CreateClass(Part, frozen=True, tag=True, tag_field="type"):
    """A class of this name that is like another one."""

    storage_class: str
    like: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (model := objects.get(STORAGE_CLASS, self.like)) is not None:
            yield Edit(STORAGE_CLASS, None, msgspec.structs.replace(model, metadata=Meta(name=self.storage_class)))


class AllowTopology(Part, frozen=True, tag=True, tag_field="type"):
    """The class, made again, allows volumes where these labels are, too."""

    storage_class: str
    labels: dict[str, str]

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (found := objects.get(STORAGE_CLASS, self.storage_class)) is not None:
            place = (TopologyRequirement(key, (value,)) for key, value in self.labels.items())
            allowed = (*found.allowed_topologies, TopologyTerm(tuple(place)))
            yield Edit(STORAGE_CLASS, found, msgspec.structs.replace(found, allowed_topologies=allowed))


class RaiseCapacity(Part, frozen=True, tag=True, tag_field="type"):
    """So many bytes more are free in a segment, and its driver has published that."""

    capacity: str
    amount: int

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        found = objects.get(STORAGE_CAPACITY, self.capacity)
        if found is None:
            return
        try:
            has = 0 if found.capacity is None else quantity.to_bytes(found.capacity)
            largest = None if found.maximum_volume_size is None else quantity.to_bytes(found.maximum_volume_size)
        except QuantityError:
            has, largest = 0, None
        more = msgspec.structs.replace(
            found,
            capacity=None if found.capacity is None and largest is not None else has + self.amount,
            maximum_volume_size=None if largest is None else largest + self.amount,
        )
        yield Edit(STORAGE_CAPACITY, found, more)


class PublishCapacity(Part, frozen=True, tag=True, tag_field="type"):
    """The driver publishes so many bytes of free storage of a class for a node."""

    storage_class: str
    node: str
    amount: int

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        node = objects.get(NODE, self.node)
        labels = {keys.HOSTNAME: self.node} if node is None else dict(node.metadata.labels)
        metadata = Meta(name=f"{ADDED}-{self.node}-{self.storage_class}", namespace="default", uid=ADDED)
        topology = LabelSelectorView(match_labels=labels)
        yield Edit(
            STORAGE_CAPACITY,
            None,
            StorageCapacity(
                metadata=metadata, storage_class_name=self.storage_class, node_topology=topology, capacity=self.amount
            ),
        )


_SELECTED: Final = (keys.SELECTED_NODE, keys.SELECTED_NODE_DRAFT)
_BINDING: Final = (keys.BIND_COMPLETED, keys.BOUND_BY_CONTROLLER, *_SELECTED)


def _offered(claim: Claim, before: Volume | None, free: Volume, objects: ClusterObjects) -> Iterator[Edit]:
    """A free volume, and its binding to the claim where that does not wait for a pod to be placed."""
    classes: dict[str, StorageClass] = {each.name: each for each in objects.of(STORAGE_CLASS)}
    if claim.fully_bound or is_delayed(claim, classes) is not False:
        yield Edit(VOLUME, before, free)
        return
    spec = msgspec.structs.replace(free.spec, claim_ref=_reference(claim))
    yield Edit(VOLUME, before, msgspec.structs.replace(free, spec=spec, status=VolumeStatus("Bound")))
    notes = claim.metadata.annotations | {keys.BIND_COMPLETED: keys.YES}
    metadata = msgspec.structs.replace(claim.metadata, annotations=notes)
    named = msgspec.structs.replace(claim.spec, volume_name=free.name)
    bound = msgspec.structs.replace(claim, metadata=metadata, spec=named, status=ClaimStatus(phase="Bound"))
    yield Edit(CLAIM, claim, bound)


def _reference(claim: Claim) -> ObjectReference:
    return ObjectReference(kind="PersistentVolumeClaim", namespace=claim.namespace, name=claim.name, uid=claim.uid)


def _anew(claim: Claim) -> Claim:
    """The claim as its owner would make it again."""
    notes = {key: text for key, text in claim.metadata.annotations.items() if key not in _BINDING}
    metadata = msgspec.structs.replace(
        claim.metadata, uid=f"{claim.uid}-{ADDED}", annotations=notes, deletion_timestamp=None
    )
    spec = msgspec.structs.replace(claim.spec, volume_name="")
    return msgspec.structs.replace(claim, metadata=metadata, spec=spec, status=ClaimStatus(phase="Pending"))


def _only_on(objects: ClusterObjects, node: str) -> VolumeNodeAffinity | None:
    found = objects.get(NODE, node) if node else None
    host = None if found is None else found.metadata.labels.get(keys.HOSTNAME)
    if host is None:
        return None
    here = SelectorRequirement(key=keys.HOSTNAME, operator="In", values=(host,))
    return VolumeNodeAffinity(NodeSelectorView((NodeSelectorTermView((here,)),)))


def _labels_for(selector: LabelSelectorView) -> dict[str, str]:
    """Labels that the selector of a claim chooses."""
    labels = dict(selector.match_labels)
    for one in selector.match_expressions:
        if one.operator == "In" and one.values:
            labels[one.key] = one.values[0]
        elif one.operator == "Exists":
            labels.setdefault(one.key, "")
    return labels
