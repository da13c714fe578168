"""A pod's claims by binding state, the plan to bind them on one node, hold states, and the assume cache. Pure.

A volume's hold state is its `claimRef`, one field of one object, so that every transition is one compare-and-swap:

    FREE ──► COMMITTED                           a pod with one volume to bind
    FREE ──► HELD ──► COMMITTED                  all volumes of the pod are held on one node
    FREE ──► HELD ──► FREE                       static volume: the hold is lifted, it is never deleted
             HELD ──► ROLLING_BACK ──► deleted   provisioned volume that blocks its pod; it was never bound
"""

import enum
from collections.abc import Callable, Collection, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from mooring.api.quantity import QuantityError
from mooring.api.selectors import SelectorError
from mooring.api.views.meta import ApiObject, ObjectReference
from mooring.api.views.pods import Pod, PodVolume
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.volumes.in_tree import VolumeIdentity, disks_with_drivers
from mooring.volumes.matching import ClaimRequirements, requirements_of

V = TypeVar("V", bound=ApiObject)


class OutOfSync(Exception):
    """The object is no longer what the decision was made on; decide again."""

    def __init__(self, key: str, *, stored: str | None, assumed: str) -> None:
        if stored is None:
            text = f'"{key}" is out of sync (not stored, assume: {assumed})'
        elif stored == assumed:
            text = f'"{key}" is out of sync (version {stored} is already assumed otherwise)'
        else:
            text = f'"{key}" is out of sync (stored: {stored}, assume: {assumed})'
        super().__init__(text)


class AssumeCache(Generic[V]):
    """Observed objects by key, each with at most one promise, valid for the observed resourceVersion only."""

    def __init__(self) -> None:
        self._observed: dict[str, V] = {}
        self._assumed: dict[str, V] = {}

    def get(self, key: str) -> V | None:
        """The object as assumed, or as observed where nothing is; None when it is not there."""
        assumed = self._assumed.get(key)
        return self._observed.get(key) if assumed is None else assumed

    def promised(self) -> Collection[V]:
        """The objects as they were promised, as far as the API has not said anything new about them."""
        return self._assumed.values()

    def observe(self, key: str, now: V | None) -> None:
        """What the watch says, None for gone. It always wins, except that a repeated version keeps the promise."""
        if now is None:
            self._observed.pop(key, None)
        else:
            self._observed[key] = now
        assumed = self._assumed.get(key)
        if assumed is not None and (now is None or _version(now) != _version(assumed)):
            del self._assumed[key]

    def assume(self, promised: V, *, instead_of: V) -> None:
        """Let `get` answer `promised` until the API says something new.

        `instead_of` is what the decision was made on. OutOfSync when that is no longer what `get` answers, or when
        the promise is made for another version than the observed one.
        """
        key = promised.key
        seen = self._observed.get(key)
        current = self.get(key)
        if seen is None or current is None or _version(seen) != _version(promised) or current != instead_of:
            stored = None if seen is None else _version(seen)
            raise OutOfSync(key, stored=stored, assumed=_version(promised))
        self._assumed[key] = promised

    def set_aside(self, key: str, instead: V) -> Callable[[], None]:
        """Let `get` answer `instead`, as if that were observed, until the returned function is called."""
        observed, assumed = self._observed[key], self._assumed.pop(key, None)
        self._observed[key] = instead

        def put_back() -> None:
            self._observed[key] = observed
            if assumed is not None:
                self._assumed[key] = assumed

        return put_back

    def observed(self, key: str) -> V | None:
        """The object without what was promised of it."""
        return self._observed.get(key)

    def restore(self, promised: V) -> None:
        """Take back exactly this promise; nothing happens when it is no longer in force."""
        if self._assumed.get(promised.key) is promised:
            del self._assumed[promised.key]


def _version(thing: ApiObject) -> str:
    return thing.metadata.resource_version


#: Namespace of the claims that held volumes refer to; ordinary users must not be able to write to it.
HOLD_NAMESPACE: Final = "kube-system"
HOLD_PREFIX: Final = "hold-"
ROLLBACK_PREFIX: Final = "rollback-"


class HoldState(enum.Enum):
    FREE = "free"
    HELD = "held"
    COMMITTED = "committed"
    ROLLING_BACK = "rolling back"


def hold_state(volume: Volume, *, hold_namespace: str) -> HoldState:
    """A claimRef without uid into the hold namespace is ours; any other claimRef belongs to a claim."""
    reference = volume.spec.claim_ref
    if reference is None:
        return HoldState.FREE
    if reference.namespace == hold_namespace and not reference.uid:
        if reference.name.startswith(HOLD_PREFIX):
            return HoldState.HELD
        if reference.name.startswith(ROLLBACK_PREFIX):
            return HoldState.ROLLING_BACK
    return HoldState.COMMITTED


def held_reference(claim_uid: str, *, hold_namespace: str) -> ObjectReference:
    """The claimRef that reserves a volume for a claim without any controller binding it."""
    return ObjectReference(namespace=hold_namespace, name=f"{HOLD_PREFIX}{claim_uid}")


class StaticBinding(msgspec.Struct, frozen=True):
    """Bind this claim to this existing volume."""

    claim: Claim
    volume: Volume


class Provisioning(msgspec.Struct, frozen=True):
    """Ask the class's provisioner for a volume that the node can reach."""

    claim: Claim


class BindingPlan(msgspec.Struct, frozen=True):
    """Everything to be written before the pod may be bound to `node`. Empty when all claims are bound."""

    node: str
    static: tuple[StaticBinding, ...] = ()
    provision: tuple[Provisioning, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.static and not self.provision

    @property
    def requires_hold(self) -> bool:
        """More than one volume to bind: only then can half of it succeed."""
        return len(self.static) + len(self.provision) > 1


UNBOUND_IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"


class PodClaims(msgspec.Struct, frozen=True):
    """The claims of a pod whose fate is with the scheduler. A claim that several volumes mount is listed once."""

    #: Bound for good: the volume says where.
    bound: tuple[Claim, ...] = ()
    #: To be bound to an existing volume once a node is chosen; in the order of the pod's volumes.
    unbound: tuple[ClaimRequirements, ...] = ()
    #: A node was chosen for them earlier, and a volume is being provisioned there; in the order of the pod's volumes.
    provisioning: tuple[ClaimRequirements, ...] = ()
    #: Disks that the pod names itself and a driver looks after: they count against limits beside its claims' volumes.
    disks: tuple[VolumeIdentity, ...] = ()

    @property
    def none(self) -> bool:
        """The pod has no claims at all."""
        return not (self.bound or self.unbound or self.provisioning)

    @property
    def all_bound(self) -> bool:
        return not (self.unbound or self.provisioning)


#: What most pods have.
NO_CLAIMS: Final = PodClaims()


def classify_claims(
    pod: Pod, claims: Callable[[str], Claim | None], classes: Mapping[str, StorageClass]
) -> PodClaims | str:
    """The pod's claims, or the reason why it cannot be placed anywhere. `claims` finds a claim by its key."""
    if not pod.spec.volumes:
        return NO_CLAIMS
    found: dict[str, Claim] = {}
    for volume in pod.spec.volumes:
        if name := pod.claim_name(volume):
            claim = claims(f"{pod.namespace}/{name}")
            if claim is None and volume.ephemeral is not None:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if refused := _unusable(pod, volume, claim):
                return refused
            found[claim.key] = claim
    bound: list[Claim] = []
    unbound: list[ClaimRequirements] = []
    selected: list[ClaimRequirements] = []
    immediate = False
    for claim in found.values():
        if claim.fully_bound:
            bound.append(claim)
            continue
        delayed = is_delayed(claim.storage_class, classes.get)
        if isinstance(delayed, str):
            return delayed
        if not delayed or claim.spec.volume_name:
            immediate = True
            continue
        try:
            needs = requirements_of(claim)
        except (SelectorError, QuantityError) as problem:
            return f'persistentvolumeclaim "{claim.name}" is invalid: {problem}'
        (unbound if claim.selected_node is None else selected).append(needs)
    if immediate:
        return UNBOUND_IMMEDIATE
    return PodClaims(tuple(bound), tuple(unbound), tuple(selected), tuple(disks_with_drivers(pod)))


def is_delayed(class_name: str, classes: Callable[[str], StorageClass | None]) -> bool | str:
    """Whether claims of a class are bound when a pod is scheduled; a text where the class does not say."""
    storage_class = classes(class_name)
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{storage_class.name}"'
    return storage_class.delayed


def _unusable(pod: Pod, volume: PodVolume, claim: Claim) -> str | None:
    if claim.status.phase == "Lost":
        lost = claim.spec.volume_name
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{lost}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if volume.ephemeral is not None and (claim.controller is None or claim.controller.uid != pod.uid):
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return None
