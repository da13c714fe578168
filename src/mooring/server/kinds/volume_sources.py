"""Validation of volume sources, as far as volumes of pods and PersistentVolumes have them in common.

Driver names and paths become directories on a node, so neither may contain `..` or lead out of its directory.
"""

from collections.abc import Iterator
from typing import Final

from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, required, too_long, unsupported
from mooring.api.names import check_dns1123_label, check_dns1123_subdomain
from mooring.server.encoding import rows
from mooring.server.kinds.field_checks import present, validate_name

#: CSI's limit.
MAX_DRIVER_NAME_LENGTH: Final = 63

_FILES: Final = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
#: Secret references of a PersistentVolume.
_SECRETS: Final = [
    f"{call}SecretRef" for call in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand")
]


def validate_source(kind: str, source: Body, path: str) -> Iterator[Cause]:
    """`kind` is the field of the source, such as `hostPath`; other sources are not checked."""
    match kind:
        case "csi":
            yield from driver_name(source.get("driver", ""), f"{path}.driver")
        case "hostPath":
            yield from _required_path(source, path)
            kind_of_file = source.get("type", "")
            if source.get("path") and kind_of_file not in _FILES:
                yield unsupported(f"{path}.type", kind_of_file, _FILES)
        case "image":
            yield from present(source, path, "reference")
        case "local":
            yield from _required_path(source, path)
        case "nfs":
            yield from present(source, path, "server", "path")
            exported = source.get("path", "")
            if not exported.startswith("/"):
                yield bad_value(f"{path}.path", exported, "must be an absolute path")


def validate_driver_references(csi: Body, path: str) -> Iterator[Cause]:
    """The volume handle and secrets of a PersistentVolume's `csi`."""
    yield from present(csi, path, "volumeHandle")
    for field in _SECRETS:
        if (secret := csi.get(field)) is not None:
            yield from validate_name(secret.get("name", ""), check_dns1123_subdomain, f"{path}.{field}.name")
            yield from validate_name(secret.get("namespace", ""), check_dns1123_label, f"{path}.{field}.namespace")


def driver_name(driver: str, path: str) -> Iterator[Cause]:
    """As in kube-apiserver, upper case is allowed."""
    if not driver:
        yield required(path)
        return
    if len(driver) > MAX_DRIVER_NAME_LENGTH:
        yield too_long(path, MAX_DRIVER_NAME_LENGTH)
    for why in check_dns1123_subdomain(driver.lower()):
        yield bad_value(path, driver, why)


def validate_files(source: Body, path: str) -> Iterator[Cause]:
    """`items` of a `configMap`, `secret` or `downwardAPI` volume."""
    for index, item in enumerate(rows(source, "items")):
        file, at = item.get("path", ""), f"{path}.items[{index}].path"
        if not file:
            yield required(at)
        yield from descending(file, at)
        if file.startswith("..") and not file.startswith("../"):
            yield bad_value(at, file, "must not start with '..'")


def descending(file: str, path: str) -> Iterator[Cause]:
    """A relative path without `..`."""
    if file.startswith("/"):
        yield bad_value(path, file, "must be a relative path")
    yield from _no_way_up(file, path)


def _required_path(source: Body, path: str) -> Iterator[Cause]:
    yield from present(source, path, "path")
    yield from _no_way_up(source.get("path", ""), f"{path}.path")


def _no_way_up(file: str, path: str) -> Iterator[Cause]:
    if ".." in file.split("/"):
        yield bad_value(path, file, "must not contain '..'")
