"""Everything the PV controller knows, with the answers its state machines ask for.

Pure: fed by observed changes and by the answers to own writes. Implements `claims.Facts`; the volume machine's one
question is answered by the shell, because "the claim is gone" must be confirmed by the server.
"""

from collections.abc import Iterable

from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.pvcontroller.cache import NewestCache
from mooring.volumes import matching


class Facts:
    def __init__(self) -> None:
        self.claims: NewestCache[Claim] = NewestCache(file_under=lambda claim: (claim.spec.volume_name,))
        self.volumes: NewestCache[Volume] = NewestCache(file_under=_shelves)
        self._classes: dict[str, StorageClass] = {}
        self._pods: dict[str, dict[str, Pod]] = {}

    def observe_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        if after is not None:
            self._classes[after.name] = after
        elif before is not None:
            self._classes.pop(before.name, None)

    def observe_pod(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None:
            for claim in before.claim_keys:
                self._pods.get(claim, {}).pop(before.key, None)
        if after is not None:
            for claim in after.claim_keys:
                self._pods.setdefault(claim, {})[after.key] = after

    def volume(self, name: str) -> Volume | None:
        return self.volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self._classes.get(name)

    def default_class(self) -> str | None:
        marked = [
            c
            for c in self._classes.values()
            if "true"
            in (c.metadata.annotations.get(keys.DEFAULT_CLASS), c.metadata.annotations.get(keys.DEFAULT_CLASS_BETA))
        ]
        if not marked:
            return None
        # RFC 3339 in UTC orders as text; the newest wins, among equally new ones the first by name.
        newest = max(c.metadata.creation_timestamp or "" for c in marked)
        return min(c.name for c in marked if (c.metadata.creation_timestamp or "") == newest)

    def best_volume(self, claim: Claim, *, delayed: bool) -> Volume | None:
        """Volumes with the fewest access modes first, so that a plain claim does not use up a shareable volume."""
        shelf = _reserved_shelf(claim.key) if delayed else _class_shelf(claim.storage_class)
        wanted = set(claim.spec.access_modes)
        groups: dict[int, list[Volume]] = {}
        for volume in self.volumes.filed_under(shelf):
            offered = set(volume.spec.access_modes)
            if wanted <= offered:
                groups.setdefault(len(offered), []).append(volume)
        found = (matching.find(claim, groups[size], reserved_only=delayed) for size in sorted(groups))
        return next((volume for volume in found if volume is not None), None)

    def waiting_pods(self, claim: Claim) -> Iterable[str]:
        pods = self._pods.get(claim.key, {}).values()
        return [pod.name for pod in pods if not pod.spec.node_name and not pod.finished]

    def pods_using(self, claim_key: str) -> Iterable[Pod]:
        return self._pods.get(claim_key, {}).values()


def _class_shelf(storage_class: str) -> str:
    return f"class:{storage_class}"


def _reserved_shelf(claim_key: str) -> str:
    return f"claim:{claim_key}"


def _shelves(volume: Volume) -> tuple[str, ...]:
    reference = volume.spec.claim_ref
    shelf = _class_shelf(volume.storage_class)
    return (shelf,) if reference is None else (shelf, _reserved_shelf(f"{reference.namespace}/{reference.name}"))
