"""BindingCache: the newest known version of claims and volumes, with the lookups of the state machines. Pure.

The newest version is what the watch delivered or what an own write returned, whichever has the higher
resourceVersion. It is no assume cache: only server responses enter it, and only the watch adds or deletes objects.
"""

import itertools
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

from mooring.api import well_known
from mooring.api.quantity import QuantityError
from mooring.api.selectors import SelectorError
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.multimap import Multimap
from mooring.volumes.binding import is_delayed
from mooring.volumes.claim_rollback import may_have_used_volumes
from mooring.volumes.matching import ClaimRequirements, VolumeShape, exact_size, is_free, requirements_of, shape_of
from mooring.volumes.topology import TopologyIndex
from mooring.volumes.volume_index import VolumeIndex

V = TypeVar("V", bound=ApiObject)


class NewestCache(Generic[V]):
    """Objects by key, and on the shelves that `file_under` names for them; `follow` is told of every change."""

    def __init__(
        self, file_under: Callable[[V], Iterable[str]], follow: Callable[[V | None, V | None], None] = lambda *_: None
    ) -> None:
        self._file_under = file_under
        self._follow = follow
        self._objects: dict[str, V] = {}
        self._shelves: Multimap[str, str] = Multimap()

    def get(self, key: str) -> V | None:
        return self._objects.get(key)

    def by_index(self, shelf: str) -> Collection[V]:
        return [self._objects[key] for key in self._shelves.get(shelf, ())]

    def observe(self, before: V | None, after: V | None) -> None:
        """A change the watch showed. It may be older than what an own write returned; a deletion never is."""
        if after is None:
            if before is not None:
                self._follow(self._drop(before.key), None)
            return
        known = self._objects.get(after.key)
        if known is None or _version(known) <= _version(after):
            self._put(after)

    def apply_write_result(self, answer: V) -> None:
        """What an own write returned.

        If the watch has shown the object's deletion meanwhile, the answer is old news: keeping it would raise an
        object from the dead that no event would ever bury again.
        """
        known = self._objects.get(answer.key)
        if known is not None and known.uid == answer.uid and _version(known) < _version(answer):
            self._put(answer)

    def _put(self, item: V) -> None:
        before = self._drop(item.key)
        self._objects[item.key] = item
        for shelf in self._file_under(item):
            self._shelves.add(shelf, item.key)
        self._follow(before, item)

    def _drop(self, key: str) -> V | None:
        known = self._objects.pop(key, None)
        for shelf in self._file_under(known) if known is not None else ():
            self._shelves.discard(shelf, key)
        return known


def _version(item: ApiObject) -> int:
    return int(item.metadata.resource_version)


class _WaitingClaim(NamedTuple):
    """Sorts by size; among equal sizes, the claim that came first is last."""

    size: int
    minus_arrival: int
    key: str


class WaitingClaims:
    """Claims without volume, by class, shape and size: which of them to notify of an available volume.

    One claim is notified per volume, and not again before its binding attempt has finished.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[ClaimRequirements, _WaitingClaim]] = {}
        #: By class and shape, claims without selector, ascending.
        self._by_size: defaultdict[str, dict[VolumeShape, list[_WaitingClaim]]] = defaultdict(dict)
        #: By class, claims that ask for labels: each has to be compared.
        self._with_selector: Multimap[str, str] = Multimap()
        #: Claims that were notified, or look for a volume by themselves.
        self._attempting: set[str] = set()
        self._arrivals = itertools.count()

    def __contains__(self, key: str) -> bool:
        """Whether the claim of this key waits and could be notified."""
        return key in self._waiting

    def update(self, before: Claim | None, after: Claim | None) -> None:
        if before is not None:
            self._remove(before.key)
        if after is not None and after.key not in self._attempting:
            self._put(after)

    def claim_to_notify(self, volume: Volume) -> Claim | None:
        """The largest claim that an available volume satisfies; not returned again before `attempt_finished`."""
        needs = self._satisfied_by(volume)
        if needs is None:
            return None
        self.start_attempt(needs.claim.key)
        return needs.claim

    def start_attempt(self, key: str) -> None:
        """A claim looks for a volume by itself."""
        self._attempting.add(key)
        self._remove(key)

    def attempt_finished(self, key: str, current: Claim | None) -> None:
        self._attempting.discard(key)
        self.update(current, current)

    def _satisfied_by(self, volume: Volume) -> ClaimRequirements | None:
        try:
            offered, size = shape_of(volume), exact_size(volume.size)
        except QuantityError:
            return None
        for shape, entries in self._by_size.get(volume.storage_class, {}).items():
            up_to = bisect_right(entries, _WaitingClaim(size, 1, "")) if offered.satisfies(shape) else 0
            if up_to:
                return self._waiting[entries[up_to - 1].key][0]
        selecting = (self._waiting[key][0] for key in self._with_selector.get(volume.storage_class, ()))
        return next((needs for needs in selecting if needs.first_mismatch(volume) is None), None)

    def _put(self, claim: Claim) -> None:
        if claim.spec.volume_name or well_known.BIND_COMPLETED in claim.metadata.annotations:
            return
        try:
            needs = requirements_of(claim)
        except (SelectorError, QuantityError):
            # The claim's own sync reports what is wrong with it.
            return
        entry = _WaitingClaim(needs.size, -next(self._arrivals), claim.key)
        self._waiting[claim.key] = needs, entry
        if needs.has_selector:
            self._with_selector.add(needs.storage_class, claim.key)
        else:
            insort(self._by_size[needs.storage_class].setdefault(needs.shape, []), entry)

    def _remove(self, key: str) -> None:
        if key not in self._waiting:
            return
        needs, entry = self._waiting.pop(key)
        if needs.has_selector:
            self._with_selector.discard(needs.storage_class, key)
            return
        shapes = self._by_size[needs.storage_class]
        del shapes[needs.shape][bisect_left(shapes[needs.shape], entry)]
        if not shapes[needs.shape]:
            del shapes[needs.shape]
        if not shapes:
            del self._by_size[needs.storage_class]


class BindingCache:
    def __init__(
        self,
        pods_using: Callable[[str], Iterable[Pod]],
        *,
        delayed_binding: bool = True,
        claim_rollback: Callable[[], bool] = lambda: False,
        claim_to_notify: Callable[[Claim], None] = lambda _: None,
    ) -> None:
        """`pods_using` finds the pods that use a claim, by the claim's key.

        `delayed_binding` says whether classes that wait for their first consumer do; without, they bind at once.
        `claim_rollback` whether claims that no pod has used can be unbound again; it may change.
        `claim_to_notify` is called whenever a volume becomes free that a waiting claim could take: one claim for each.
        """
        self._delayed_binding = delayed_binding
        self._claim_rollback = claim_rollback
        #: Without nodes: claims are bound wherever their volume is.
        self._index = VolumeIndex(TopologyIndex(), affinity=lambda _: None)
        #: Names of volumes whose reservation is being written; they are not in the index.
        self._assumed: set[str] = set()
        self._waiting = WaitingClaims()
        #: The volumes that called a claim which has not found its own yet.
        self._notified_by: defaultdict[str, set[str]] = defaultdict(set)
        self.claims: NewestCache[Claim] = NewestCache(_claim_shelves, self._waiting.update)
        self.volumes: NewestCache[Volume] = NewestCache(_volume_shelves, self._volume_moved)
        self.classes: dict[str, StorageClass] = {}
        self._pods_using = pods_using
        self._call = claim_to_notify

    @property
    def claim_rollback(self) -> bool:
        return self._claim_rollback()

    def observe_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        if after is not None:
            self.classes[after.name] = after
        elif before is not None:
            self.classes.pop(before.name, None)

    def volume(self, name: str) -> Volume | None:
        return self.volumes.get(name)

    def is_delayed(self, storage_class: str) -> bool | str:
        """Whether claims of a class wait for the scheduler, or why that is unknown."""
        return self._delayed_binding and is_delayed(storage_class, self.classes.get)

    def best_volume(self, claim: Claim, *, delayed: bool) -> Volume | None:
        """The volume to bind; for delayed claims only one already reserved for it.

        Raises SelectorError and QuantityError for a claim that cannot be understood.
        """
        return self._index.best(requirements_of(claim), reserved_only=delayed)

    def waiting_pods(self, claim: Claim) -> Iterable[str]:
        """Names of pods that use the claim, have no node yet and have not finished."""
        return [pod.name for pod in self._pods_using(claim.key) if pod.unplaced]

    def pods_with_access(self, claim: Claim) -> Iterable[str]:
        """Names of pods of the claim that were let onto a node, or may still be."""
        return [pod.name for pod in self._pods_using(claim.key) if may_have_used_volumes(pod)]

    def users_of_gone_claim(self, volume: Volume) -> list[str]:
        """Keys of unfinished pods that use the claim a volume points to, unless a claim of that name is there."""
        reference = volume.spec.claim_ref
        key = f"{reference.namespace}/{reference.name}" if reference is not None else ""
        if self.claims.get(key) is not None:
            return []
        return sorted(pod.key for pod in self._pods_using(key) if not pod.finished)

    def claims_naming(self, volume: str) -> Collection[Claim]:
        return self.claims.by_index(_naming(volume))

    def claims_without_volume(self, storage_class: str) -> Collection[Claim]:
        """Those of one class; "" stands for claims without any."""
        return self.claims.by_index(_wanting(storage_class))

    def volumes_reserved_for(self, claim_key: str) -> Collection[Volume]:
        return self.volumes.by_index(_reserved_for(claim_key))

    @contextmanager
    def assumed(self, volume: Volume) -> Iterator[None]:
        """A reservation of the volume is being written inside the block: no other claim is offered it."""
        self._assumed.add(volume.name)
        self._index.remove(volume.name)
        try:
            yield
        finally:
            self._assumed.discard(volume.name)
            current = self.volumes.get(volume.name)
            if current is not None:
                self._index.put(current)
                self._offer(current)

    def _volume_moved(self, before: Volume | None, after: Volume | None) -> None:
        if after is None:
            if before is not None:
                self._index.remove(before.name)
            return
        if after.name not in self._assumed:
            self._index.put(after)
        # A volume that changes while it is free is offered again: what did not suit may suit now.
        if before is None or not is_free(before) or _offered(before) != _offered(after):
            self._offer(after)

    def _offer(self, volume: Volume) -> None:
        """Call a claim that waits for such a volume and need not wait for the scheduler too."""
        if not self._index.is_free(volume.name) or self.is_delayed(volume.storage_class) is not False:
            return
        claim = self._waiting.claim_to_notify(volume)
        if claim is not None:
            self._notified_by[claim.key].add(volume.name)
            self._call(claim)

    @contextmanager
    def binding_attempt(self, claim_key: str) -> Iterator[None]:
        """The claim looks for itself inside the block, and may be called again afterwards."""
        self._waiting.start_attempt(claim_key)
        try:
            yield
        finally:
            self._waiting.attempt_finished(claim_key, self.claims.get(claim_key))
            self._reoffer_remaining_volumes(claim_key)

    def _reoffer_remaining_volumes(self, claim_key: str) -> None:
        """Once a claim has found a volume, offer the others it was notified of to other claims."""
        callers = {name for name in self._notified_by.pop(claim_key, ()) if self._index.is_free(name)}
        if not callers:
            return
        if claim_key in self._waiting:
            self._notified_by[claim_key] = callers
            return
        for name in sorted(callers):
            volume = self.volumes.get(name)
            if volume is not None:
                self._offer(volume)


def _offered(volume: Volume) -> tuple[object, ...]:
    return volume.spec, volume.metadata.labels, volume.storage_class


def _naming(volume: str) -> str:
    return f"names {volume}"


def _wanting(storage_class: str) -> str:
    return f"wants class {storage_class}"


def _reserved_for(claim_key: str) -> str:
    return f"reserved for {claim_key}"


def _claim_shelves(claim: Claim) -> tuple[str, ...]:
    bound = claim.spec.volume_name or well_known.BIND_COMPLETED in claim.metadata.annotations
    return (_naming(claim.spec.volume_name) if bound else _wanting(claim.storage_class),)


def _volume_shelves(volume: Volume) -> tuple[str, ...]:
    reference = volume.spec.claim_ref
    return () if reference is None else (_reserved_for(f"{reference.namespace}/{reference.name}"),)
