"""Everything the PV controller knows, with the answers its state machines ask for.

Pure: fed by observed changes and by the answers to own writes. Implements `claims.Facts`; whether the claim behind a
volume is really gone is asked by the shell, because the server itself has to confirm it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.pvcontroller.cache import NewestCache
from mooring.pvcontroller.free_volumes import VolumesBySize
from mooring.pvcontroller.waiting_claims import WaitingClaims
from mooring.volumes import matching
from mooring.volumes.clean_claims import is_near

IMMEDIATE: Final = "Immediate"


class Facts:
    def __init__(
        self,
        pods_using: Callable[[str], Iterable[Pod]],
        *,
        delayed_binding: bool = True,
        claim_rollback: bool = False,
        call: Callable[[Claim], None] = lambda _: None,
    ) -> None:
        """`pods_using` finds the pods that use a claim, by the claim's key.

        `call` is told whenever a volume becomes free that a waiting claim could take: one claim for each.
        """
        self.delayed_binding = delayed_binding
        self.claim_rollback = claim_rollback
        self._free = VolumesBySize()
        self._waiting = WaitingClaims()
        #: The volumes that called a claim which has not found its own yet.
        self._callers: defaultdict[str, set[str]] = defaultdict(set)
        self.claims: NewestCache[Claim] = NewestCache(_claim_shelves, self._waiting.moved)
        self.volumes: NewestCache[Volume] = NewestCache(_volume_shelves, self._volume_moved)
        self.classes: dict[str, StorageClass] = {}
        self._pods_using = pods_using
        self._call = call

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
        """Access modes decide first: a plainer volume is taken before a reserved one that can do more."""
        needs = matching.needs_of(claim)
        reserved = self._reserved_by_modes(needs)
        free = {} if delayed else self._free.by_modes(needs)
        for group in sorted(reserved.keys() | free.keys(), key=lambda group: (len(group), sorted(group))):
            if group in reserved:
                return reserved[group]
            found = self._free.smallest(needs, free[group])
            if found is not None:
                return found
        return None

    def _reserved_by_modes(self, needs: matching.Needs) -> dict[frozenset[str], Volume]:
        """The first volume by name that is reserved for a claim and would do, for every set of access modes."""
        found: dict[frozenset[str], Volume] = {}
        for volume in sorted(self.volumes_reserved_for(needs.claim.key), key=lambda one: one.name):
            if needs.why_not(volume) is None:
                found.setdefault(frozenset(volume.spec.access_modes), volume)
        return found

    def waiting_pods(self, claim: Claim) -> Iterable[str]:
        return [pod.name for pod in self._pods_using(claim.key) if pod.unplaced]

    def pods_near(self, claim: Claim) -> Iterable[str]:
        return [pod.name for pod in self._pods_using(claim.key) if is_near(pod)]

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

    @contextmanager
    def promised(self, volume: Volume) -> Iterator[None]:
        """A reservation of the volume is being written inside the block: no other claim is offered it."""
        self._free.promise(volume)
        try:
            yield
        finally:
            now = self.volumes.get(volume.name)
            self._free.settle(volume.name, now)
            self._offer(now)

    def _volume_moved(self, before: Volume | None, after: Volume | None) -> None:
        self._free.moved(before, after)
        # A volume that changes while it is free is offered again: what did not suit may suit now.
        if before is None or after is None or not matching.is_free(before) or _offered(before) != _offered(after):
            self._offer(after)

    def _offer(self, volume: Volume | None) -> None:
        """Call a claim that waits for such a volume and need not wait for the scheduler too."""
        if volume is None or volume.name not in self._free or self._is_delayed(volume.storage_class):
            return
        claim = self._waiting.call(volume)
        if claim is not None:
            self._callers[claim.key].add(volume.name)
            self._call(claim)

    @contextmanager
    def turn_of(self, claim_key: str) -> Iterator[None]:
        """The claim looks for itself inside the block, and may be called again afterwards."""
        claim = self.claims.get(claim_key)
        if claim is not None:
            self._waiting.looks(claim)
        try:
            yield
        finally:
            self._waiting.had_turn(claim_key, self.claims.get(claim_key))
            self._thank_callers(claim_key)

    def _thank_callers(self, claim_key: str) -> None:
        """Once a claim has found a volume, the others that called it are somebody else's chance."""
        callers = {name for name in self._callers.pop(claim_key, ()) if name in self._free}
        if not callers:
            return
        if claim_key in self._waiting:
            self._callers[claim_key] = callers
            return
        for name in sorted(callers):
            self._offer(self.volumes.get(name))

    def _is_delayed(self, storage_class: str) -> bool:
        known = self.classes.get(storage_class)
        return known is not None and known.volume_binding_mode != IMMEDIATE


def _is_default(storage_class: StorageClass) -> bool:
    annotations = storage_class.metadata.annotations
    return "true" in (annotations.get(keys.DEFAULT_CLASS), annotations.get(keys.DEFAULT_CLASS_BETA))


def _offered(volume: Volume) -> tuple[object, ...]:
    return volume.spec, volume.metadata.labels, volume.storage_class


def _naming(volume: str) -> str:
    return f"names {volume}"


def _wanting(storage_class: str) -> str:
    return f"wants class {storage_class}"


def _reserved_for(claim_key: str) -> str:
    return f"reserved for {claim_key}"


def _claim_shelves(claim: Claim) -> tuple[str, ...]:
    bound = claim.spec.volume_name or keys.BIND_COMPLETED in claim.metadata.annotations
    return (_naming(claim.spec.volume_name) if bound else _wanting(claim.storage_class),)


def _volume_shelves(volume: Volume) -> tuple[str, ...]:
    reference = volume.spec.claim_ref
    return () if reference is None else (_reserved_for(f"{reference.namespace}/{reference.name}"),)
