"""The ConfigMaps and Secrets a pod's volumes are made of.

Pure. Whether they are there is asked of the server, by name and only when a pod needs them: an agent that may read
every Secret of a cluster would be too much. Environment variables are not looked at, since nothing is run.
"""

from collections.abc import Iterator
from typing import NamedTuple

from mooring.api.kinds import CONFIG_MAP, SECRET, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import NamedSource, Pod


class Source(NamedTuple):
    """An object that has to be there before the volume can be made."""

    volume: str
    kind: Kind[ApiObject]
    name: str

    @property
    def missing(self) -> str:
        """The event's text, as the kubelet has it."""
        return f'MountVolume.SetUp failed for volume "{self.volume}" : {self.kind.singular} "{self.name}" not found'


def sources(pod: Pod) -> Iterator[Source]:
    """Those that are not optional, in the order of the pod's volumes."""
    for volume in pod.spec.volumes:
        yield from _source(volume.name, CONFIG_MAP, volume.config_map)
        yield from _source(volume.name, SECRET, volume.secret)
        for part in volume.projected.sources if volume.projected is not None else ():
            yield from _source(volume.name, CONFIG_MAP, part.config_map)
            yield from _source(volume.name, SECRET, part.secret)


def _source(volume: str, kind: Kind[ApiObject], named: NamedSource | None) -> Iterator[Source]:
    if named is not None and not named.optional:
        yield Source(volume, kind, named.secret_name or named.name)
