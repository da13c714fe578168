"""Rules for the small kinds: ConfigMaps, Secrets, Services, Leases."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden, required, too_long
from mooring.server.body import Body, part, rows
from mooring.server.validation.scalars import immutable, not_negative, one_of, port, unique

#: All values of a ConfigMap or Secret together; upstream's figure, below what a store likes to keep in one row.
MAX_DATA: Final = 1024 * 1024

_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_DATA_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_SERVICE_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_HEADLESS: Final = "None"


def validate_data(obj: Body) -> Iterator[Cause]:
    """ConfigMaps and Secrets; a Secret's values are counted as they are written, in base64."""
    size = 0
    for field in ("data", "binaryData"):
        for key, value in part(obj, field).items():
            size += len(value)
            if not _DATA_KEY.fullmatch(key) or key in (".", ".."):
                yield bad_value(f"{field}[{key}]", key, _DATA_KEY_RULE)
    if size > MAX_DATA:
        yield too_long("", MAX_DATA)


def validate_data_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_data(new)
    yield from immutable(new.get("type"), old.get("type"), "type")
    if old.get("immutable"):
        for field in ("data", "binaryData", "immutable"):
            if new.get(field) != old.get(field):
                yield forbidden(field, "field is immutable when `immutable` is set")


def validate_service(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from one_of(spec["type"], _SERVICE_TYPES, "spec.type")
    yield from one_of(spec["sessionAffinity"], ("ClientIP", "None"), "spec.sessionAffinity")
    ports = rows(spec, "ports")
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != _HEADLESS:
        yield required("spec.ports")
    yield from unique([p.get("name", "") for p in ports], "spec.ports", "name")
    for index, one in enumerate(ports):
        yield from port(one.get("port", 0), f"spec.ports[{index}].port")
        if isinstance(to := one.get("targetPort", one.get("port", 0)), int):
            yield from port(to, f"spec.ports[{index}].targetPort")
        yield from one_of(one["protocol"], ("SCTP", "TCP", "UDP"), f"spec.ports[{index}].protocol")
        if len(ports) > 1 and not one.get("name"):
            yield required(f"spec.ports[{index}].name")


def validate_service_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_service(new)
    if was := part(old, "spec").get("clusterIP"):
        yield from immutable(part(new, "spec").get("clusterIP"), was, "spec.clusterIP")


def validate_lease(obj: Body) -> Iterator[Cause]:
    spec: Mapping[str, int] = part(obj, "spec")
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield bad_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
    yield from not_negative(spec.get("leaseTransitions", 0), "spec.leaseTransitions")


def validate_lease_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_lease(new)
