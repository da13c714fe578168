"""StorageClasses: `class_body` is the plain dict, `a_class` the view."""

from collections.abc import Mapping, Sequence

from builders.objects import Body, metadata, viewed
from mooring.api import keys, kinds


def class_body(
    *,
    name: str = "local",
    provisioner: str = keys.NO_PROVISIONER,
    binding_mode: str | None = "WaitForFirstConsumer",
    allowed_topologies: Sequence[Mapping[str, Sequence[str]]] = (),
    parameters: Mapping[str, str] | None = None,
    reclaim: str = "Delete",
    default: bool = False,
    uid: str = "",
    version: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Body:
    """A delayed class of hand-made volumes. Each of `allowed_topologies` is a term: label key to its values."""
    notes = dict(annotations or {})
    if default:
        notes[keys.DEFAULT_CLASS] = "true"
    body: Body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata(name=name, uid=uid, version=version, labels=labels, annotations=notes),
        "provisioner": provisioner,
        "reclaimPolicy": reclaim,
    }
    if binding_mode is not None:
        body["volumeBindingMode"] = binding_mode
    if parameters:
        body["parameters"] = dict(parameters)
    if allowed_topologies:
        body["allowedTopologies"] = [
            {"matchLabelExpressions": [{"key": key, "values": list(values)} for key, values in term.items()]}
            for term in allowed_topologies
        ]
    return body


a_class = viewed(kinds.STORAGE_CLASS, class_body)
