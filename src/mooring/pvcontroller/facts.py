"""Everything the PV controller knows, with the answers its state machines ask for.

Pure: fed by observed changes and by the answers to own writes. Implements `claims.Facts`; whether the claim behind a
volume is really gone is asked by the shell, because the server itself has to confirm it.
"""

from collections.abc import Callable, Collection, Container, Iterable

from mooring.api import keys
from mooring.api.label_selector import SelectorError
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.pvcontroller.cache import NewestCache
from mooring.volumes import matching
from mooring.volumes.pod_claims import is_delayed


class Facts:
    def __init__(self, pods_using: Callable[[str], Iterable[Pod]], *, delayed_binding: bool = True) -> None:
        """`pods_using` finds the pods that use a claim, by the claim's key."""
        self.delayed_binding = delayed_binding
        self.claims: NewestCache[Claim] = NewestCache(_claim_shelves)
        self.volumes: NewestCache[Volume] = NewestCache(_volume_shelves)
        self.classes: dict[str, StorageClass] = {}
        self._pods_using = pods_using

    def observe_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        if after is not None:
            self.classes[after.name] = after
        elif before is not None:
            self.classes.pop(before.name, None)

    def volume(self, name: str) -> Volume | None:
        return self.volumes.get(name)

    def default_class(self) -> str | None:
        marked = [c for c in self.classes.values() if _is_default(c)]
        if not marked:
            return None
        # RFC 3339 in UTC orders as text; the newest wins, among equally new ones the first by name.
        newest = max(c.metadata.creation_timestamp or "" for c in marked)
        return min(c.name for c in marked if (c.metadata.creation_timestamp or "") == newest)

    def best_volume(self, claim: Claim, *, delayed: bool) -> Volume | None:
        """Volumes with the fewest access modes first, so that a plain claim does not use up a shareable volume."""
        candidates = {volume.name: volume for volume in self.volumes_reserved_for(claim.key)}
        if not delayed:
            candidates |= {v.name: v for v in self.volumes.filed_under(_of_class(claim.storage_class))}
        wanted = set(claim.spec.access_modes)
        groups: dict[int, list[Volume]] = {}
        for volume in candidates.values():
            offered = set(volume.spec.access_modes)
            if wanted <= offered:
                groups.setdefault(len(offered), []).append(volume)
        found = (matching.find(claim, groups[size], reserved_only=delayed) for size in sorted(groups))
        return next((volume for volume in found if volume is not None), None)

    def waiting_pods(self, claim: Claim) -> Iterable[str]:
        return [pod.name for pod in self._pods_using(claim.key) if not pod.spec.node_name and not pod.finished]

    def users_of_gone_claim(self, volume: Volume) -> list[str]:
        """Keys of unfinished pods that use the claim a volume points to, unless a claim of that name is there."""
        reference = volume.spec.claim_ref
        key = f"{reference.namespace}/{reference.name}" if reference is not None else ""
        if self.claims.get(key) is not None:
            return []
        return sorted(pod.key for pod in self._pods_using(key) if not pod.finished)

    def claims_naming(self, volume: str) -> Collection[Claim]:
        return self.claims.filed_under(_naming(volume))

    def claims_without_volume(self, storage_class: str) -> Collection[Claim]:
        """Those of one class; "" stands for claims without any."""
        return self.claims.filed_under(_wanting(storage_class))

    def volumes_reserved_for(self, claim_key: str) -> Collection[Volume]:
        return self.volumes.filed_under(_reserved_for(claim_key))

    def taker(self, volume: Volume, *, passing_over: Container[str]) -> Claim | None:
        """A claim that waits for such a volume and need not wait for the scheduler too; the longest known first."""
        if volume.spec.claim_ref is not None or volume.status.phase != matching.AVAILABLE:
            return None
        for claim in self.claims_without_volume(volume.storage_class):
            if is_delayed(claim, self.classes) is not False:
                return None
            if claim.key not in passing_over and _does(volume, claim):
                return claim
        return None


def _is_default(storage_class: StorageClass) -> bool:
    annotations = storage_class.metadata.annotations
    return "true" in (annotations.get(keys.DEFAULT_CLASS), annotations.get(keys.DEFAULT_CLASS_BETA))


def _does(volume: Volume, claim: Claim) -> bool:
    try:
        return matching.why_not(claim, volume) is None
    except (SelectorError, QuantityError):
        # The claim's own turn says what is wrong with it.
        return False


def _naming(volume: str) -> str:
    return f"names {volume}"


def _wanting(storage_class: str) -> str:
    return f"wants class {storage_class}"


def _of_class(storage_class: str) -> str:
    return f"of class {storage_class}"


def _reserved_for(claim_key: str) -> str:
    return f"reserved for {claim_key}"


def _claim_shelves(claim: Claim) -> tuple[str, ...]:
    bound = claim.spec.volume_name or keys.BIND_COMPLETED in claim.metadata.annotations
    return (_naming(claim.spec.volume_name) if bound else _wanting(claim.storage_class),)


def _volume_shelves(volume: Volume) -> tuple[str, ...]:
    shelf, reference = _of_class(volume.storage_class), volume.spec.claim_ref
    return (shelf,) if reference is None else (shelf, _reserved_for(f"{reference.namespace}/{reference.name}"))
