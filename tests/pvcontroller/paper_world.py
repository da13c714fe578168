"""A cluster on paper: bodies by key, changed by users and by the state machines' own patches, one at a time.

The machines see it through the real `Facts`, which are only told what `deliver` passes on, kind by kind as watches do:
between two deliveries they decide on old facts, and their patches fail as they would at a server, by version.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from builders import Body, claim_ref
from mooring.api import keys
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME, Kind
from mooring.api.patches.merge import apply_merge_patch
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.pvcontroller import claims, volumes
from mooring.pvcontroller.facts import Facts
from mooring.pvcontroller.intents import Step
from mooring.pvcontroller.writes import to_request

V = TypeVar("V", bound=ApiObject)

#: More than any settled sequence of writes needs.
MANY = 12


#: Before and after, as a watch's handlers get them.
News = tuple[ApiObject | None, ApiObject | None]


class OldFacts(Exception):
    """The write was decided on a version that is no longer the newest, or the object is gone."""


class PaperWorld:
    def __init__(self, *bodies: Body, pods: Sequence[Pod] = ()) -> None:
        self.bodies: dict[tuple[Kind[ApiObject], str], Body] = {}
        self._pods = pods
        self.facts = Facts(self._pods_using)
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
        """Let the machines know everything that has changed."""
        for kind, news in self._news.items():
            self.deliver_some(kind, len(news))

    def deliver_some(self, kind: Kind[ApiObject], most: int) -> None:
        """Let the machines know the oldest of what has changed about one kind."""
        news = self._news[kind]
        for _ in range(min(most, len(news))):
            before, after = news.popleft()
            if kind is CLAIM:
                self.facts.claims.observe(before, after)  # type: ignore[arg-type]  # the kind says what they are
            elif kind is VOLUME:
                self.facts.volumes.observe(before, after)  # type: ignore[arg-type]
            else:
                self.facts.observe_class(before, after)  # type: ignore[arg-type]

    def restart(self) -> None:
        """The controller comes back and knows nothing but what is there."""
        self.facts = Facts(self._pods_using)
        for news in self._news.values():
            news.clear()
        for (kind, _), body in self.bodies.items():
            self._news[kind].append((None, self._view(kind, body)))
        self.deliver()

    def look_at_claim(self, key: str) -> Step:
        claim = self.facts.claims.get(key)
        return Step() if claim is None else claims.next_step(claim, self.facts)

    def look_at_volume(self, key: str) -> Step:
        volume = self.facts.volumes.get(key)
        if volume is None:
            return Step()
        users = self.facts.users_of_gone_claim(volume)
        return volumes.next_step(volume, self._claim_behind(volume), users=users)

    def _claim_behind(self, volume: Volume) -> Claim | None:
        reference = volume.spec.claim_ref
        if reference is None:
            return None
        key = f"{reference.namespace}/{reference.name}"
        known = self.facts.claims.get(key)
        if known is not None and known.uid == reference.uid:
            return known
        live = self.view(CLAIM, key) if (CLAIM, key) in self.bodies else None
        return live if live is not None and live.uid == reference.uid else None

    def _pods_using(self, claim_key: str) -> list[Pod]:
        return [pod for pod in self._pods if claim_key in pod.claim_keys]

    def take(self, step: Step, *, answered: bool = True) -> None:
        """Carry a step's write out; without an answer the machines hear of it only later. Raises OldFacts."""
        if step.write is None:
            return
        kind, target, patch, subresource = to_request(step.write)
        before = self.bodies.get((kind, target.key))
        if before is None or before["metadata"]["resourceVersion"] != patch.body["metadata"]["resourceVersion"]:
            raise OldFacts
        patched = apply_merge_patch(before, dict(patch.body))
        assert isinstance(patched, dict)
        # Spec and status are written apart: neither endpoint may carry the other.
        untouched = "spec" if subresource == "status" else "status"
        assert patched[untouched] == before[untouched]
        self._version += 1
        patched["metadata"]["resourceVersion"] = str(self._version)  # type: ignore[index,call-overload]
        self._store(kind, before, patched)
        returned = self._view(kind, patched)
        if not answered:
            return
        if isinstance(returned, Claim):
            self.facts.claims.learn(returned)
        elif isinstance(returned, Volume):
            self.facts.volumes.learn(returned)

    def settle(self, kind: Kind[ApiObject], key: str) -> list[str]:
        """Everything one object's machine wants, write after write; returns the reasons of the events it sent."""
        said: list[str] = []
        for _ in range(MANY):
            step = self.look_at_claim(key) if kind is CLAIM else self.look_at_volume(key)
            self.take(step)
            said += [f"{say.type} {say.reason}" for say in step.says]
            if step.write is None:
                return said
        raise AssertionError(f"{key} does not settle")

    def settle_all(self) -> None:
        """Every object's machine in turn, until none of them wants anything any more."""
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
        """A claim in a few words: phase, volume, and which marks it has."""
        body = self.bodies[CLAIM, f"default/{name}"]
        marks = body["metadata"].get("annotations", {})
        volume = body["spec"].get("volumeName", "")
        words = [body["status"]["phase"]] + ([f"to {volume}"] if volume else [])
        if volume and keys.BIND_COMPLETED not in marks:
            words.append("unfinished")
        return " ".join(words + _by_controller(marks))

    def state(self) -> dict[str, str]:
        """All claims and volumes in a few words, by name."""
        told = {}
        for kind, key in self.bodies:
            name = key.rpartition("/")[2]
            if kind is not STORAGE_CLASS:
                told[name] = self.claim(name) if kind is CLAIM else self.volume(name)
        return told

    def volume(self, name: str = "volume-1") -> str:
        """A volume in a few words: phase, claim (and whether by uid or only by name), and whose choice that was."""
        body = self.bodies[VOLUME, name]
        words = [body["status"]["phase"]]
        if reference := body["spec"].get("claimRef"):
            words.append(f"{'to' if reference.get('uid') else 'for'} {reference['name']}")
        return " ".join(words + _by_controller(body["metadata"].get("annotations", {})))

    def view(self, kind: Kind[V], key: str) -> V:
        """An object as it is now, delivered or not."""
        return kind.decode(msgspec.json.encode(self.bodies[kind, key]))

    def reserve(self, volume: str, claim: Claim) -> None:
        """What the scheduler's prebinding leaves on a volume."""
        before = self.bodies[VOLUME, volume]
        meta, spec = dict(before["metadata"]), dict(before["spec"])
        meta["annotations"] = {**meta.get("annotations", {}), keys.BOUND_BY_CONTROLLER: keys.YES}
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
    return ["by controller"] if keys.BOUND_BY_CONTROLLER in marks else []
