"""Pods: `pod_body` is the plain dict, `a_pod` the view."""

from collections.abc import Mapping, Sequence

from mooring.api import kinds, well_known
from support.builders.objects import Body, metadata, viewed


def pod_body(
    *,
    name: str = "pod-1",
    namespace: str = "default",
    claims: Sequence[str] = (),
    ephemeral: Sequence[str] = (),
    volumes: Sequence[Body] = (),
    requests: Mapping[str, str] | None = None,
    containers: Sequence[Body] | None = None,
    init_containers: Sequence[Body] = (),
    node: str = "",
    node_selector: Mapping[str, str] | None = None,
    affinity: Body | None = None,
    tolerations: Sequence[Body] = (),
    topology_spread: Sequence[Body] = (),
    priority: int | None = None,
    scheduler: str = well_known.DEFAULT_SCHEDULER,
    gates: Sequence[str] = (),
    phase: str = "Pending",
    conditions: Sequence[Body] = (),
    nominated_node: str = "",
    uid: str = "",
    version: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owners: Sequence[Body] = (),
    finalizers: Sequence[str] = (),
    deleting: bool = False,
    more_spec: Body | None = None,
    more_status: Body | None = None,
) -> Body:
    """An unscheduled pod with one container.

    `claims` names claims to mount, `ephemeral` names generic ephemeral volumes; both come before other `volumes`. Other
    fields of spec and status are given with their API names.
    """
    mounted: list[Body] = [
        {"name": f"data-{position}", "persistentVolumeClaim": {"claimName": claim}}
        for position, claim in enumerate(claims)
    ]
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    mounted += [{"name": volume, "ephemeral": {"volumeClaimTemplate": template}} for volume in ephemeral]
    mounted += volumes
    if containers is None:
        container: Body = {"name": "main", "image": "example.com/main:1"}
        if requests:
            container["resources"] = {"requests": dict(requests)}
        containers = [container]
    fields: Body = {
        "nodeName": node,
        "containers": list(containers),
        "initContainers": list(init_containers),
        "volumes": mounted,
        "nodeSelector": dict(node_selector or {}),
        "affinity": affinity,
        "tolerations": list(tolerations),
        "topologySpreadConstraints": list(topology_spread),
        "schedulingGates": [{"name": gate} for gate in gates],
    }
    spec = {field: value for field, value in fields.items() if value} | {
        "schedulerName": scheduler,
        **(more_spec or {}),
    }
    if priority is not None:
        spec["priority"] = priority
    status: Body = {"phase": phase, **(more_status or {})}
    if conditions:
        status["conditions"] = list(conditions)
    if nominated_node:
        status["nominatedNodeName"] = nominated_node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(
            name=name,
            namespace=namespace,
            uid=uid,
            version=version,
            labels=labels,
            annotations=annotations,
            owners=owners,
            finalizers=finalizers,
            deleting=deleting,
        ),
        "spec": spec,
        "status": status,
    }


a_pod = viewed(kinds.POD, pod_body)
