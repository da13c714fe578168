"""Rules for the volumes of a pod: a name, exactly one source, and what the sources Mooring acts on need."""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import forbidden, required
from mooring.api.object_names import check_dns1123_label
from mooring.server.body import Body, rows
from mooring.server.validation.claim import validate_claim_spec
from mooring.server.validation.scalars import name, unique
from mooring.server.validation.volume_sources import validate_files, validate_source

#: Sources that consist of files with paths of their own.
_WITH_FILES: Final = frozenset({"configMap", "downwardAPI", "secret"})


def validate_pod_volumes(spec: Body, path: str) -> Iterator[Cause]:
    volumes = rows(spec, "volumes")
    yield from unique([volume.get("name", "") for volume in volumes], f"{path}.volumes", "name")
    for index, volume in enumerate(volumes):
        yield from _volume(volume, f"{path}.volumes[{index}]")


def _volume(volume: Body, path: str) -> Iterator[Cause]:
    yield from name(volume.get("name", ""), check_dns1123_label, f"{path}.name")
    sources = [field for field in volume if field != "name"]
    for extra in sources[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    for source in sources[:1]:
        yield from validate_source(source, volume[source], f"{path}.{source}")
        if source in _WITH_FILES:
            yield from validate_files(volume[source], f"{path}.{source}")
        if source == "projected":
            yield from _projected(rows(volume[source], "sources"), f"{path}.projected.sources")
    if (claim := volume.get("persistentVolumeClaim")) is not None and not claim.get("claimName"):
        yield required(f"{path}.persistentVolumeClaim.claimName")
    if (ephemeral := volume.get("ephemeral")) is not None:
        template = ephemeral.get("volumeClaimTemplate")
        if template is None:
            yield required(f"{path}.ephemeral.volumeClaimTemplate")
        else:
            yield from validate_claim_spec(template["spec"], f"{path}.ephemeral.volumeClaimTemplate.spec")


def _projected(sources: list[Body], path: str) -> Iterator[Cause]:
    for index, projection in enumerate(sources):
        for source in _WITH_FILES & projection.keys():
            yield from validate_files(projection[source], f"{path}[{index}].{source}")
