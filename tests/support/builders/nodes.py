"""Nodes: `node_body` is the plain dict, `a_node` the view."""

from collections.abc import Mapping, Sequence

from mooring.api import kinds, well_known
from support.builders.objects import Body, metadata, viewed


def node_body(
    *,
    name: str = "node-1",
    labels: Mapping[str, str] | None = None,
    zone: str = "",
    allocatable: Mapping[str, str] | None = None,
    taints: Sequence[Body] = (),
    unschedulable: bool = False,
    ready: bool = True,
    features: Sequence[str] = (),
    uid: str = "",
    version: str = "",
    annotations: Mapping[str, str] | None = None,
    deleting: bool = False,
) -> Body:
    """A ready node with 110 allocatable pods, labelled with its hostname unless `labels` is given."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"} | dict(allocatable or {})
    own = {well_known.HOSTNAME: name} | ({well_known.ZONE: zone} if zone else {})
    spec: Body = {}
    if taints:
        spec["taints"] = list(taints)
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(
            name=name,
            uid=uid,
            version=version,
            labels=own | dict(labels or {}),
            annotations=annotations,
            deleting=deleting,
        ),
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            **({"declaredFeatures": list(features)} if features else {}),
        },
    }


a_node = viewed(kinds.NODE, node_body)
