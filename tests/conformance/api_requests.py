"""What both servers are asked: every kind through every verb, and what may be changed of each and what not.

Data for `test_api_differential`, beside `api_mistakes`. A conversation is a list of requests that build on each other;
`{name}` in a label is the kind's plural, so that a difference is found by what was asked.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from conformance.both_servers import Json, Request
from mooring.api import kinds
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from server.harness import altered

NAMESPACE: Final = "diff"

MERGE: Final = {"Content-Type": "application/merge-patch+json"}
STRATEGIC: Final = {"Content-Type": "application/strategic-merge-patch+json"}
JSON_PATCH: Final = {"Content-Type": "application/json-patch+json"}
APPLY: Final = {"Content-Type": "application/apply-patch+yaml"}
TABLE: Final = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
METADATA: Final = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}

CONTAINER: Final = {"name": "c", "image": "i:1"}
_TEMPLATE: Final = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}}
_WORKLOAD: Final = {"selector": {"matchLabels": {"app": "a"}}, "template": _TEMPLATE}
_ABOUT: Final = {"kind": "Pod", "namespace": NAMESPACE, "name": "p"}

#: A valid object of each kind, without its name.
VALID: Final[dict[Kind[ApiObject], Json]] = {
    kinds.POD: {"spec": {"containers": [CONTAINER]}},
    kinds.NODE: {"spec": {}},
    kinds.VOLUME: {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    },
    kinds.CLAIM: {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        }
    },
    kinds.NAMESPACE: {},
    kinds.EVENT: {"involvedObject": _ABOUT, "reason": "R", "message": "m", "type": "Normal"},
    kinds.NEW_EVENT: {
        "regarding": _ABOUT,
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "c.io/x",
        "reportingInstance": "i",
        "action": "A",
        "reason": "R",
        "type": "Normal",
        "note": "n",
    },
    kinds.CONFIG_MAP: {"data": {"k": "v"}},
    kinds.SECRET: {"stringData": {"k": "v"}},
    kinds.SERVICE_ACCOUNT: {},
    kinds.SERVICE: {"spec": {"clusterIP": "None", "selector": {"app": "a"}, "ports": [{"port": 80}]}},
    kinds.ENDPOINTS: {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    kinds.POD_TEMPLATE: {"template": _TEMPLATE},
    kinds.LIMIT_RANGE: {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}},
    kinds.RESOURCE_QUOTA: {"spec": {"hard": {"configmaps": "100"}}},
    kinds.REPLICATION_CONTROLLER: {"spec": {"template": _TEMPLATE}},
    kinds.STORAGE_CLASS: {"provisioner": "p.io/x"},
    kinds.CSI_NODE: {"spec": {"drivers": [{"name": "d.io", "nodeID": "n", "topologyKeys": ["z"]}]}},
    kinds.CSI_DRIVER: {"spec": {}},
    kinds.STORAGE_CAPACITY: {"storageClassName": "c", "capacity": "1Gi"},
    kinds.VOLUME_ATTACHMENT: {"spec": {"attacher": "d.io", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
    kinds.VOLUME_ATTRIBUTES_CLASS: {"driverName": "d.io", "parameters": {"k": "v"}},
    kinds.DEPLOYMENT: {"spec": _WORKLOAD},
    kinds.REPLICA_SET: {"spec": _WORKLOAD},
    kinds.DAEMON_SET: {"spec": _WORKLOAD},
    kinds.STATEFUL_SET: {"spec": {**_WORKLOAD, "serviceName": "s"}},
    kinds.CONTROLLER_REVISION: {"data": {"spec": {}}, "revision": 1},
    kinds.PRIORITY_CLASS: {"value": 7},
    kinds.DISRUPTION_BUDGET: {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}},
    kinds.LEASE: {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    kinds.DEVICE_CLASS: {"spec": {}},
    kinds.RESOURCE_CLAIM: {"spec": {}},
    kinds.RESOURCE_CLAIM_TEMPLATE: {"spec": {"spec": {}}},
    kinds.RESOURCE_SLICE: {
        "spec": {
            "driver": "d.io",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [],
        }
    },
    kinds.ROLE: {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    kinds.CLUSTER_ROLE: {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    kinds.ROLE_BINDING: {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}],
    },
    kinds.CLUSTER_ROLE_BINDING: {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}],
    },
}


def body_of(kind: Kind[ApiObject], name: str, *changes: tuple[str, object]) -> Json:
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **VALID[kind]}
    return altered(whole, *changes)


def place(kind: Kind[ApiObject], name: str = "", subresource: str = "") -> str:
    return kind.path(namespace=NAMESPACE, name=name, subresource=subresource)


def life(kind: Kind[ApiObject]) -> Iterator[Request]:
    """One object from its creation to its end, through every verb, and every common mistake on the way."""
    here, one, body = place(kind), place(kind, "a"), body_of(kind, "a")
    dry, selected = f"{here}?dryRun=All", f"{here}?labelSelector=both%3Dyes"

    def ask(
        label: str,
        method: str,
        path: str,
        body: Json = None,
        *,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Request:
        return Request(f"{kind.plural}: {label}", method, path, body, headers or {}, raw)

    yield ask("get what is not there", "GET", one)
    yield ask("create dry", "POST", dry, body)
    yield ask("create", "POST", here, altered(body, ("metadata.labels", {"both": "yes"})))
    yield ask("create again", "POST", here, body)
    yield ask("create without a name", "POST", dry, altered(body, ("metadata", {})))
    yield ask("create with a version", "POST", here, altered(body, ("metadata.resourceVersion", "5")))
    yield ask("create with a bad name", "POST", dry, altered(body, ("metadata.name", "A_b")))
    yield ask("create with a bad label", "POST", here, altered(body, ("metadata.labels", {"a": "b c"})))
    yield ask("create another kind", "POST", here, altered(body, ("kind", "Binding"), ("apiVersion", "v1")))
    yield ask("create with an unknown field, strictly", "POST", f"{here}?fieldValidation=Strict", body | {"odd": 1})
    yield ask("create with an odd validation", "POST", f"{here}?fieldValidation=Odd", body)
    yield ask("create with an odd dry run", "POST", f"{here}?dryRun=Odd", body)
    yield ask("create of malformed JSON", "POST", here, raw=b'{"kind":')
    yield ask("create of a list", "POST", here, raw=b"[]")
    yield ask("create of text", "POST", here, raw=b"x", headers={"Content-Type": "text/plain"})
    yield ask("create with metadata of text", "POST", here, altered(body, ("metadata", "x")))
    yield ask("get", "GET", one)
    yield ask("get as a table", "GET", one, headers=TABLE)
    yield ask("get as metadata", "GET", one, headers=METADATA)
    yield ask("list", "GET", selected)
    yield ask("list by a bad label selector", "GET", f"{here}?labelSelector=a%20in%20(b")
    yield ask("list by an unknown field", "GET", f"{here}?fieldSelector=spec.bogus%3D1")
    yield ask("list by name", "GET", f"{here}?fieldSelector=metadata.name%3Da")
    yield ask("list at no version", "GET", f"{here}?resourceVersion=abc")
    yield ask("list with a bad limit", "GET", f"{here}?limit=x")
    yield ask("list with a bad token", "GET", f"{here}?continue=x")
    yield ask("list with a match and no version", "GET", f"{here}?resourceVersionMatch=Exact")
    yield ask("replace what is not there", "PUT", place(kind, "b"), altered(body, ("metadata.name", "b")))
    yield ask("delete what came by replacing", "DELETE", place(kind, "b"))
    yield ask("replace at a stale version", "PUT", one, altered(body, ("metadata.resourceVersion", "1")))
    yield ask("replace under another name", "PUT", one, altered(body, ("metadata.name", "z")))
    yield ask("replace at no version", "PUT", one, body)
    yield ask("replace with another uid", "PUT", one, altered(body, ("metadata.uid", "other")))
    yield ask("patch a label", "PATCH", one, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
    yield ask("patch a label again", "PATCH", one, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
    yield ask("patch strategically", "PATCH", one, {"metadata": {"annotations": {"n": "1"}}}, headers=STRATEGIC)
    yield ask("patch by operations", "PATCH", one, [{"op": "remove", "path": "/metadata/labels"}], headers=JSON_PATCH)
    yield ask(
        "patch where a test fails", "PATCH", one, [{"op": "test", "path": "/kind", "value": 1}], headers=JSON_PATCH
    )
    yield ask("patch with an object of operations", "PATCH", one, {}, headers=JSON_PATCH)
    yield ask("patch a stale version", "PATCH", one, {"metadata": {"resourceVersion": "1"}}, headers=MERGE)
    yield ask("patch the name", "PATCH", one, {"metadata": {"name": "z"}}, headers=MERGE)
    yield ask("patch to a bad label", "PATCH", one, {"metadata": {"labels": {"a": "b c"}}}, headers=MERGE)
    yield ask("patch an unknown field", "PATCH", f"{one}?fieldValidation=Strict", {"odd": 1}, headers=MERGE)
    yield ask("patch as plain JSON", "PATCH", one, {})
    yield ask("patch what is not there", "PATCH", place(kind, "b"), {}, headers=MERGE)
    yield ask("force a plain patch", "PATCH", f"{one}?force=true", {}, headers=MERGE)
    yield ask("apply without a manager", "PATCH", one, body, headers=APPLY)
    yield ask("status", "GET", place(kind, "a", "status"))
    yield ask("a subresource that is none", "GET", place(kind, "a", "odd"))
    yield ask("replace the collection", "PUT", here, body)
    yield ask("create at a name", "POST", one, body)
    yield ask("delete dry", "DELETE", f"{one}?dryRun=All")
    yield ask("delete by an odd policy", "DELETE", one, {"propagationPolicy": "Odd"})
    yield ask("delete another uid", "DELETE", one, {"preconditions": {"uid": "other"}})
    yield ask("delete at a stale version", "DELETE", one, {"preconditions": {"resourceVersion": "1"}})
    yield ask("delete", "DELETE", one, {"gracePeriodSeconds": 0})
    yield ask("create with a finalizer", "POST", here, altered(body, ("metadata.finalizers", ["both.io/x"])))
    yield ask("delete what is held", "DELETE", one, {"gracePeriodSeconds": 0})
    yield ask("create what is going", "POST", here, body)
    yield ask("hold what is going", "PATCH", one, {"metadata": {"finalizers": ["b.io/y"]}}, headers=MERGE)
    yield ask("let it go", "PATCH", one, {"metadata": {"finalizers": None}}, headers=MERGE)
    yield ask("get what went", "GET", one)
    yield ask("delete what is not there", "DELETE", place(kind, "never"))
    yield ask("delete a collection of none", "DELETE", f"{here}?labelSelector=none%3Dat-all")


#: Changes of an object that is there: what may change, and how the rest is refused.
CHANGES: Final[dict[Kind[ApiObject], tuple[tuple[str, Json], ...]]] = {
    kinds.POD: (
        ("the image", {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}),
        ("a container's name", {"spec": {"containers": [{"name": "d", "image": "i:2"}]}}),
        ("the node", {"spec": {"nodeName": "n"}}),
        ("a toleration", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}),
        ("the deadline", {"spec": {"activeDeadlineSeconds": 5}}),
        ("the status by the front door", {"status": {"phase": "Running"}}),
    ),
    kinds.CLAIM: (
        ("the size", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
        ("the volume", {"spec": {"volumeName": "v"}}),
        ("the volume again", {"spec": {"volumeName": "w"}}),
    ),
    kinds.VOLUME: (
        ("the source", {"spec": {"hostPath": {"path": "/other"}}}),
        ("the mode", {"spec": {"volumeMode": "Block"}}),
        ("the policy", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        ("the size", {"spec": {"capacity": {"storage": "2Gi"}}}),
        ("the claim", {"spec": {"claimRef": {"namespace": "d", "name": "c", "uid": "u"}}}),
    ),
    kinds.STORAGE_CLASS: (
        ("the provisioner", {"provisioner": "q.io/x"}),
        ("the parameters", {"parameters": {"a": "b"}}),
        ("the mode", {"volumeBindingMode": "WaitForFirstConsumer"}),
        ("the policy", {"reclaimPolicy": "Retain"}),
        ("growth", {"allowVolumeExpansion": True}),
    ),
    kinds.DEPLOYMENT: (
        ("replicas", {"spec": {"replicas": 3}}),
        ("the selector", {"spec": {"selector": {"matchLabels": {"b": "c"}}}}),
        ("an annotation", {"metadata": {"annotations": {"a": "b"}}}),
    ),
    kinds.DAEMON_SET: (
        ("the selector", {"spec": {"selector": {"matchLabels": {"b": "c"}}}}),
        ("the template", {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}),
    ),
    kinds.STATEFUL_SET: (
        ("replicas", {"spec": {"replicas": 3}}),
        ("the service", {"spec": {"serviceName": "t"}}),
    ),
    kinds.REPLICA_SET: (("the selector", {"spec": {"selector": {"matchLabels": {"b": "c"}}}}),),
    kinds.PRIORITY_CLASS: (("the value", {"value": 8}), ("the policy", {"preemptionPolicy": "Never"})),
    kinds.DISRUPTION_BUDGET: (("the bound", {"spec": {"minAvailable": 2}}),),
    kinds.CSI_DRIVER: (
        ("attaching", {"spec": {"attachRequired": False}}),
        ("capacity", {"spec": {"storageCapacity": True}}),
    ),
    kinds.CSI_NODE: (("a driver", {"spec": {"drivers": [{"name": "d.io", "nodeID": "m"}]}}),),
    kinds.STORAGE_CAPACITY: (("the class", {"storageClassName": "d"}), ("the amount", {"capacity": "2Gi"})),
    kinds.VOLUME_ATTACHMENT: (("the node", {"spec": {"nodeName": "m"}}),),
    kinds.VOLUME_ATTRIBUTES_CLASS: (("the parameters", {"parameters": {"k": "w"}}),),
    kinds.CONTROLLER_REVISION: (("the data", {"data": {"spec": {"a": 1}}}), ("the number", {"revision": 2})),
    kinds.SECRET: (("the type", {"type": "Other"}),),
    kinds.ROLE_BINDING: (("the role", {"roleRef": {"name": "edit"}}),),
    kinds.NODE: (
        ("the provider", {"spec": {"providerID": "x"}}),
        ("the provider again", {"spec": {"providerID": "y"}}),
    ),
    kinds.NEW_EVENT: (("the note", {"note": "other"}),),
    kinds.LEASE: (("the holder", {"spec": {"holderIdentity": "you"}}),),
}


def changes(kind: Kind[ApiObject]) -> Iterator[Request]:
    if kind not in CHANGES:
        return
    one = place(kind, "m")
    yield Request(f"{kind.plural}: create to change", "POST", place(kind), body_of(kind, "m"))
    for label, patch in CHANGES[kind]:
        yield Request(f"{kind.plural}: change {label}", "PATCH", one, patch, headers=MERGE)
    yield Request(f"{kind.plural}: get what was changed", "GET", one)
