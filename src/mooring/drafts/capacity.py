"""CSIStorageCapacity in its first form, with a `spec`, a driver's name and a node selector, as what it became.

Today the object is in a namespace, has no driver and selects nodes by labels alone. A label selector has no
alternatives, so each term of a node selector becomes an object of its own; what it cannot say at all is refused. An
absent topology meant every node then and means none now.
"""

from typing import Final

from mooring.drafts.contract import Body, Change, Outcome, Refusal, name_of

KIND: Final = "CSIStorageCapacity"
API_VERSION: Final = "storage.k8s.io/v1"

#: The operators that a label selector has too.
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_KEPT: Final = ("storageClassName", "capacity", "maximumVolumeSize")


class _Inexpressible(Exception):
    """A label selector cannot say this."""


def is_draft(obj: Body) -> bool:
    return obj.get("kind") == KIND and isinstance(obj.get("spec"), dict)


def convert(obj: Body, namespace: str) -> Outcome:
    name, spec = name_of(obj), obj["spec"]
    try:
        topologies, said = _topologies(spec.get("nodeTopology"))
    except _Inexpressible as why:
        return Outcome(refusals=(Refusal(name, str(why)),))
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
    return Outcome(tuple(objects), tuple(Change(name, change) for change in (*changes, *said)))


def _topologies(selector: object) -> tuple[list[Body | None], list[str]]:
    """The label selector of each object it takes, None for one that no node reaches; and what is to be said."""
    if selector is None:
        return [{}], ["nodeTopology: {} says what no nodeTopology meant: every node"]
    terms = selector.get("nodeSelectorTerms") if isinstance(selector, dict) else None
    if not isinstance(terms, list):
        raise _Inexpressible("spec.nodeTopology is no node selector: it has no nodeSelectorTerms")
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
            raise _Inexpressible(
                f"nodeTopology cannot use the operator {row.get('operator')} any more: "
                f"label selectors have {', '.join(_OPERATORS)}"
            )
    return {"matchExpressions": rows}
