"""Rules for the containers of a pod, one by one and together."""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, duplicate, not_found, required
from mooring.api.object_names import check_dns1123_label
from mooring.server.body import Body, rows
from mooring.server.validation.amounts import validate_resources
from mooring.server.validation.scalars import name, one_of, port, unique
from mooring.server.validation.volume_sources import descending

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("FallbackToLogsOnError", "File")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")


def validate_containers(spec: Body, path: str, volumes: frozenset[str]) -> Iterator[Cause]:
    """All containers of a pod spec; `volumes` are the names they may mount."""
    containers, init = rows(spec, "containers"), rows(spec, "initContainers")
    if not containers:
        yield required(f"{path}.containers")
    taken: set[str] = set()
    for listed, at in ((containers, "containers"), (init, "initContainers")):
        for index, container in enumerate(listed):
            called = container.get("name", "")
            if called in taken:
                yield duplicate(f"{path}.{at}[{index}].name", called)
            taken.add(called)
            yield from _container(container, f"{path}.{at}[{index}]", volumes)


def _container(container: Body, path: str, volumes: frozenset[str]) -> Iterator[Cause]:
    yield from name(container.get("name", ""), check_dns1123_label, f"{path}.name")
    image = container.get("image", "")
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield bad_value(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from one_of(container["imagePullPolicy"], _PULL_POLICIES, f"{path}.imagePullPolicy")
    yield from one_of(container["terminationMessagePolicy"], _MESSAGE_POLICIES, f"{path}.terminationMessagePolicy")
    yield from _ports(rows(container, "ports"), f"{path}.ports")
    for index, variable in enumerate(rows(container, "env")):
        if not variable.get("name"):
            yield required(f"{path}.env[{index}].name")
    yield from _mounts(rows(container, "volumeMounts"), f"{path}.volumeMounts", "mountPath", volumes)
    yield from _mounts(rows(container, "volumeDevices"), f"{path}.volumeDevices", "devicePath", volumes)
    yield from validate_resources(container, path)


def _ports(ports: list[Body], path: str) -> Iterator[Cause]:
    yield from unique([p.get("name", "") for p in ports], path, "name")
    for index, one in enumerate(ports):
        at = f"{path}[{index}]"
        if "containerPort" in one:
            yield from port(one["containerPort"], f"{at}.containerPort")
        else:
            yield required(f"{at}.containerPort")
        if "hostPort" in one:
            yield from port(one["hostPort"], f"{at}.hostPort")
        yield from one_of(one["protocol"], _PROTOCOLS, f"{at}.protocol")


def _mounts(mounts: list[Body], path: str, place: str, volumes: frozenset[str]) -> Iterator[Cause]:
    """Mounts and devices are alike: a volume of the pod, at a place of its own."""
    taken: set[str] = set()
    for index, mount in enumerate(mounts):
        at, here = f"{path}[{index}]", mount.get(place, "")
        if not mount.get("name"):
            yield required(f"{at}.name")
        elif mount["name"] not in volumes:
            yield not_found(f"{at}.name", mount["name"])
        if not here:
            yield required(f"{at}.{place}")
        elif here in taken:
            yield bad_value(f"{at}.{place}", here, "must be unique")
        taken.add(here)
        for field in ("subPath", "subPathExpr"):
            # Upstream names the list here, not the mount.
            yield from descending(mount.get(field, ""), f"{path}.{field}")
