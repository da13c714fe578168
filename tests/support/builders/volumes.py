"""PersistentVolumes: `volume_body` is the plain dict, `a_volume` the view; and node affinities."""

from collections.abc import Mapping, Sequence

from mooring.api import kinds, well_known
from support.builders.objects import Body, metadata, viewed


def reachable_from(key: str, *values: str) -> Body:
    """The node selector of a volume that is accessible from nodes with one of these label values."""
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]}


def volume_body(
    *,
    name: str = "volume-1",
    size: str | int = "10Gi",
    storage_class: str = "local",
    node: str = "",
    affinity: Body | None = None,
    access_modes: Sequence[str] = ("ReadWriteOnce",),
    mode: str = "Filesystem",
    attributes_class: str = "",
    reclaim: str = "Retain",
    claim_ref: Body | None = None,
    source: Body | None = None,
    phase: str = "Available",
    uid: str = "",
    version: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    deleting: bool = False,
) -> Body:
    """An available volume. `node` makes it local to the node with that hostname, `affinity` is a node selector; without
    both every node can use it. `source` replaces the local path.
    """
    spec: Body = {
        "capacity": {"storage": size},
        "accessModes": list(access_modes),
        "storageClassName": storage_class,
        "volumeMode": mode,
        "persistentVolumeReclaimPolicy": reclaim,
    } | (source or {"local": {"path": f"/mnt/{name}"}})
    required = reachable_from(well_known.HOSTNAME, node) if node else affinity
    if required is not None:
        spec["nodeAffinity"] = {"required": required}
    if claim_ref is not None:
        spec["claimRef"] = claim_ref
    if attributes_class:
        spec["volumeAttributesClassName"] = attributes_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata(
            name=name,
            uid=uid,
            version=version,
            labels=labels,
            annotations=annotations,
            finalizers=finalizers,
            deleting=deleting,
        ),
        "spec": spec,
        "status": {"phase": phase},
    }


a_volume = viewed(kinds.VOLUME, volume_body)
