"""Pod: defaults, QoS class, table and selectable fields; `pod_spec` has the validation.

Pod templates get the defaults of the pod spec only; requests copied from limits and `enableServiceLinks` are set on
pods, as in kube-apiserver.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mooring.api import quantity, well_known
from mooring.api.documents import Body
from mooring.api.kinds import POD, Kind
from mooring.server.encoding import meta, part, restore_field, rows
from mooring.server.kinds import columns
from mooring.server.kinds.claims import default_claim_spec
from mooring.server.kinds.columns import NONE, Column, Json, flag_at, number_at, object_at, objects_at, text, text_at
from mooring.server.kinds.field_checks import containers_request
from mooring.server.kinds.pod_spec import validate_pod, validate_pod_update
from mooring.server.kinds.rules import KindRules
from mooring.server.selection import selectable

#: rw-r--r--, decimal as in the API.
_FILE_MODE: Final = 420
#: Lifetime of a projected service account token.
_TOKEN_SECONDS: Final = 3600

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_VOLUMES_WITH_MODE: Final = ("secret", "configMap", "downwardAPI", "projected")


def default_pod(obj: Body) -> None:
    spec = obj["spec"]
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _default_addresses(part(obj, "status"))
    for container in _containers(spec):
        _default_requests(container, part(container, "resources", "limits"))
    if part(spec, "resources", "requests") or part(spec, "resources", "limits"):
        _default_pod_resources(spec)


def _default_pod_resources(spec: Body) -> None:
    """Pod-level requests: those of the containers, then the pod's limits. Pod-level limits: those of the containers, if
    every one has one, or the pod's request if it is more."""
    _default_requests(spec, containers_request(spec))
    _default_requests(spec, part(spec, "resources", "limits"))
    requests, limits = part(spec, "resources", "requests"), part(spec, "resources", "limits")
    containers = _containers(spec)
    for name, amount in containers_request(spec, field="limits").items():
        limited = all(name in part(container, "resources", "limits") for container in containers)
        if limited and name in requests and name not in limits:
            largest = max(amount, requests[name], key=quantity.parse)
            spec["resources"].setdefault("limits", {})[name] = largest


def _default_addresses(status: Body) -> None:
    """`podIP` is the first of `podIPs`; of two that differ, `podIP` counts."""
    address, listed = status.get("podIP"), rows(status, "podIPs")
    if address and (not listed or listed[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif listed and not address:
        status["podIP"] = listed[0].get("ip", "")


def default_template(template: Body) -> None:
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Body) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", well_known.DEFAULT_SCHEDULER)
    spec.setdefault("securityContext", {})
    # serviceAccount is the deprecated name of serviceAccountName.
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in _containers(spec):
        _default_container(container, on_host_network=spec.get("hostNetwork", False))
    for volume in rows(spec, "volumes"):
        _default_volume(volume)
    for constraint in rows(spec, "topologySpreadConstraints"):
        constraint.setdefault("whenUnsatisfiable", "DoNotSchedule")


def _containers(spec: Body) -> list[Body]:
    return rows(spec, "containers") + rows(spec, "initContainers")


def _default_container(container: Body, *, on_host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in rows(container, "ports"):
        port.setdefault("protocol", "TCP")
        if on_host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    for variable in rows(container, "env"):
        if "valueFrom" in variable and "fieldRef" in variable["valueFrom"]:
            variable["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")
    for probe in _PROBES:
        if probe in container:
            _default_probe(container[probe])
    for handler in part(container, "lifecycle").values():
        _default_http_get(handler)


def _default_probe(probe: Body) -> None:
    for field, value in _PROBE_DEFAULTS.items():
        probe.setdefault(field, value)
    _default_http_get(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(handler: object) -> None:
    if isinstance(handler, dict) and "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _default_volume(volume: Body) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source in _VOLUMES_WITH_MODE:
        if source in volume:
            volume[source].setdefault("defaultMode", _FILE_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for projection in rows(volume, "projected", "sources"):
        if "serviceAccountToken" in projection:
            projection["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
    if template := part(volume, "ephemeral", "volumeClaimTemplate"):
        default_claim_spec(template.setdefault("spec", {}))


def _pull_policy(image: str) -> str:
    """Always for images without a tag or digest, or with the tag latest."""
    name = image.rpartition("/")[2]
    tag = "pinned" if "@" in name else name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_requests(owner: Body, amounts: Mapping[str, str]) -> None:
    if amounts:
        requests = owner["resources"].setdefault("requests", {})
        for name, amount in amounts.items():
            requests.setdefault(name, amount)


GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"

#: Resources that determine the QoS class.
_COUNTED: Final = ("cpu", "memory")


def qos_class(pod: Body) -> str:
    """Guaranteed: every container has limits of both resources and equal requests. BestEffort: none has requests or
    limits. Pod-level resources, if set, replace those of the containers."""
    spec = part(pod, "spec")
    whole = part(spec, "resources", "requests") or part(spec, "resources", "limits")
    owners = [spec] if whole else rows(spec, "containers") + rows(spec, "initContainers")
    asks = [_amounts(owner, "requests") for owner in owners]
    limits = [_amounts(owner, "limits") for owner in owners]
    if not any(asks) and not any(limits):
        return BEST_EFFORT
    complete = all(len(limit) == len(_COUNTED) for limit in limits)
    return GUARANTEED if complete and asks == limits else BURSTABLE


def _amounts(owner: Body, which: str) -> dict[str, quantity.Quantity]:
    given = part(owner, "resources", which)
    amounts = {name: quantity.parse(given[name]) for name in _COUNTED if name in given}
    return {name: amount for name, amount in amounts.items() if amount > 0}


_COMPLETED: Final = {
    "Succeeded": (columns.RowCondition("Completed", "True", "Succeeded", "The pod has completed successfully."),),
    "Failed": (columns.RowCondition("Completed", "True", "Failed", "The pod failed."),),
}


@dataclass
class _Tally:
    """Counts over container statuses."""

    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, status: Json) -> None:
        self.restarts += number_at(status, "restartCount")
        # Timestamps in UTC sort as text.
        self.last_restart = max(self.last_restart, text_at(status, "lastState", "terminated", "finishedAt"))

    def restarts_cell(self, now: float) -> str:
        if self.restarts and self.last_restart:
            return f"{self.restarts} ({columns.since(self.last_restart, now)} ago)"
        return str(self.restarts)


def _state(pod: Json, now: float) -> Json:
    """The status is, as in kube-apiserver, the pod's own reason, then that of its init containers in order, then that
    of its containers from last to first; Terminating while it is being deleted."""
    sidecars = _sidecars(pod)
    reason = text_at(pod, "status", "reason") or text_at(pod, "status", "phase")
    if any(text_at(gate, "reason") == "SchedulingGated" for gate in columns.conditions_at(pod, "PodScheduled")):
        reason = "SchedulingGated"
    ready, tally, holding = _init_containers(pod, sidecars)
    if holding:
        reason = holding
    if not holding or _is_true(pod, "Initialized"):
        tally = _sidecar_restarts(pod, sidecars)
        reason = _container_states(pod, tally, reason)
    total = len(objects_at(pod, "spec", "containers")) + len(sidecars)
    return {
        "ready": f"{ready + tally.ready}/{total}",
        "reason": _deleting(pod) or reason,
        "restarts": tally.restarts_cell(now),
    }


def _sidecars(pod: Json) -> frozenset[str]:
    """Names of init containers with restartPolicy Always."""
    return frozenset(
        text_at(container, "name")
        for container in objects_at(pod, "spec", "initContainers")
        if text_at(container, "restartPolicy") == "Always"
    )


def _init_containers(pod: Json, sidecars: frozenset[str]) -> tuple[int, _Tally, str]:
    """Ready sidecars, restart counts, and the status of the waiting init container ("" if all completed)."""
    tally, ready = _Tally(), 0
    total = len(objects_at(pod, "spec", "initContainers"))
    for position, status in enumerate(objects_at(pod, "status", "initContainerStatuses")):
        tally.count_restarts(status)
        terminated, waiting = (object_at(status, "state", "terminated"), object_at(status, "state", "waiting"))
        if terminated and number_at(terminated, "exitCode") == 0:
            continue
        if text_at(status, "name") in sidecars and flag_at(status, "started"):
            ready += flag_at(status, "ready")
            continue
        if terminated:
            return ready, tally, f"Init:{_exit(terminated)}"
        if text_at(waiting, "reason") not in ("", "PodInitializing"):
            return ready, tally, f"Init:{text_at(waiting, 'reason')}"
        return ready, tally, f"Init:{position}/{total}"
    return ready, tally, ""


def _sidecar_restarts(pod: Json, sidecars: frozenset[str]) -> _Tally:
    tally = _Tally()
    for status in objects_at(pod, "status", "initContainerStatuses"):
        if text_at(status, "name") in sidecars:
            tally.count_restarts(status)
    return tally


def _container_states(pod: Json, tally: _Tally, reason: str) -> str:
    running = False
    for status in reversed(objects_at(pod, "status", "containerStatuses")):
        tally.count_restarts(status)
        terminated = object_at(status, "state", "terminated")
        if waiting := text_at(status, "state", "waiting", "reason"):
            reason = waiting
        elif terminated:
            reason = _exit(terminated)
        elif flag_at(status, "ready") and "running" in object_at(status, "state"):
            running = True
            tally.ready += 1
    if reason == "Completed" and running:
        return "Running" if _is_true(pod, "Ready") else "NotReady"
    return reason


def _exit(terminated: Json) -> str:
    if reason := text_at(terminated, "reason"):
        return reason
    if signal := number_at(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{number_at(terminated, 'exitCode')}"


def _deleting(pod: Json) -> str:
    if not columns.is_deleting(pod):
        return ""
    if text_at(pod, "status", "reason") == "NodeLost":
        return "Unknown"
    return "" if text_at(pod, "status", "phase") in _COMPLETED else "Terminating"


def _address(pod: Json) -> str:
    addresses = objects_at(pod, "status", "podIPs")
    return (text_at(addresses[0], "ip") if addresses else text_at(pod, "status", "podIP")) or NONE


def _readiness_gates(pod: Json) -> str:
    gates = [text_at(gate, "conditionType") for gate in objects_at(pod, "spec", "readinessGates")]
    return f"{sum(_is_true(pod, gate) for gate in gates)}/{len(gates)}" if gates else NONE


def _is_true(pod: Json, type_: str) -> bool:
    return any(text_at(condition, "status") == "True" for condition in columns.conditions_at(pod, type_))


_PODS: Final = columns.Printer(
    (
        columns.NAME,
        Column("Ready", "Ready containers, of all containers.", text("ready")),
        Column("Status", "Phase, or a more specific reason.", text("reason")),
        Column("Restarts", "Number of restarts, and time of the last.", text("restarts")),
        columns.AGE,
        Column("IP", "IP address of the pod.", _address, wide=True),
        Column("Node", "Node that the pod is bound to.", text("spec", "nodeName", empty=NONE), wide=True),
        Column(
            "Nominated Node",
            "Node that the scheduler nominated.",
            text("status", "nominatedNodeName", empty=NONE),
            wide=True,
        ),
        Column("Readiness Gates", "Readiness gates that are true, of all.", _readiness_gates, wide=True),
    ),
    derive=_state,
    conditions=lambda pod: _COMPLETED.get(text_at(pod, "status", "phase"), ()),
)


def _first_ip(pod: Any) -> str:  # noqa: ANN401  # the view of the selectable fields
    """From `podIPs` or `podIP`, whichever is set; kube-apiserver selects the first address under both names."""
    address: str = pod.status.podIPs[0].get("ip", "") if pod.status.podIPs else pod.status.podIP
    return address


def _initial_status(obj: Body, now: str) -> Body:
    status: Body = {"phase": "Pending", "qosClass": qos_class(obj)}
    if rows(obj, "spec", "schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": now,
            }
        ]
    return status


def _restore(new: Body, old: Body, subresource: str) -> None:
    """`/status` keeps the owner references, which kubelets of old versions sent back damaged, and the QoS class, which
    is derived from the spec. Clients that do not know pod-level resources leave them out of an update."""
    if not subresource and "resources" not in new["spec"]:
        restore_field("resources", new["spec"], old["spec"])
    if subresource == "status":
        restore_field("ownerReferences", meta(new), meta(old))
        new["status"].setdefault("qosClass", old["status"]["qosClass"])


RULES: Final[Mapping[Kind[Any], KindRules]] = {
    POD: KindRules(
        defaults=default_pod,
        create=validate_pod,
        update=validate_pod_update,
        initial_status=_initial_status,
        restore=_restore,
        printer=_PODS,
        selectable=selectable(
            {
                "spec.nodeName": str,
                "spec.restartPolicy": str,
                "spec.schedulerName": str,
                "spec.serviceAccountName": str,
                "spec.hostNetwork": bool,
                "status.phase": str,
                "status.podIP": str,
                "status.podIPs": tuple[dict[str, str], ...],
                "status.nominatedNodeName": str,
            },
            {"spec.host": lambda pod: pod.spec.nodeName, "status.podIP": _first_ip, "status.podIPs": _first_ip},
        ),
        deletion_returns_object=True,
    )
}
