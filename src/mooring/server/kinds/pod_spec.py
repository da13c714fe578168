"""Validation of pods and of the pod specs inside workloads: containers, volumes, node selection, and updates.

Sources, fields and messages are kube-apiserver's.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, duplicate, field_not_found, forbidden, required, unsupported
from mooring.api.names import check_dns1123_label, check_dns1123_subdomain, check_label_value, check_qualified_name
from mooring.api.pod_requirements import NO_EXECUTE, NO_SCHEDULE
from mooring.server.encoding import part, rows
from mooring.server.kinds import field_checks
from mooring.server.kinds.claims import validate_claim_spec
from mooring.server.kinds.field_checks import check_port, one_of, present, unique, validate_label_selector, violations
from mooring.server.kinds.volume_sources import descending, validate_files, validate_source


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
    yield from field_checks.validate_name(container.get("name", ""), check_dns1123_label, f"{path}.name")
    image = container.get("image", "")
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield bad_value(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from one_of(container, path, "imagePullPolicy", "Always", "IfNotPresent", "Never")
    yield from one_of(container, path, "terminationMessagePolicy", "FallbackToLogsOnError", "File")
    yield from _ports(rows(container, "ports"), f"{path}.ports")
    for index, variable in enumerate(rows(container, "env")):
        yield from present(variable, f"{path}.env[{index}]", "name")
    yield from _mounts(rows(container, "volumeMounts"), f"{path}.volumeMounts", "mountPath", volumes)
    yield from _mounts(rows(container, "volumeDevices"), f"{path}.volumeDevices", "devicePath", volumes)
    yield from field_checks.validate_resources(container, path)


def _ports(ports: list[Body], path: str) -> Iterator[Cause]:
    yield from unique([p.get("name", "") for p in ports], path, "name")
    for index, one in enumerate(ports):
        at = f"{path}[{index}]"
        if "containerPort" in one:
            yield from check_port(one["containerPort"], f"{at}.containerPort")
        else:
            yield required(f"{at}.containerPort")
        if "hostPort" in one:
            yield from check_port(one["hostPort"], f"{at}.hostPort")
        yield from one_of(one, at, "protocol", "SCTP", "TCP", "UDP")


def _mounts(mounts: list[Body], path: str, place: str, volumes: frozenset[str]) -> Iterator[Cause]:
    """Mounts and devices: a volume of the pod at a unique path."""
    taken: set[str] = set()
    for index, mount in enumerate(mounts):
        at, here = f"{path}[{index}]", mount.get(place, "")
        if not mount.get("name"):
            yield required(f"{at}.name")
        elif mount["name"] not in volumes:
            yield field_not_found(f"{at}.name", mount["name"])
        if not here:
            yield required(f"{at}.{place}")
        elif here in taken:
            yield bad_value(f"{at}.{place}", here, "must be unique")
        taken.add(here)
        for field in ("subPath", "subPathExpr"):
            # kube-apiserver's path is that of the list, not of the mount.
            yield from descending(mount.get(field, ""), f"{path}.{field}")


TAINT_EFFECTS: Final = (NO_SCHEDULE, "PreferNoSchedule", NO_EXECUTE)

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_EQUAL: Final = "Equal"
_EXISTS: Final = "Exists"


def validate_placement(spec: Body, path: str) -> Iterator[Cause]:
    if node := spec.get("nodeName"):
        yield from violations(check_dns1123_subdomain, node, f"{path}.nodeName")
        if rows(spec, "schedulingGates"):
            yield forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")
    yield from field_checks.validate_labels(part(spec, "nodeSelector"), f"{path}.nodeSelector")
    yield from _affinity(part(spec, "affinity"), f"{path}.affinity")
    for index, toleration in enumerate(rows(spec, "tolerations")):
        yield from _toleration(toleration, f"{path}.tolerations[{index}]")
    yield from _spread(rows(spec, "topologySpreadConstraints"), f"{path}.topologySpreadConstraints")
    yield from _validate_gates(rows(spec, "schedulingGates"), f"{path}.schedulingGates")
    if "schedulingGroup" in spec:
        yield from _validate_group(part(spec, "schedulingGroup"), f"{path}.schedulingGroup")


def _validate_group(group: Body, path: str) -> Iterator[Cause]:
    name = group.get("podGroupName")
    if name is None:
        yield bad_value(f"{path}.podGroupName", None, "must specify one of: `podGroupName`")
    else:
        yield from violations(check_dns1123_subdomain, name, f"{path}.podGroupName")


def _affinity(affinity: Body, path: str) -> Iterator[Cause]:
    nodes = part(affinity, "nodeAffinity")
    at = f"{path}.nodeAffinity"
    if _REQUIRED in nodes:
        yield from field_checks.validate_node_selector(nodes[_REQUIRED], f"{at}.{_REQUIRED}")
    for index, preferred in enumerate(rows(nodes, _PREFERRED)):
        here = f"{at}.{_PREFERRED}[{index}]"
        yield from _weight(preferred, here)
        yield from field_checks.validate_node_selector_term(part(preferred, "preference"), f"{here}.preference")
    for field in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity(part(affinity, field), f"{path}.{field}")


def _pod_affinity(affinity: Body, path: str) -> Iterator[Cause]:
    for index, term in enumerate(rows(affinity, _REQUIRED)):
        yield from _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, preferred in enumerate(rows(affinity, _PREFERRED)):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(preferred, here)
        yield from _pod_term(part(preferred, "podAffinityTerm"), f"{here}.podAffinityTerm")


def _pod_term(term: Body, path: str) -> Iterator[Cause]:
    yield from validate_label_selector(part(term, "labelSelector"), f"{path}.labelSelector")
    yield from validate_label_selector(part(term, "namespaceSelector"), f"{path}.namespaceSelector")
    yield from _topology_key(term, path)


def _topology_key(term: Body, path: str) -> Iterator[Cause]:
    if key := term.get("topologyKey", ""):
        yield from violations(check_qualified_name, key, f"{path}.topologyKey")
    else:
        yield required(f"{path}.topologyKey", "can not be empty")


def _weight(preferred: Body, path: str) -> Iterator[Cause]:
    weight = preferred.get("weight", 0)
    if not 1 <= weight <= 100:
        yield bad_value(f"{path}.weight", weight, "must be in the range 1-100")


def _toleration(toleration: Body, path: str) -> Iterator[Cause]:
    key, value, effect = (toleration.get(field, "") for field in ("key", "value", "effect"))
    operator = toleration.get("operator", _EQUAL)
    if key:
        yield from violations(check_qualified_name, key, f"{path}.key")
    elif operator != _EXISTS:
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield bad_value(f"{path}.operator", toleration.get("operator", ""), why)
    if "tolerationSeconds" in toleration and effect != NO_EXECUTE:
        yield bad_value(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator == _EQUAL:
        yield from violations(check_label_value, value, f"{path}.operator")
    elif operator == _EXISTS:
        if value:
            yield bad_value(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    else:
        yield unsupported(f"{path}.operator", operator, (_EQUAL, _EXISTS))
    if effect:
        yield from one_of(toleration, path, "effect", *TAINT_EFFECTS)


def _spread(constraints: list[Body], path: str) -> Iterator[Cause]:
    pairs = [f"{{{c.get('topologyKey', '')}, {c.get('whenUnsatisfiable', '')}}}" for c in constraints]
    yield from unique(pairs, path, "{topologyKey, whenUnsatisfiable}")
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield bad_value(f"{at}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
        yield from _topology_key(constraint, at)
        yield from one_of(constraint, at, "whenUnsatisfiable", "DoNotSchedule", "ScheduleAnyway")
        yield from validate_label_selector(part(constraint, "labelSelector"), f"{at}.labelSelector")


def _validate_gates(gates: list[Body], path: str) -> Iterator[Cause]:
    names = [gate.get("name", "") for gate in gates]
    yield from unique(names, path, "name")
    for index, gate in enumerate(names):
        yield from violations(check_qualified_name, gate, f"{path}[{index}].name")


#: Sources with `items`.
_WITH_FILES: Final = frozenset({"configMap", "downwardAPI", "secret"})


def validate_pod_volumes(spec: Body, path: str) -> Iterator[Cause]:
    volumes = rows(spec, "volumes")
    yield from unique([volume.get("name", "") for volume in volumes], f"{path}.volumes", "name")
    for index, volume in enumerate(volumes):
        yield from _volume(volume, f"{path}.volumes[{index}]")


def _volume(volume: Body, path: str) -> Iterator[Cause]:
    yield from field_checks.validate_name(volume.get("name", ""), check_dns1123_label, f"{path}.name")
    sources = [field for field in volume if field != "name"]
    for extra in sources[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    for source in sources[:1]:
        yield from validate_source(source, volume[source], f"{path}.{source}")
        if source in _WITH_FILES:
            yield from validate_files(volume[source], f"{path}.{source}")
        if source == "projected":
            yield from _projected(rows(volume[source], "sources"), f"{path}.projected.sources")
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        yield from present(claim, f"{path}.persistentVolumeClaim", "claimName")
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


#: More than the workloads that create pods at the same time.
CACHE_SIZE: Final = 256
#: Longer specs are not cached: the cache stays below two megabytes.
MAX_CACHED_BYTES: Final = 8192

_encode = msgspec.json.Encoder().encode


class ValidPodSpecCache:
    """Encoded pod specs that are valid: replicas of a workload have the same spec."""

    def __init__(self, *, size: int = CACHE_SIZE) -> None:
        self._size = size
        #: Ordered, so that evicting the oldest is one step: large requests are validated in another thread.
        self._specs: OrderedDict[bytes, None] = OrderedDict()

    def key(self, spec: Body) -> bytes:
        return _encode(spec)

    def __contains__(self, key: bytes) -> bool:
        return key in self._specs

    def add(self, key: bytes) -> None:
        if len(key) > MAX_CACHED_BYTES:
            return
        self._specs[key] = None
        if len(self._specs) > self._size:
            self._specs.popitem(last=False)


_MAX_DEADLINE: Final = 2**31 - 1

_IMMUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
#: Fields with their own rules for updates; all others are immutable.
_CHECKED_FIELDS: Final = frozenset(
    {"containers", "initContainers", "activeDeadlineSeconds", "tolerations", "schedulingGates"}
)

_VALID_SPECS: Final = ValidPodSpecCache()


def validate_pod(obj: Body) -> Iterator[Cause]:
    if rows(obj, "spec", "ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    key = _VALID_SPECS.key(obj["spec"])
    if key in _VALID_SPECS:
        return
    is_valid = True
    for cause in validate_pod_spec(obj["spec"], "spec"):
        is_valid = False
        yield cause
    if is_valid:
        _VALID_SPECS.add(key)


def validate_pod_spec(spec: Body, path: str, *, more_volumes: Iterable[str] = ()) -> Iterator[Cause]:
    """`more_volumes` are names that containers may mount besides the spec's volumes."""
    yield from validate_pod_volumes(spec, path)
    names = {volume["name"] for volume in rows(spec, "volumes") if "name" in volume}
    yield from validate_containers(spec, path, frozenset(names.union(more_volumes)))
    yield from field_checks.validate_pod_resources(spec, path)
    yield from one_of(spec, path, "restartPolicy", "Always", "OnFailure", "Never")
    yield from one_of(spec, path, "dnsPolicy", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE:
        why = f"must be between 1 and {_MAX_DEADLINE}, inclusive"
        yield bad_value(f"{path}.activeDeadlineSeconds", deadline, why)
    yield from validate_placement(spec, path)


def validate_pod_update(new: Body, old: Body) -> Iterator[Cause]:
    """Unlike kube-apiserver, node selection of a gated pod cannot be narrowed."""
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
    yield from _validate_gate_update(rows(now, "schedulingGates"), rows(was, "schedulingGates"))
    if _fixed(now) != _fixed(was):
        yield forbidden("spec", _IMMUTABLE)


def _fixed(spec: Body) -> Body:
    """The spec without the fields that may change."""
    fixed = {field: value for field, value in spec.items() if field not in _CHECKED_FIELDS}
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


def _validate_gate_update(now: list[Body], was: list[Body]) -> Iterator[Cause]:
    known = {gate.get("name", "") for gate in was}
    for index, gate in enumerate(now):
        if gate.get("name", "") not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield forbidden(f"spec.schedulingGates[{index}]", why)
