"""What people and other programs do to a simulated cluster in the middle of things: delete, and take volumes.

They use the API as anybody may: what is not there cannot be deleted, and a volume is taken only while it is free.
"""

from typing import Final

from mooring.api.errors import Conflict, NotFound
from mooring.api.kinds import CLAIM, STORED, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Client
from mooring.sim.faults import Deletion, Intervention, Taking, VolumeDeletion
from mooring.sim.history import RIVAL, USER, History, acting

_BY_PLURAL: Final = {kind.plural: kind for kind in STORED}
#: Where claims of other writers are made.
_NAMESPACE: Final = "default"


class Interventions:
    def __init__(self, client: Client, history: History) -> None:
        self._client = client
        self._history = history

    async def carry_out(self, fault: Intervention) -> None:
        match fault:
            case Deletion():
                with acting(USER, "delete"):
                    await self._delete(fault.kind, fault.key)
            case VolumeDeletion():
                with acting(USER, "delete"):
                    await self._delete_volumes_of(fault.claim)
            case Taking():
                with acting(RIVAL, ""):
                    await self._take(fault.volume)

    async def _delete(self, plural: str, key: str) -> None:
        namespace, _, name = key.rpartition("/")
        self._history.note(USER, f"deletes {plural} {key}")
        try:
            await self._client.delete(_BY_PLURAL[plural], name, namespace=namespace)
        except NotFound:
            self._history.note(USER, f"{plural} {key} was not there")

    async def _delete_volumes_of(self, claim: str) -> None:
        for volume in (await self._client.list(VOLUME)).items:
            reference = volume.spec.claim_ref
            if reference is not None and f"{reference.namespace}/{reference.name}" == claim:
                await self._delete(VOLUME.plural, volume.name)

    async def _take(self, name: str) -> None:
        """As somebody does who reserves volumes by hand: the claim first, then the volume under its version."""
        try:
            volume = await self._client.get(VOLUME, name)
        except NotFound:
            self._history.note(RIVAL, f"there is no volume {name} to take")
            return
        if volume.spec.claim_ref is not None or volume.deleting:
            self._history.note(RIVAL, f"volume {name} is not free")
            return
        spec = {
            "accessModes": list(volume.spec.access_modes),
            "volumeMode": volume.spec.volume_mode,
            "storageClassName": volume.storage_class,
            "resources": {"requests": {"storage": volume.size}},
        }
        body = {"metadata": {"name": f"{RIVAL}-{name}"}, "spec": spec}
        claim = await self._client.create(CLAIM, body, namespace=_NAMESPACE)
        mine = {"claimRef": claim.reference.body()}
        patch = MergePatch({"metadata": {"resourceVersion": volume.metadata.resource_version}, "spec": mine})
        try:
            await self._client.patch(VOLUME, name, patch)
            self._history.note(RIVAL, f"took volume {name}")
        except (Conflict, NotFound):
            self._history.note(RIVAL, f"somebody was faster with volume {name}")
