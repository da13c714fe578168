"""A pod's claims, sorted by what stands between them and the pod: nothing, a choice of node, or somebody else.

First step of every decision about volumes, before any node is looked at. Texts are kube-scheduler's.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mooring.api.label_selector import SelectorError
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod, PodVolume
from mooring.api.views.storage import StorageClass
from mooring.volumes.in_tree import Identity, disks_with_drivers
from mooring.volumes.matching import Needs, needs_of

UNBOUND_IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"


class PodClaims(msgspec.Struct, frozen=True):
    """The claims of a pod whose fate is with the scheduler. A claim that several volumes mount is listed once."""

    #: Bound for good: the volume says where.
    bound: tuple[Claim, ...] = ()
    #: To be bound to an existing volume once a node is chosen; in the order of the pod's volumes.
    unbound: tuple[Needs, ...] = ()
    #: A node was chosen for them earlier, and a volume is being made there; in the order of the pod's volumes.
    selected: tuple[Needs, ...] = ()
    #: Disks that the pod names itself and a driver looks after: they count against limits beside its claims' volumes.
    disks: tuple[Identity, ...] = ()

    @property
    def none(self) -> bool:
        """The pod has no claims at all."""
        return not (self.bound or self.unbound or self.selected)

    @property
    def all_bound(self) -> bool:
        return not (self.unbound or self.selected)


#: What most pods have.
NO_CLAIMS: Final = PodClaims()


def sort_claims(
    pod: Pod, claims: Callable[[str], Claim | None], classes: Mapping[str, StorageClass]
) -> PodClaims | str:
    """The pod's claims, or the reason why it cannot be placed anywhere. `claims` finds a claim by its key."""
    if not pod.spec.volumes:
        return NO_CLAIMS
    found: dict[str, Claim] = {}
    for volume in pod.spec.volumes:
        if name := pod.claim_name(volume):
            claim = claims(f"{pod.namespace}/{name}")
            if claim is None:
                return _missing(name, volume)
            if refused := _unusable(pod, volume, claim):
                return refused
            found[claim.key] = claim
    bound: list[Claim] = []
    unbound: list[Needs] = []
    selected: list[Needs] = []
    immediate = False
    for claim in found.values():
        if claim.fully_bound:
            bound.append(claim)
            continue
        delayed = is_delayed(claim, classes)
        if isinstance(delayed, str):
            return delayed
        if not delayed or claim.spec.volume_name:
            immediate = True
            continue
        try:
            needs = needs_of(claim)
        except (SelectorError, QuantityError) as problem:
            return f'persistentvolumeclaim "{claim.name}" cannot be understood: {problem}'
        (unbound if claim.selected_node is None else selected).append(needs)
    if immediate:
        return UNBOUND_IMMEDIATE
    return PodClaims(tuple(bound), tuple(unbound), tuple(selected), tuple(disks_with_drivers(pod)))


def is_delayed(claim: Claim, classes: Mapping[str, StorageClass]) -> bool | str:
    """Whether binding waits for a pod to be placed; a text where the class does not say."""
    storage_class = classes.get(claim.storage_class)
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{storage_class.name}"'
    return storage_class.delayed


def _missing(name: str, volume: PodVolume) -> str:
    if volume.ephemeral is not None:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    return f'persistentvolumeclaim "{name}" not found'


def _unusable(pod: Pod, volume: PodVolume, claim: Claim) -> str | None:
    if claim.status.phase == "Lost":
        lost = claim.spec.volume_name
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{lost}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if volume.ephemeral is not None and (claim.controller is None or claim.controller.uid != pod.uid):
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return None
