"""Defaults of claims, of the claims inside other objects, of volumes and of storage classes."""

from mooring.server.body import Body, part

FILESYSTEM = "Filesystem"


def default_claim(obj: Body) -> None:
    default_claim_spec(obj["spec"])


def default_claim_spec(spec: Body) -> None:
    spec.setdefault("volumeMode", FILESYSTEM)
    # Two names of one field, of which the second can name more; each fills in for the other.
    if "dataSource" in spec:
        spec.setdefault("dataSourceRef", dict(spec["dataSource"]))
    elif "dataSourceRef" in spec and "namespace" not in spec["dataSourceRef"]:
        spec["dataSource"] = dict(spec["dataSourceRef"])


def default_claim_template(template: Body) -> None:
    """Claims inside a StatefulSet are whole objects, and are shown as such."""
    template.setdefault("apiVersion", "v1")
    template.setdefault("kind", "PersistentVolumeClaim")
    default_claim_spec(template.setdefault("spec", {}))
    template.setdefault("status", {"phase": "Pending"})


def default_volume(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", FILESYSTEM)
    if part(spec, "hostPath"):
        spec["hostPath"].setdefault("type", "")


def default_storage_class(obj: Body) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")
