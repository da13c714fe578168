"""Examinations of clusters that are given as lists of bodies."""

from collections.abc import Mapping

from mooring.api.kinds import Kind
from mooring.api.times import to_time
from mooring.api.views.meta import ApiObject
from mooring.control.component_info import ComponentInfo
from mooring.control.feature_gates import parse_feature_gates
from mooring.doctor.examination import RBAC_KINDS, examine
from mooring.doctor.findings import Diagnosis, Finding, Severity
from mooring.explain.cluster_objects import ClusterObjects
from support.builders import Body, class_body, csi_node_body, driver_body, node_body
from support.builders.drivers import DRIVER

#: When the clusters were listed.
NOW = 1_800_000_000.0
KEY = "topology.example.com/node"


def at(seconds: float) -> str:
    """A timestamp this long before the objects were listed."""
    return to_time(NOW - seconds)


def cluster_of(
    *bodies: Body, unlisted: Mapping[Kind[ApiObject], str] | None = None, now: float | None = NOW
) -> ClusterObjects:
    objects = ClusterObjects(now=now, unlisted=unlisted or {}, also=RBAC_KINDS)
    for body in bodies:
        objects.add(body)
    return objects


def examined(
    *bodies: Body, unlisted: Mapping[Kind[ApiObject], str] | None = None, now: float | None = NOW
) -> Diagnosis:
    return examine(cluster_of(*bodies, unlisted=unlisted, now=now))


def codes(*bodies: Body) -> set[tuple[Severity, str]]:
    return {(one.severity, one.code) for one in examined(*bodies).findings}


def only(code: str, *bodies: Body) -> Finding:
    [found] = [one for one in examined(*bodies).findings if one.code == code]
    return found


def lease_body(name: str, *, renewed: float = 1, namespace: str = "storage", **more: Body) -> Body:
    """A Lease that its holder renewed this many seconds before the objects were listed."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, **more},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 15, "renewTime": at(renewed)},
    }


def with_topology(csi_node: Body, *keys: str) -> Body:
    """The CSINode with these topology keys of its drivers."""
    drivers = [each | {"topologyKeys": list(keys)} for each in csi_node["spec"]["drivers"]]
    return csi_node | {"spec": {"drivers": drivers}}


def driver_bodies(*nodes: str, tracks_capacity: bool | None = True, keys: tuple[str, ...] = (KEY,)) -> list[Body]:
    """Nodes with a CSI driver that runs on all of them and reports their names as topology."""
    return [
        *(node_body(name=name, labels={KEY: name}) for name in nodes),
        *(with_topology(csi_node_body(name=name, limits={DRIVER: None}), *keys) for name in nodes),
        driver_body(tracks_capacity=tracks_capacity),
        lease_body(DRIVER.replace(".", "-")),
    ]


def made_class(**more: object) -> Body:
    return class_body(name="made", provisioner=DRIVER, **more)  # type: ignore[arg-type]  # fields of the builder


def announcement(process: str, *, version: str = "1.0", gates: str = "", renewed: float = 1) -> Body:
    """The Lease by which a process with a scheduler publishes its version and gates."""
    info = ComponentInfo(process, version, parse_feature_gates(gates), frozenset({"scheduler"}))
    body = info.body(now=at(renewed))
    body["metadata"]["namespace"] = "mooring-system"
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"} | body
