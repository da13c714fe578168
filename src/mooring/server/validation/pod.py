"""Rules for pods, and for the pod specs inside workloads."""

from collections.abc import Iterable, Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden
from mooring.server.body import Body, rows
from mooring.server.validation.amounts import validate_pod_resources
from mooring.server.validation.containers import validate_containers
from mooring.server.validation.pod_placement import validate_placement
from mooring.server.validation.pod_volumes import validate_pod_volumes
from mooring.server.validation.scalars import one_of
from mooring.server.validation.sound_specs import SoundSpecs

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_DEADLINE: Final = 2**31 - 1

_IMMUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
#: Fields with rules of their own below; everything else must stay as it was.
_JUDGED: Final = frozenset({"containers", "initContainers", "activeDeadlineSeconds", "tolerations", "schedulingGates"})

_SOUND: Final = SoundSpecs()


def validate_pod(obj: Body) -> Iterator[Cause]:
    if rows(obj, "spec", "ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    key = _SOUND.key(obj["spec"])
    if key in _SOUND:
        return
    is_sound = True
    for cause in validate_pod_spec(obj["spec"], "spec"):
        is_sound = False
        yield cause
    if is_sound:
        _SOUND.add(key)


def validate_pod_spec(spec: Body, path: str, *, more_volumes: Iterable[str] = ()) -> Iterator[Cause]:
    """`more_volumes` are names that containers may mount besides the volumes of the spec."""
    yield from validate_pod_volumes(spec, path)
    names = {volume["name"] for volume in rows(spec, "volumes") if "name" in volume}
    yield from validate_containers(spec, path, frozenset(names.union(more_volumes)))
    yield from validate_pod_resources(spec, path)
    yield from one_of(spec["restartPolicy"], _RESTART_POLICIES, f"{path}.restartPolicy")
    yield from one_of(spec["dnsPolicy"], _DNS_POLICIES, f"{path}.dnsPolicy")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE:
        why = f"must be between 1 and {_MAX_DEADLINE}, inclusive"
        yield bad_value(f"{path}.activeDeadlineSeconds", deadline, why)
    yield from validate_placement(spec, path)


def validate_pod_update(new: Body, old: Body) -> Iterator[Cause]:
    """Most of a pod is fixed once it exists. While it is gated, upstream also lets its node selection be narrowed;
    that is refused here like any other change."""
    now, was = new["spec"], old["spec"]
    if now == was:
        return
    yield from validate_pod(new)
    for field in ("containers", "initContainers"):
        if len(rows(now, field)) != len(rows(was, field)):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    yield from _deadline(now.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds"))
    yield from _tolerations(rows(now, "tolerations"), rows(was, "tolerations"))
    yield from _gates(rows(now, "schedulingGates"), rows(was, "schedulingGates"))
    if _fixed(now) != _fixed(was):
        yield forbidden("spec", _IMMUTABLE)


def _fixed(spec: Body) -> Body:
    """The spec without whatever may change."""
    fixed = {field: value for field, value in spec.items() if field not in _JUDGED}
    for field in ("containers", "initContainers"):
        fixed[field] = [{k: v for k, v in container.items() if k != "image"} for container in rows(spec, field)]
    return fixed


def _deadline(now: int | None, was: int | None) -> Iterator[Cause]:
    field = "spec.activeDeadlineSeconds"
    if was is None or now == was:
        return
    if now is None:
        yield bad_value(field, "", "must not update from a positive integer to nil value")
    elif now > was:
        yield bad_value(field, now, "must be less than or equal to previous value")


def _tolerations(now: list[Body], was: list[Body]) -> Iterator[Cause]:
    def identity(toleration: Body) -> frozenset[tuple[str, object]]:
        return frozenset((field, value) for field, value in toleration.items() if field != "tolerationSeconds")

    kept = {identity(toleration) for toleration in now}
    if any(identity(toleration) not in kept for toleration in was):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", why)


def _gates(now: list[Body], was: list[Body]) -> Iterator[Cause]:
    known = {gate.get("name", "") for gate in was}
    for index, gate in enumerate(now):
        if gate.get("name", "") not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield forbidden(f"spec.schedulingGates[{index}]", why)
