"""Rules for where the data of a volume is: the parts that volumes of pods and PersistentVolumes have in common.

Names of drivers and paths end up in directories of a node, so neither may lead out of where it belongs.
"""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, required, too_long, unsupported
from mooring.api.object_names import check_dns1123_label, check_dns1123_subdomain
from mooring.server.body import Body, rows
from mooring.server.validation.scalars import name

#: CSI's own limit for the name of a driver.
LONGEST_DRIVER_NAME: Final = 63

_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
#: Of a PersistentVolume; a pod's volume has only the one for `nodePublish`, in its own namespace.
_SECRETS: Final = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)


def validate_source(kind: str, source: Body, path: str) -> Iterator[Cause]:
    """`kind` is the field that holds the source, as in `hostPath`. Sources of other kinds are not looked at."""
    match kind:
        case "csi":
            yield from driver_name(source.get("driver", ""), f"{path}.driver")
        case "hostPath":
            yield from _required_path(source, path)
            kind_of_file = source.get("type", "")
            if source.get("path") and kind_of_file not in _HOST_PATH_TYPES:
                yield unsupported(f"{path}.type", kind_of_file, _HOST_PATH_TYPES)
        case "local":
            yield from _required_path(source, path)
        case "nfs":
            if not source.get("server"):
                yield required(f"{path}.server")
            exported = source.get("path", "")
            if not exported:
                yield required(f"{path}.path")
            if not exported.startswith("/"):
                yield bad_value(f"{path}.path", exported, "must be an absolute path")


def validate_driver_references(csi: Body, path: str) -> Iterator[Cause]:
    """The rest of a PersistentVolume's `csi`: its handle, which is the driver's own word, and its secrets."""
    if not csi.get("volumeHandle"):
        yield required(f"{path}.volumeHandle")
    for field in _SECRETS:
        if (secret := csi.get(field)) is not None:
            yield from name(secret.get("name", ""), check_dns1123_subdomain, f"{path}.{field}.name")
            yield from name(secret.get("namespace", ""), check_dns1123_label, f"{path}.{field}.namespace")


def driver_name(driver: str, path: str) -> Iterator[Cause]:
    """Capital letters are allowed, as they were before there was a rule."""
    if not driver:
        yield required(path)
        return
    if len(driver) > LONGEST_DRIVER_NAME:
        yield too_long(path, LONGEST_DRIVER_NAME)
    for why in check_dns1123_subdomain(driver.lower()):
        yield bad_value(path, driver, why)


def validate_files(source: Body, path: str) -> Iterator[Cause]:
    """The files that a pod's `configMap`, `secret` or `downwardAPI` puts into a volume."""
    for index, item in enumerate(rows(source, "items")):
        file, at = item.get("path", ""), f"{path}.items[{index}].path"
        if not file:
            yield required(at)
        yield from descending(file, at)
        if file.startswith("..") and not file.startswith("../"):
            yield bad_value(at, file, "must not start with '..'")


def descending(file: str, path: str) -> Iterator[Cause]:
    """A path below a directory that is not known yet."""
    if file.startswith("/"):
        yield bad_value(path, file, "must be a relative path")
    yield from _no_way_up(file, path)


def _required_path(source: Body, path: str) -> Iterator[Cause]:
    if not source.get("path"):
        yield required(f"{path}.path")
        return
    yield from _no_way_up(source["path"], f"{path}.path")


def _no_way_up(file: str, path: str) -> Iterator[Cause]:
    if ".." in file.split("/"):
        yield bad_value(path, file, "must not contain '..'")
