"""Converts manifests of the design drafts of volume topology and storage capacity to today's API. Pure.

Repairs text that is not YAML (documents without `---`, `...` for containers), then objects (one function per defect),
and converts the first form of CSIStorageCapacity: each term of its node selector becomes an object, since a label
selector has no alternatives. Everything else passes unchanged, for the server to validate.
"""

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from mooring.api.documents import Body


class DraftChange(NamedTuple):
    """Something that was done to an object, in words that go after its name."""

    object: str
    change: str


class DraftRefusal(NamedTuple):
    """An object that has no counterpart today, and why."""

    object: str
    why: str


class DraftResult(NamedTuple):
    objects: tuple[Body, ...] = ()
    changes: tuple[DraftChange, ...] = ()
    refusals: tuple[DraftRefusal, ...] = ()


def name_of(obj: Body) -> str:
    """How remarks call an object: `StorageClass/standard`."""
    meta = obj.get("metadata")
    name = meta.get("name") or meta.get("Name") if isinstance(meta, dict) else None
    return f"{obj.get('kind') or 'object'}/{name or '?'}"


KIND: Final = "CSIStorageCapacity"
API_VERSION: Final = "storage.k8s.io/v1"

#: The operators that a label selector has too.
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_KEPT: Final = ("storageClassName", "capacity", "maximumVolumeSize")


class _Inexpressible(Exception):
    """A label selector cannot say this."""


def convert_capacity(obj: Body, namespace: str) -> DraftResult:
    name, spec = name_of(obj), obj["spec"]
    try:
        topologies, said = _topologies(spec.get("nodeTopology"))
    except _Inexpressible as why:
        return DraftResult(refusals=(DraftRefusal(name, str(why)),))
    moved = f"moved spec.{', spec.'.join(field for field in _KEPT if field in spec)} to the top"
    changes = [f"apiVersion is {API_VERSION}", f"put into namespace {namespace}", moved]
    if "driverName" in spec:
        changes.append(f"dropped spec.driverName: the class says that the driver is {spec['driverName']}")
    meta = dict(obj.get("metadata") or {}) | {"namespace": namespace}
    objects = []
    for number, topology in enumerate(topologies, start=1):
        own = meta if len(topologies) == 1 else meta | {"name": f"{meta.get('name')}-{number}"}
        body: Body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": own}
        if topology is not None:
            body["nodeTopology"] = topology
        objects.append(body | {field: spec[field] for field in _KEPT if field in spec})
    return DraftResult(tuple(objects), tuple(DraftChange(name, change) for change in (*changes, *said)))


def _topologies(selector: object) -> tuple[list[Body | None], list[str]]:
    """The label selector of each object it takes, None for one that no node reaches; and what is to be said."""
    if selector is None:
        return [{}], ["nodeTopology: {} says what no nodeTopology meant: every node"]
    terms = selector.get("nodeSelectorTerms") if isinstance(selector, dict) else None
    if not isinstance(terms, list):
        raise _Inexpressible("expected spec.nodeTopology to be a node selector: it has no nodeSelectorTerms")
    topologies: list[Body | None] = [_labels(term) for term in terms if isinstance(term, dict) and any(term.values())]
    said = ["nodeTopology is a label selector now"]
    if not topologies:
        return [None], ["left nodeTopology out: its node selector matched no node"]
    if len(topologies) > 1:
        said.append(f"made {len(topologies)} objects, one for each term of its node selector")
    return topologies, said


def _labels(term: Body) -> Body:
    if term.get("matchFields"):
        raise _Inexpressible("nodeTopology cannot select nodes by matchFields any more: use a label")
    rows = term.get("matchExpressions") or []
    for row in rows:
        if row.get("operator") not in _OPERATORS:
            known = f"label selectors have {', '.join(_OPERATORS)}"
            raise _Inexpressible(f"nodeTopology cannot use the operator {row.get('operator')} any more: {known}")
    return {"matchExpressions": rows}


#: Changes an object in place and says what it did; "" if there was nothing to do.
Repair = Callable[[Body], str]


def _renaming(path: str, draft: str, field: str) -> Repair:
    def rename(obj: Body) -> str:
        holder: object = obj
        for name in path.split(".")[:-1]:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if not isinstance(holder, dict) or draft not in holder or field in holder:
            return ""
        # Rebuilt, so that the field stays where it was.
        pairs = [(field if key == draft else key, value) for key, value in holder.items()]
        holder.clear()
        holder.update(pairs)
        return f"renamed {path}{draft} to {path}{field}"

    return rename


def _some_access_mode(obj: Body) -> str:
    spec = obj.get("spec")
    if not isinstance(spec, dict) or spec.get("accessModes"):
        return ""
    spec["accessModes"] = ["ReadWriteOnce"]
    return "added spec.accessModes: [ReadWriteOnce], which every volume must have"


#: What is looked for in objects of every kind, then in those of one. The drafts wrote `Name` as the Go field is called,
#: and `diskName` for what has always been `pdName`.
EVERYWHERE: Final = (_renaming("metadata.", "Name", "name"),)
BY_KIND: Final[Mapping[str, tuple[Repair, ...]]] = {
    "PersistentVolume": (_some_access_mode, _renaming("spec.gcePersistentDisk.", "diskName", "pdName")),
    "StorageClass": (_renaming("", "bindingMode", "volumeBindingMode"),),
}


def repair_object(obj: Body) -> list[str]:
    """Make all repairs that apply, in place; what was done."""
    steps = (*EVERYWHERE, *BY_KIND.get(str(obj.get("kind")), ()))
    return [done for done in (step(obj) for step in steps) if done]


#: What the capacity design weighed and did not choose. Each is refused with the reason.
_REJECTED: Final[Mapping[str, str]] = {
    "CSIStoragePool": (
        "CSIStoragePool never became an API: an object per pool would grow with every storage class. "
        "Write one CSIStorageCapacity per pool and class"
    ),
    "CSIDriver": (
        "CSIDriver has no status: one object per driver would grow with every pool and be written by all nodes. "
        "Write one CSIStorageCapacity per pool and class, and set spec.storageCapacity: true on the CSIDriver"
    ),
}


def modernize(document: object, *, namespace: str) -> DraftResult:
    """What a document comes to; capacity objects, which had no namespace, go into the one given."""
    if not isinstance(document, dict):
        return DraftResult(refusals=(DraftRefusal("document", "is not an object"),))
    if document.get("kind") == "List" and isinstance(document.get("items"), list):
        return joined(modernize(item, namespace=namespace) for item in document["items"])
    kind = str(document.get("kind"))
    if kind in _REJECTED and (kind != "CSIDriver" or document.get("status")):
        return DraftResult(refusals=(DraftRefusal(name_of(document), _REJECTED[kind]),))
    obj = copy.deepcopy(document)
    name, done = name_of(obj), repair_object(obj)
    changes = tuple(DraftChange(name, change) for change in done)
    if obj.get("kind") == KIND and isinstance(obj.get("spec"), dict):
        return joined((DraftResult(changes=changes), convert_capacity(obj, namespace)))
    return DraftResult((obj,), changes)


def joined(outcomes: Iterable[DraftResult]) -> DraftResult:
    """Several outcomes as one, in order."""
    every = tuple(outcomes)
    return DraftResult(
        tuple(obj for one in every for obj in one.objects),
        tuple(change for one in every for change in one.changes),
        tuple(refusal for one in every for refusal in one.refusals),
    )


#: The keys an object may begin with; seen a second time, another object begins.
_BEGINNINGS: Final = ("apiVersion", "kind")
_TOP_KEY: Final = re.compile(r"(?P<key>[A-Za-z]\w*):(\s|$)")
_SEPARATOR: Final = "---"

_ELIDED: Final = re.compile(r"^(?P<indent>[ ]*)containers:[ ]*(?:#[^\n]*)?(?:\n[ ]*)?\.\.\.[ ]*$", re.MULTILINE)
#: A container that only waits, under the name Kubernetes' own does.
_WAITING: Final = "containers:\n{indent}- name: app\n{indent}  image: pause"

SEPARATED: Final = "added the missing --- before line {line}"
FILLED: Final = "put a container that only waits in the place of containers: ..."


def repaired_text(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with both repairs made, and what was done."""
    filled, count = _ELIDED.subn(lambda found: found["indent"] + _WAITING.format(indent=found["indent"]), text)
    separated, lines = _separated(filled)
    return separated, (*([FILLED] * count), *(SEPARATED.format(line=line) for line in lines))


def _separated(text: str) -> tuple[str, list[int]]:
    """The text with a separator before every object, and the lines before which it was missing."""
    parts: list[str] = []
    missing: list[int] = []
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        top = _TOP_KEY.match(line)
        key = top["key"] if top is not None else ""
        begins = key in seen and key in _BEGINNINGS
        if begins:
            missing.append(number)
            parts.append(f"{_SEPARATOR}\n")
        if begins or line.startswith(_SEPARATOR):
            seen.clear()
        seen.add(key)
        parts.append(line)
    return "".join(parts), missing
