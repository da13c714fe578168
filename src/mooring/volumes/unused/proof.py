"""The proof that no pod ever had the volume of a bound claim, and whether the claim may be replaced. Pure.

Only a pod with `spec.nodeName` ever has a volume, and only while its claim has `spec.volumeName` and is not being
deleted: kubelets read the claim from the API server before they mount. So the proof is an uninterrupted watch of all
pods, from a version at which the claim had no volume to one at which the claim is being deleted:

    claim has no volume          claim is bound                    claim is being deleted
    ────────── u ────────────────────┬──────────────────────────────────── d ──────────
    listed ≤ u                       └ no pod with a node names the claim  └ d ≤ seen

`listed` is the version of the last list of pods, `seen` that of the last event or bookmark of the watch which
follows it. After a restart or a new list nothing is known about claims that were bound before. Neither the scheduler
nor the condition `Unused` is trusted: the condition becomes True again after the last pod. What is done with the proof
is in `record`.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from mooring.api import well_known
from mooring.api.times import DurationError, parse_duration, time_or_none
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageClass, Volume, VolumeAttachment
from mooring.volumes.claim_rollback import is_rolling_back
from mooring.volumes.matching import is_reserved_for
from mooring.volumes.topology import affinity_of

#: The delay doubles with each replacement of a claim, at most so many times.
MAX_DOUBLINGS: Final = 8
#: Deleted pods that are remembered by the claims they had; beyond that, older claims count as unwatched.
MAX_LEFT: Final = 100_000

#: Texts of the controller's events; `explain` looks them up.
KEPT_TEXT: Final = "bound claim keeps its pod pending and cannot be replaced: {code}: {reason}"
REPLACED_TEXT: Final = "claim was deleted and created again, because no pod ever had volume {volume}"
RETURNED_TEXT: Final = "claim was created again with its volume {volume}: a pod may have had it before the deletion"


class Usage(enum.Enum):
    """What is known about pods and a claim's volume."""

    NEVER = "never"
    #: A pod with a node names the claim, or did.
    MAYBE = "maybe"
    #: Pods were not watched all the time.
    UNKNOWN = "unknown"
    #: The watch has not reached the version yet.
    PENDING = "pending"


class WatchPosition(NamedTuple):
    """The versions between which every change of a pod was observed."""

    listed: int
    seen: int


class UsageHistory:
    """What one process has observed of claims and pods. A restart forgets it; memory is that of the bound claims."""

    def __init__(self) -> None:
        #: The newest version at which a claim was observed without a volume, by uid.
        self._unbound: dict[str, int] = {}
        #: When its binding was observed, in seconds since the epoch.
        self._bound_at: dict[str, float] = {}
        #: The version at which the last pod with a node that named a claim was deleted, by key of the claim.
        self._left: dict[str, int] = {}
        #: Keys of claims whose pod was deleted at the version that the watch reaches next.
        self._leaving: set[str] = set()
        #: Pods that were deleted up to this version are unknown.
        self._unreported_until = 0

    def forget(self, version: int) -> None:
        """Deletions of pods up to this version were not reported here."""
        self._unreported_until = max(self._unreported_until, version)

    def claim_changed(self, before: Claim | None, after: Claim | None, seen: int, *, now: float = 0.0) -> None:
        """`seen` is the version up to which changes of claims were observed before this one."""
        if after is None:
            if before is not None:
                self._unbound.pop(before.uid, None)
                self._bound_at.pop(before.uid, None)
                if self._left.get(before.key, seen + 1) <= seen:
                    # The next claim of that name is younger.
                    del self._left[before.key]
        elif after.spec.volume_name and before is not None and not before.spec.volume_name:
            self._unbound[after.uid] = max(seen, _version(before))
            self._bound_at[after.uid] = now

    def pod_changed(self, before: Pod | None, after: Pod | None, seen: int) -> None:
        """`seen` is the version up to which changes of pods were observed before this one."""
        self._reach(seen)
        if after is None and before is not None and before.spec.node_name:
            self._leaving.update(before.claim_keys)

    def remembers_pods(self, claim_key: str) -> bool:
        return claim_key in self._left or claim_key in self._leaving

    def forget_claim(self, key: str, *, pods_seen: int, claims_seen: int) -> bool:
        """Forget the pods of a claim that does not exist. False while changes of claims are observed up to an earlier
        version than the deletion of a pod: the claim may have existed then."""
        self._reach(pods_seen)
        if self._left.get(key, -1) > claims_seen:
            return False
        self._left.pop(key, None)
        return True

    def bound_at(self, claim: Claim) -> float:
        """When the binding of the claim was observed; 0 if it was not."""
        return self._bound_at.get(claim.uid, 0.0)

    def usage(self, claim: Claim, pods: Iterable[Pod], at: WatchPosition, *, until: int = 0) -> Usage:
        """Whether a pod had the claim's volume up to version `until`. `pods` are those that name the claim now."""
        self._reach(at.seen)
        if any(pod.spec.node_name for pod in pods):
            return Usage.MAYBE
        unbound = self._unbound.get(claim.uid, -1)
        if unbound < max(at.listed, self._unreported_until):
            return Usage.UNKNOWN
        if self._left.get(claim.key, -1) > unbound:
            return Usage.MAYBE
        return Usage.NEVER if until <= at.seen else Usage.PENDING

    def _reach(self, seen: int) -> None:
        """Later than the deletion is safe: it only makes the pod longer-lived."""
        for key in self._leaving:
            self._left[key] = seen
        self._leaving.clear()
        if len(self._left) > MAX_LEFT:
            self.forget(max(self._left.values()))
            self._left.clear()


class UnusedRefusalCode(enum.StrEnum):
    """Why a bound claim keeps its volume."""

    CLASS_NOT_OPTED_IN = "ClassNotOptedIn"
    BAD_POLICY = "BadPolicy"
    NOT_BLOCKING = "NotBlocking"
    DELAY_NOT_OVER = "DelayNotOver"
    NOT_BOUND = "NotBound"
    IMMEDIATE_BINDING = "ImmediateBinding"
    CLAIM_CHANGING = "ClaimChanging"
    VOLUME_CHOSEN = "VolumeChosen"
    POD_OWNED = "PodOwned"
    NOT_MADE_FOR_CLAIM = "NotMadeForClaim"
    HAS_DATA_SOURCE = "HasDataSource"
    REACHABLE_EVERYWHERE = "ReachableEverywhere"
    POD_HAD_NODE = "PodHadNode"
    ATTACHED = "Attached"
    HISTORY_UNKNOWN = "HistoryUnknown"


class UnusedRefusal(NamedTuple):
    code: UnusedRefusalCode
    reason: str
    #: After how many seconds the decision changes by itself; 0 if it does not.
    seconds: float = 0.0


class BoundPair(NamedTuple):
    """A bound claim with the objects that decide about it."""

    claim: Claim
    volume: Volume | None
    storage_class: StorageClass | None
    #: Pods that name the claim, finished ones included.
    pods: Sequence[Pod]
    attachments: Sequence[VolumeAttachment]
    usage: Usage
    #: When the binding was observed; a pod that is about to be bound to its node is not blocked.
    bound_at: float = 0.0


def delay_until_replaced(claim: Claim, storage_class: StorageClass | None) -> float | UnusedRefusal:
    """For how many seconds a pod has to be unschedulable before the claim is replaced."""
    value = storage_class.metadata.annotations.get(well_known.UNUSED_CLAIMS) if storage_class is not None else None
    if value is None:
        reason = f"StorageClass {claim.storage_class} does not have the annotation {well_known.UNUSED_CLAIMS}"
        return UnusedRefusal(UnusedRefusalCode.CLASS_NOT_OPTED_IN, reason)
    try:
        delay = parse_duration(value)
    except DurationError as error:
        reason = f"{well_known.UNUSED_CLAIMS} of StorageClass {claim.storage_class}: {error}"
        return UnusedRefusal(UnusedRefusalCode.BAD_POLICY, reason)
    return delay * float(2 ** min(times_replaced(claim), MAX_DOUBLINGS))


def times_replaced(claim: Claim) -> int:
    told = claim.metadata.annotations.get(well_known.TIMES_REPLACED, "")
    return int(told) if told.isascii() and told.isdecimal() and len(told) <= len("999") else 0


def unschedulable_since(pod: Pod) -> float | None:
    """Since when a scheduler rejects a pod without a node, in seconds since the epoch."""
    if pod.spec.node_name or pod.deleting or pod.finished:
        return None
    found = (one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False")
    rejected = next((one for one in found if one.reason == "Unschedulable"), None)
    return time_or_none(rejected.last_transition_time) if rejected is not None else None


def blocking_refusal(
    claim: Claim, storage_class: StorageClass | None, pods: Iterable[Pod], now: float, *, bound_at: float
) -> UnusedRefusal | None:
    """Why a claim does not count as one that keeps a pod pending; None if it does. The delay begins with the binding: a
    pod is unschedulable until the scheduler has bound all its claims, and then the pod."""
    delay = delay_until_replaced(claim, storage_class)
    if isinstance(delay, UnusedRefusal):
        return delay
    waiting = [since for pod in pods if (since := unschedulable_since(pod)) is not None]
    if not waiting:
        return UnusedRefusal(UnusedRefusalCode.NOT_BLOCKING, f"no unschedulable pod uses {claim.key}")
    left = max(min(waiting), bound_at) + delay - now
    if left > 0:
        reason = f"its pod is unschedulable with a bound claim for less than {delay:.0f}s"
        return UnusedRefusal(UnusedRefusalCode.DELAY_NOT_OVER, reason, left)
    return None


def replacement_refusal(pair: BoundPair, now: float) -> UnusedRefusal | None:
    """Why a claim must not be deleted; None if it is proved that no pod had its volume, and it keeps a pod pending."""
    refused = blocking_refusal(pair.claim, pair.storage_class, pair.pods, now, bound_at=pair.bound_at)
    return refused or next(_against_pair(pair), None) or next(_against_proof(pair), None)


def _against_pair(pair: BoundPair) -> Iterator[UnusedRefusal]:
    claim, volume, codes = pair.claim, pair.volume, UnusedRefusalCode
    if claim.deleting or is_rolling_back(claim):
        yield UnusedRefusal(codes.CLAIM_CHANGING, f"{claim.key} is being deleted or unbound already")
    if volume is None or not claim.fully_bound or volume.name != claim.spec.volume_name or volume.deleting:
        yield UnusedRefusal(codes.NOT_BOUND, f"{claim.key} is not bound to an existing volume")
        return
    if not is_reserved_for(volume, claim):
        yield UnusedRefusal(codes.NOT_BOUND, f"volume {volume.name} does not belong to {claim.key}")
    if pair.storage_class is None or not pair.storage_class.delayed:
        yield UnusedRefusal(codes.IMMEDIATE_BINDING, f"{claim.storage_class} would bind the next claim the same way")
    if well_known.BOUND_BY_CONTROLLER not in claim.metadata.annotations:
        yield UnusedRefusal(codes.VOLUME_CHOSEN, f"{claim.key} was created with volumeName {volume.name}")
    if any(owner.kind == "Pod" for owner in claim.metadata.owner_references):
        yield UnusedRefusal(codes.POD_OWNED, f"{claim.key} is an ephemeral volume: it is replaced with its pod")
    if well_known.PROVISIONED_BY not in volume.metadata.annotations or not volume.name.endswith(claim.uid):
        reason = f"{volume.name} existed before {claim.key}, and pods may have had it through another claim"
        yield UnusedRefusal(codes.NOT_MADE_FOR_CLAIM, reason)
    if claim.spec.data_source is not None or claim.spec.data_source_ref is not None:
        reason = f"{volume.name} was made from a data source, which may not exist any more"
        yield UnusedRefusal(codes.HAS_DATA_SOURCE, reason)
    required = affinity_of(volume)
    if required is None or not required.terms:
        reason = f"{volume.name} can be reached from every node, so it does not keep a pod pending"
        yield UnusedRefusal(codes.REACHABLE_EVERYWHERE, reason)


def _against_proof(pair: BoundPair) -> Iterator[UnusedRefusal]:
    claim, codes = pair.claim, UnusedRefusalCode
    for pod in pair.pods:
        if pod.spec.node_name:
            reason = f"pod {pod.key} is or was on {pod.spec.node_name} with {claim.key}"
            yield UnusedRefusal(codes.POD_HAD_NODE, reason)
    for attachment in pair.attachments:
        if attachment.spec.source.persistent_volume_name == claim.spec.volume_name:
            reason = f"{claim.spec.volume_name} is attached to {attachment.spec.node_name}"
            yield UnusedRefusal(codes.ATTACHED, reason)
    if pair.usage is Usage.MAYBE:
        yield UnusedRefusal(codes.POD_HAD_NODE, f"a pod that is deleted had a node and {claim.key}")
    if pair.usage is not Usage.NEVER:
        reason = (
            f"pods were not watched without interruption since {claim.key} was bound, so one may have had its volume"
        )
        yield UnusedRefusal(codes.HISTORY_UNKNOWN, reason)


def _version(claim: Claim) -> int:
    return int(claim.metadata.resource_version)
