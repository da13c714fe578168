"""Rules for Nodes and CSINodes."""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, duplicate, forbidden, required
from mooring.api.object_names import check_label_value, check_qualified_name
from mooring.server.body import Body, part, rows
from mooring.server.validation.amounts import validate_amounts
from mooring.server.validation.pod_placement import TAINT_EFFECTS
from mooring.server.validation.scalars import immutable, not_negative, one_of, unique
from mooring.server.validation.volume_sources import driver_name

#: CSI's limit for the name of a node in the driver's own words.
_LONGEST_NODE_ID: Final = 256


def validate_node(obj: Body) -> Iterator[Cause]:
    yield from _taints(rows(obj, "spec", "taints"))
    yield from _status(obj)


def validate_node_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from _taints(rows(new, "spec", "taints"))
    now, was = part(new, "spec"), part(old, "spec")
    for field, called in (("providerID", "providerID"), ("podCIDR", "podCIDR"), ("podCIDRs", "podCIDR")):
        if was.get(field) and now.get(field) != was[field]:
            yield forbidden(f"spec.{field}", f'node updates may not change {called} except from "" to valid')


def validate_node_status(new: Body, old: Body) -> Iterator[Cause]:
    yield from _status(new)


def validate_csi_node(obj: Body) -> Iterator[Cause]:
    drivers = rows(obj, "spec", "drivers")
    yield from unique([driver.get("name", "") for driver in drivers], "spec.drivers", "name")
    for index, driver in enumerate(drivers):
        path = f"spec.drivers[{index}]"
        yield from driver_name(driver.get("name", ""), f"{path}.name")
        if not driver.get("nodeID"):
            yield required(f"{path}.nodeID")
        elif len(driver["nodeID"].encode()) > _LONGEST_NODE_ID:
            yield bad_value(f"{path}.nodeID", driver["nodeID"], f"must be {_LONGEST_NODE_ID} characters or less")
        for key in driver.get("topologyKeys", []):
            for why in check_qualified_name(key):
                yield bad_value(f"{path}.topologyKeys", key, why)
        yield from not_negative(part(driver, "allocatable").get("count", 0), f"{path}.allocatable.count")


def validate_csi_node_update(new: Body, old: Body) -> Iterator[Cause]:
    """Drivers come and go; one that stays keeps what it said, except for how many volumes it takes."""
    yield from validate_csi_node(new)
    before = {driver.get("name"): _lasting(driver) for driver in rows(old, "spec", "drivers")}
    for index, driver in enumerate(rows(new, "spec", "drivers")):
        if (was := before.get(driver.get("name"))) is not None:
            yield from immutable(_lasting(driver), was, f"spec.drivers[{index}]")


def _lasting(driver: Body) -> Body:
    return {field: value for field, value in driver.items() if field != "allocatable"}


def _taints(taints: list[Body]) -> Iterator[Cause]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"spec.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        for why in check_qualified_name(key):
            yield bad_value(f"{path}.key", key, why)
        for why in check_label_value(taint.get("value", "")):
            yield bad_value(f"{path}.value", taint["value"], why)
        yield from one_of(effect, TAINT_EFFECTS, f"{path}.effect")
        if (key, effect) in seen:
            yield duplicate(path, f"{key}:{effect}")
        seen.add((key, effect))


def _status(obj: Body) -> Iterator[Cause]:
    for field in ("capacity", "allocatable"):
        yield from validate_amounts(part(obj, "status", field), f"status.{field}")
