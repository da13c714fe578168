"""Defaults of pods and of the pod templates inside workloads.

A template gets what its pods would get from their spec alone; requests taken from limits and service links are the
pod's own, as upstream has it.
"""

from typing import Final

from mooring.api import keys
from mooring.server.body import Body, part, rows
from mooring.server.defaulting.claim import default_claim_spec
from mooring.server.pod_resources import containers_request

#: rw-r--r--, decimal as the API spells file modes.
_FILE_MODE: Final = 420
#: Seconds a projected service account token lives.
_TOKEN_SECONDS: Final = 3600

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_VOLUMES_WITH_MODE: Final = ("secret", "configMap", "downwardAPI", "projected")


def default_pod(obj: Body) -> None:
    spec = obj["spec"]
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        _ask_for_the_limits(container)
    if part(spec, "resources", "limits"):
        # Where nothing else is said, a pod asks for what its containers do, and else for its limits.
        requests = spec["resources"].setdefault("requests", {})
        for name, amount in containers_request(spec).items():
            requests.setdefault(name, amount)
        _ask_for_the_limits(spec)


def default_template(template: Body) -> None:
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Body) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", keys.DEFAULT_SCHEDULER)
    spec.setdefault("securityContext", {})
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    # Two names of one field; clients of different ages read either.
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
    """An image that can change under its name is fetched every time."""
    name = image.rpartition("/")[2]
    tag = "pinned" if "@" in name else name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _ask_for_the_limits(asker: Body) -> None:
    limits = part(asker, "resources", "limits")
    if limits:
        requests = asker["resources"].setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)
