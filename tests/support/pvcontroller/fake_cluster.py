"""A fake cluster: bodies by key, changed by users and by the state machines' patches, one at a time.

The state machines use the real `BindingCache`, which observes only what `deliver` passes on, kind by kind, like
watches. Between two deliveries they decide on stale objects, and their patches fail with conflicts, as on a server.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from mooring.api import well_known
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME, Kind
from mooring.api.patches.contract import apply_merge_patch
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.pvcontroller import claim_sync, volume_sync
from mooring.pvcontroller.actions import SyncStep, to_request
from mooring.pvcontroller.cache import BindingCache
from support.builders import Body, claim_ref

V = TypeVar("V", bound=ApiObject)

#: More than any settled sequence of writes needs.
MANY = 12


#: Before and after, as a watch's handlers get them.
News = tuple[ApiObject | None, ApiObject | None]


class OldFacts(Exception):
    """The write was decided on a stale version, or the object is deleted."""


class FakeCluster:
    def __init__(self, *bodies: Body, pods: Sequence[Pod] = ()) -> None:
        self.bodies: dict[tuple[Kind[ApiObject], str], Body] = {}
        self._pods = pods
        self.cache = BindingCache(self._pods_using)
        self._news: dict[Kind[ApiObject], deque[News]] = {kind: deque() for kind in (STORAGE_CLASS, VOLUME, CLAIM)}
        self._version = 0
        for body in bodies:
            self.create(body)
        self.deliver()

    def create(self, body: Body) -> None:
        kind = {"PersistentVolume": VOLUME, "StorageClass": STORAGE_CLASS}.get(body["kind"], CLAIM)
        self._version += 1
        observed = {"uid": f"{body['metadata']['name']}-uid"} | body["metadata"]
        self._store(kind, None, body | {"metadata": observed | {"resourceVersion": str(self._version)}})

    def delete(self, kind: Kind[ApiObject], key: str) -> None:
        self._news[kind].append((self._view(kind, self.bodies.pop((kind, key))), None))

    def deliver(self) -> None:
        """Deliver all pending watch events."""
        for kind, news in self._news.items():
            self.deliver_some(kind, len(news))

    def deliver_some(self, kind: Kind[ApiObject], most: int) -> None:
        """Deliver the oldest pending event of one kind."""
        news = self._news[kind]
        for _ in range(min(most, len(news))):
            before, after = news.popleft()
            if kind is CLAIM:
                self.cache.claims.observe(before, after)  # type: ignore[arg-type]  # the kind says what they are
            elif kind is VOLUME:
                self.cache.volumes.observe(before, after)  # type: ignore[arg-type]
            else:
                self.cache.observe_class(before, after)  # type: ignore[arg-type]

    def restart(self) -> None:
        """Restart the controller with an empty cache, and deliver the existing objects."""
        self.cache = BindingCache(self._pods_using)
        for news in self._news.values():
            news.clear()
        for (kind, _), body in self.bodies.items():
            self._news[kind].append((None, self._view(kind, body)))
        self.deliver()

    def enqueue_claim(self, key: str) -> SyncStep:
        claim = self.cache.claims.get(key)
        return SyncStep() if claim is None else claim_sync.next_claim_step(claim, self.cache)

    def look_at_volume(self, key: str) -> SyncStep:
        volume = self.cache.volumes.get(key)
        if volume is None:
            return SyncStep()
        users = self.cache.users_of_gone_claim(volume)
        return volume_sync.next_volume_step(volume, self._claim_behind(volume), users=users)

    def _claim_behind(self, volume: Volume) -> Claim | None:
        reference = volume.spec.claim_ref
        if reference is None:
            return None
        key = f"{reference.namespace}/{reference.name}"
        known = self.cache.claims.get(key)
        if known is not None and known.uid == reference.uid:
            return known
        live = self.view(CLAIM, key) if (CLAIM, key) in self.bodies else None
        return live if live is not None and live.uid == reference.uid else None

    def _pods_using(self, claim_key: str) -> list[Pod]:
        return [pod for pod in self._pods if claim_key in pod.claim_keys]

    def take(self, step: SyncStep, *, answered: bool = True) -> None:
        """Apply a step's write; without a response it is observed only later. Raises OldFacts."""
        if step.write is None:
            return
        kind, target, patch, subresource = to_request(step.write)
        before = self.bodies.get((kind, target.key))
        if before is None or before["metadata"]["resourceVersion"] != patch.body["metadata"]["resourceVersion"]:
            raise OldFacts
        patched = apply_merge_patch(before, dict(patch.body))
        assert isinstance(patched, dict)
        # Spec and status are written separately: each endpoint ignores the other part.
        untouched = "spec" if subresource == "status" else "status"
        assert patched[untouched] == before[untouched]
        self._version += 1
        patched["metadata"]["resourceVersion"] = str(self._version)  # type: ignore[index,call-overload]
        self._store(kind, before, patched)
        returned = self._view(kind, patched)
        if not answered:
            return
        if isinstance(returned, Claim):
            self.cache.claims.apply_write_result(returned)
        elif isinstance(returned, Volume):
            self.cache.volumes.apply_write_result(returned)

    def settle(self, kind: Kind[ApiObject], key: str) -> list[str]:
        """Sync one object until it needs no more writes; returns the reasons of the events."""
        reasons: list[str] = []
        for _ in range(MANY):
            step = self.enqueue_claim(key) if kind is CLAIM else self.look_at_volume(key)
            self.take(step)
            reasons += [f"{say.type} {say.reason}" for say in step.events]
            if step.write is None:
                return reasons
        raise AssertionError(f"{key} does not settle")

    def settle_all(self) -> None:
        """Sync all objects in turn until none needs a write."""
        for _ in range(MANY):
            before = self._version
            for kind, key in tuple(self.bodies):
                if kind is not STORAGE_CLASS:
                    self.settle(kind, key)
            self.deliver()
            if self._version == before:
                return
        raise AssertionError("the machines do not settle")

    def claim(self, name: str = "claim-1") -> str:
        """A claim as a short text: phase, volume, and annotations."""
        body = self.bodies[CLAIM, f"default/{name}"]
        marks = body["metadata"].get("annotations", {})
        volume = body["spec"].get("volumeName", "")
        words = [body["status"]["phase"]] + ([f"to {volume}"] if volume else [])
        if volume and well_known.BIND_COMPLETED not in marks:
            words.append("unfinished")
        return " ".join(words + _by_controller(marks))

    def state(self) -> dict[str, str]:
        """All claims and volumes as short texts, by name."""
        states = {}
        for kind, key in self.bodies:
            name = key.rpartition("/")[2]
            if kind is not STORAGE_CLASS:
                states[name] = self.claim(name) if kind is CLAIM else self.volume(name)
        return states

    def volume(self, name: str = "volume-1") -> str:
        """A volume as a short text: phase, claim (by uid or by name), and whether the controller chose it."""
        body = self.bodies[VOLUME, name]
        words = [body["status"]["phase"]]
        if reference := body["spec"].get("claimRef"):
            words.append(f"{'to' if reference.get('uid') else 'for'} {reference['name']}")
        return " ".join(words + _by_controller(body["metadata"].get("annotations", {})))

    def view(self, kind: Kind[V], key: str) -> V:
        """The current object, delivered or not."""
        return kind.decode(msgspec.json.encode(self.bodies[kind, key]))

    def reserve(self, volume: str, claim: Claim) -> None:
        """Reserve the volume, like the scheduler."""
        before = self.bodies[VOLUME, volume]
        meta, spec = dict(before["metadata"]), dict(before["spec"])
        meta["annotations"] = {**meta.get("annotations", {}), well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
        spec["claimRef"] = claim_ref(name=claim.name, uid=claim.uid)
        self._version += 1
        self._store(VOLUME, before, before | {"metadata": meta | {"resourceVersion": str(self._version)}, "spec": spec})

    def _store(self, kind: Kind[ApiObject], before: Body | None, after: Body) -> None:
        new = self._view(kind, after)
        self.bodies[kind, new.key] = after
        self._news[kind].append((None if before is None else self._view(kind, before), new))

    def _view(self, kind: Kind[ApiObject], body: Mapping[str, Any]) -> ApiObject:
        return kind.decode(msgspec.json.encode(body))


def _by_controller(marks: Mapping[str, str]) -> list[str]:
    return ["by controller"] if well_known.BOUND_BY_CONTROLLER in marks else []
