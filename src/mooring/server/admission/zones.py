"""Zones: volumes that say by labels where they are, and classes that say by parameters where volumes go.

The first is what Kubernetes' PersistentVolumeLabel became with node affinity; the second keeps a class from saying
one thing in two places. On other clusters the same is done by the zonal upgrade controller and by a
ValidatingAdmissionPolicy under `deploy/`.
"""

import msgspec

from mooring.api.kinds import NODE, STORAGE_CLASS
from mooring.server.admission.review import Review
from mooring.server.body import Body, meta, part
from mooring.volumes.zonal_affinity import zonal_affinity
from mooring.volumes.zone_parameters import PARAMETERS, zones
from mooring.volumes.zones import ZONE_KEYS


async def place_by_labels(review: Review) -> None:
    """A new volume with zone labels and no node affinity gets the affinity that they stand for.

    A local volume does not: a zone is more than its node, and validation asks for the node.
    """
    labels, spec = part(meta(review.new), "labels"), part(review.new, "spec")
    if spec.get("nodeAffinity") or "local" in spec or labels.keys().isdisjoint(ZONE_KEYS):
        return
    nodes = await review.objects.list(NODE, "")
    node_keys = {key for record in nodes.records for key in NODE.decode(record.value).metadata.labels}
    affinity = zonal_affinity(labels, node_keys)
    if affinity is not None:
        review.new["spec"]["nodeAffinity"] = affinity


async def refuse_two_topologies(review: Review) -> None:
    """A class names its zones in parameters or in allowedTopologies, not in both."""
    if _says_both(review.new) and (review.old is None or not _says_both(review.old)):
        raise review.forbidden(
            f"allowedTopologies and the deprecated parameters {' and '.join(PARAMETERS)} both say where volumes may "
            "be made: use allowedTopologies alone"
        )


def _says_both(storage_class: Body) -> bool:
    view = STORAGE_CLASS.decode(msgspec.json.encode(storage_class))
    return bool(view.allowed_topologies) and bool(zones(view))
