"""Repairs of objects: fields that the drafts spelled in another way than the API they became, or left out.

One function per defect, one table. A field that is there under its right name is never touched.
"""

from collections.abc import Callable, Mapping
from typing import Final

from mooring.drafts.contract import Body

Repair = Callable[[Body], str]
"""Changes an object in place and says what it did; "" if there was nothing to do."""


def lower_name(obj: Body) -> str:
    """`metadata.Name`, as the Go field is called."""
    return _renamed(obj.get("metadata"), "Name", "name", "metadata.")


def full_binding_mode(obj: Body) -> str:
    return _renamed(obj, "bindingMode", "volumeBindingMode", "")


def disk_by_its_name(obj: Body) -> str:
    """The field of a GCE disk has always been `pdName`; the drafts wrote what it is."""
    spec = obj.get("spec")
    disk = spec.get("gcePersistentDisk") if isinstance(spec, dict) else None
    return _renamed(disk, "diskName", "pdName", "spec.gcePersistentDisk.")


def some_access_mode(obj: Body) -> str:
    spec = obj.get("spec")
    if not isinstance(spec, dict) or spec.get("accessModes"):
        return ""
    spec["accessModes"] = ["ReadWriteOnce"]
    return "added spec.accessModes: [ReadWriteOnce], which every volume must have"


def _renamed(holder: object, draft: str, field: str, path: str) -> str:
    if not isinstance(holder, dict) or draft not in holder or field in holder:
        return ""
    # Rebuilt, so that the field stays where it was.
    pairs = [(field if key == draft else key, value) for key, value in holder.items()]
    holder.clear()
    holder.update(pairs)
    return f"renamed {path}{draft} to {path}{field}"


#: What is looked for in objects of every kind, then in those of one.
EVERYWHERE: Final[tuple[Repair, ...]] = (lower_name,)
BY_KIND: Final[Mapping[str, tuple[Repair, ...]]] = {
    "PersistentVolume": (some_access_mode, disk_by_its_name),
    "StorageClass": (full_binding_mode,),
}


def repair(obj: Body) -> list[str]:
    """Make all repairs that apply, in place; what was done."""
    steps = (*EVERYWHERE, *BY_KIND.get(str(obj.get("kind")), ()))
    return [done for done in (step(obj) for step in steps) if done]
