"""StorageClasses: `class_body` is the plain dict, `a_class` the view."""

from collections.abc import Mapping, Sequence

from mooring.api import kinds, well_known
from support.builders.objects import Body, metadata, viewed


def class_body(
    *,
    name: str = "local",
    provisioner: str = well_known.NO_PROVISIONER,
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
    """A class with delayed binding and without a provisioner. Each of `allowed_topologies` is a term: label key to its
    values.
    """
    notes = dict(annotations or {})
    if default:
        notes[well_known.DEFAULT_CLASS] = "true"
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
