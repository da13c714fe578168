"""PersistentVolumeClaims: `claim_body` is the plain dict, `a_claim` the view; and claimRefs."""

from collections.abc import Mapping, Sequence

from mooring.api import kinds, well_known
from support.builders.objects import Body, metadata, viewed


def claim_ref(*, name: str = "claim-1", namespace: str = "default", uid: str = "") -> Body:
    """A volume's reference to a claim: by name only, as a user prebinds, unless a uid is given."""
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace, "name": name}
    return reference | ({"uid": uid} if uid else {})


def claim_body(
    *,
    name: str = "claim-1",
    namespace: str = "default",
    size: str | int | None = "5Gi",
    storage_class: str | None = "local",
    access_modes: Sequence[str] = ("ReadWriteOnce",),
    mode: str = "Filesystem",
    selector: Body | None = None,
    attributes_class: str = "",
    volume: str = "",
    bound: bool = False,
    selected_node: str | None = None,
    phase: str = "",
    uid: str = "",
    version: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owners: Sequence[Body] = (),
    finalizers: Sequence[str] = (),
    deleting: bool = False,
) -> Body:
    """An unbound claim. `volume` is its volumeName, `bound` adds what the PV controller writes last; `size=None` omits
    the request and `storage_class=None` the class.
    """
    notes = dict(annotations or {})
    if bound:
        notes[well_known.BIND_COMPLETED] = well_known.ANNOTATION_SET
    if selected_node is not None:
        notes[well_known.SELECTED_NODE] = selected_node
    spec: Body = {"accessModes": list(access_modes), "volumeMode": mode}
    if size is not None:
        spec["resources"] = {"requests": {"storage": size}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    if selector is not None:
        spec["selector"] = selector
    if volume:
        spec["volumeName"] = volume
    if attributes_class:
        spec["volumeAttributesClassName"] = attributes_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(
            name=name,
            namespace=namespace,
            uid=uid,
            version=version,
            labels=labels,
            annotations=notes,
            owners=owners,
            finalizers=finalizers,
            deleting=deleting,
        ),
        "spec": spec,
        "status": {"phase": phase or ("Bound" if bound else "Pending")},
    }


a_claim = viewed(kinds.CLAIM, claim_body)
