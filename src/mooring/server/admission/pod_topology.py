"""PodTopologyLabels: a pod that has a node carries the node's zone and region as labels."""

from mooring.api.keys import REGION, ZONE
from mooring.api.kinds import NODE
from mooring.server.admission.review import Review
from mooring.server.body import meta
from mooring.server.objects import Objects


async def topology_labels(objects: Objects, node: str) -> dict[str, str]:
    """The labels a pod takes over from its node; none where there is no such node (yet)."""
    view = await objects.view(NODE, "", node)
    labels = {} if view is None else view.metadata.labels
    return {key: labels[key] for key in (ZONE, REGION) if key in labels}


async def label_with_topology(review: Review) -> None:
    if node := review.new["spec"].get("nodeName"):
        labels = await topology_labels(review.objects, node)
        if labels:
            meta(review.new).setdefault("labels", {}).update(labels)
