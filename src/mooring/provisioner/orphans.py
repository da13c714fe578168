"""Volumes that a driver lists and no object names, and for how long that has been so. Pure, given the time.

CSI's lists have no names. A volume's name, from which its claim follows, is known where the driver uses it as the id,
or shows it in the volume's context under the key by which provisioners pass it on (`csi.storage.k8s.io/pv/name`).
Volumes of drivers that do neither are none of our business.
"""

from collections.abc import Collection, Iterable
from typing import Final

from mooring.csi.contract import DriverVolume
from mooring.provisioner.class_parameters import VOLUME_NAME

#: Longer than any call to a driver or to the API may take, and far longer than a healthy attempt does. Seconds.
SUSPECT_AFTER: Final = 600.0


class Orphans:
    """Counts from the first list of this process on: a restart only ever waits longer."""

    def __init__(self, *, prefix: str) -> None:
        self._prefix = f"{prefix}-"
        #: By handle.
        self._since: dict[str, float] = {}
        self._suspects: dict[str, DriverVolume] = {}

    def look(self, listed: Iterable[DriverVolume], named: Collection[str], now: float) -> list[str]:
        """The uids of the claims whose volumes have been without an object for too long. `named` are the handles that
        objects name."""
        unnamed = {each.volume_id: each for each in listed if each.volume_id not in named}
        self._since = {handle: self._since.get(handle, now) for handle in unnamed}
        old = (unnamed[handle] for handle, since in self._since.items() if now - since >= SUSPECT_AFTER)
        self._suspects = {uid: volume for volume in old if (uid := self._claim_uid(volume))}
        return list(self._suspects)

    def suspect(self, uid: str) -> DriverVolume | None:
        return self._suspects.get(uid)

    def forget(self, uid: str) -> None:
        volume = self._suspects.pop(uid, None)
        if volume is not None:
            self._since.pop(volume.volume_id, None)

    def _claim_uid(self, volume: DriverVolume) -> str:
        for name in (volume.volume_id, volume.context.get(VOLUME_NAME, "")):
            if name.startswith(self._prefix):
                return name.removeprefix(self._prefix)
        return ""
