"""Promises laid over observed objects: what the decider has decided but not yet seen written.

Used by `state.VolumeState`, once for volumes and once for claims. Observed objects are kept as pointers to what the
watch delivered; only a promise costs memory of its own. It neither writes nor waits.

    observed ──assume──► assumed ──restore──► observed
                            └─────observe (another resourceVersion)──► observed
"""

from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

from mooring.api.views.meta import ApiObject

V = TypeVar("V", bound=ApiObject)


class OutOfSync(Exception):
    """The object is no longer what the decision was made on; decide anew."""

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

    def __len__(self) -> int:
        return len(self._observed)

    def __iter__(self) -> Iterator[V]:
        """Every object, as assumed where it is."""
        return (self._assumed.get(key, seen) for key, seen in self._observed.items())

    def get(self, key: str) -> V | None:
        """The object as assumed, or as observed where nothing is; None when it is not there."""
        assumed = self._assumed.get(key)
        return self._observed.get(key) if assumed is None else assumed

    def promised(self) -> Collection[V]:
        """The objects as they were promised, as far as the API has not said anything new about them."""
        return self._assumed.values()

    def observed(self, key: str) -> V | None:
        """The object as the API has it, whatever is assumed."""
        return self._observed.get(key)

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

    def restore(self, promised: V) -> None:
        """Take back exactly this promise; nothing happens when it is no longer in force."""
        if self._assumed.get(promised.key) is promised:
            del self._assumed[promised.key]


def _version(thing: ApiObject) -> str:
    return thing.metadata.resource_version
