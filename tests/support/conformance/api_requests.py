"""Requests to both servers: every kind through every verb, with valid and invalid changes.

Data for `test_api_differential`, beside `api_mistakes`. A conversation is a list of requests that build on each other;
`{name}` in a label is the kind's plural, so that a difference names its request.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api import kinds
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from support.conformance.key_material import certificate_request, trust_anchor
from support.conformance.server_pair import Json, Request
from support.server.harness import altered

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

_GANG: Final = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
_GANG_TEMPLATE: Final = {
    "spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 3}}}]}
}

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
    kinds.POD_GROUP: _GANG,
    kinds.POD_GROUP_ALPHA: _GANG,
    kinds.WORKLOAD: _GANG_TEMPLATE,
    kinds.WORKLOAD_ALPHA: _GANG_TEMPLATE,
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
    kinds.DEVICE_TAINT_RULE: {"spec": {"taint": {"key": "d.io/broken", "effect": "NoSchedule"}}},
    kinds.TRUST_BUNDLE: {"spec": {"trustBundle": trust_anchor()}},
    kinds.POD_CERTIFICATE_REQUEST: {"spec": certificate_request()},
    kinds.STORAGE_VERSION_MIGRATION: {"spec": {"resource": {"group": "", "resource": "secrets"}}},
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
    """One object from creation to deletion, through every verb, with every common mistake."""
    here, one, body = place(kind), place(kind, "a"), body_of(kind, "a")
    dry, selected = f"{here}?dryRun=All", f"{here}?labelSelector=both%3Dyes"

    def make_request(
        label: str,
        method: str,
        path: str,
        body: Json = None,
        *,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Request:
        return Request(f"{kind.plural}: {label}", method, path, body, headers or {}, raw)

    yield make_request("get what is not there", "GET", one)
    yield make_request("create dry", "POST", dry, body)
    yield make_request("create", "POST", here, altered(body, ("metadata.labels", {"both": "yes"})))
    yield make_request("create again", "POST", here, body)
    yield make_request("create without a name", "POST", dry, altered(body, ("metadata", {})))
    yield make_request("create with a version", "POST", here, altered(body, ("metadata.resourceVersion", "5")))
    yield make_request("create with a bad name", "POST", dry, altered(body, ("metadata.name", "A_b")))
    yield make_request("create with a bad label", "POST", here, altered(body, ("metadata.labels", {"a": "b c"})))
    yield make_request("create another kind", "POST", here, altered(body, ("kind", "Binding"), ("apiVersion", "v1")))
    yield make_request(
        "create with an unknown field, strictly", "POST", f"{here}?fieldValidation=Strict", body | {"odd": 1}
    )
    yield make_request("create with an odd validation", "POST", f"{here}?fieldValidation=Odd", body)
    yield make_request("create with an odd dry run", "POST", f"{here}?dryRun=Odd", body)
    yield make_request("create of malformed JSON", "POST", here, raw=b'{"kind":')
    yield make_request("create of a list", "POST", here, raw=b"[]")
    yield make_request("create of text", "POST", here, raw=b"x", headers={"Content-Type": "text/plain"})
    yield make_request("create with metadata of text", "POST", here, altered(body, ("metadata", "x")))
    yield make_request("get", "GET", one)
    yield make_request("get as a table", "GET", one, headers=TABLE)
    yield make_request("get as metadata", "GET", one, headers=METADATA)
    yield make_request("list", "GET", selected)
    yield make_request("list by a bad label selector", "GET", f"{here}?labelSelector=a%20in%20(b")
    yield make_request("list by an unknown field", "GET", f"{here}?fieldSelector=spec.bogus%3D1")
    yield make_request("list by name", "GET", f"{here}?fieldSelector=metadata.name%3Da")
    yield make_request("list at no version", "GET", f"{here}?resourceVersion=abc")
    yield make_request("list with a bad limit", "GET", f"{here}?limit=x")
    yield make_request("list with a bad token", "GET", f"{here}?continue=x")
    yield make_request("list with a match and no version", "GET", f"{here}?resourceVersionMatch=Exact")
    yield make_request("replace what is not there", "PUT", place(kind, "b"), altered(body, ("metadata.name", "b")))
    yield make_request("delete what came by replacing", "DELETE", place(kind, "b"))
    yield make_request("replace at a stale version", "PUT", one, altered(body, ("metadata.resourceVersion", "1")))
    yield make_request("replace under another name", "PUT", one, altered(body, ("metadata.name", "z")))
    yield make_request("replace at no version", "PUT", one, body)
    yield make_request("replace with another uid", "PUT", one, altered(body, ("metadata.uid", "other")))
    yield make_request("patch a label", "PATCH", one, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
    yield make_request("patch a label again", "PATCH", one, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
    yield make_request(
        "patch strategically", "PATCH", one, {"metadata": {"annotations": {"n": "1"}}}, headers=STRATEGIC
    )
    yield make_request(
        "patch by operations", "PATCH", one, [{"op": "remove", "path": "/metadata/labels"}], headers=JSON_PATCH
    )
    yield make_request(
        "patch where a test fails", "PATCH", one, [{"op": "test", "path": "/kind", "value": 1}], headers=JSON_PATCH
    )
    yield make_request("patch with an object of operations", "PATCH", one, {}, headers=JSON_PATCH)
    yield make_request("patch a stale version", "PATCH", one, {"metadata": {"resourceVersion": "1"}}, headers=MERGE)
    yield make_request("patch the name", "PATCH", one, {"metadata": {"name": "z"}}, headers=MERGE)
    yield make_request("patch to a bad label", "PATCH", one, {"metadata": {"labels": {"a": "b c"}}}, headers=MERGE)
    yield make_request("patch an unknown field", "PATCH", f"{one}?fieldValidation=Strict", {"odd": 1}, headers=MERGE)
    yield make_request("patch as plain JSON", "PATCH", one, {})
    yield make_request("patch what is not there", "PATCH", place(kind, "b"), {}, headers=MERGE)
    yield make_request("force a plain patch", "PATCH", f"{one}?force=true", {}, headers=MERGE)
    yield make_request("apply without a manager", "PATCH", one, body, headers=APPLY)
    yield make_request("status", "GET", place(kind, "a", "status"))
    yield make_request("a subresource that is none", "GET", place(kind, "a", "odd"))
    yield make_request("replace the collection", "PUT", here, body)
    yield make_request("create at a name", "POST", one, body)
    yield make_request("delete dry", "DELETE", f"{one}?dryRun=All")
    yield make_request("delete by an odd policy", "DELETE", one, {"propagationPolicy": "Odd"})
    yield make_request("delete another uid", "DELETE", one, {"preconditions": {"uid": "other"}})
    yield make_request("delete at a stale version", "DELETE", one, {"preconditions": {"resourceVersion": "1"}})
    yield make_request("delete", "DELETE", one, {"gracePeriodSeconds": 0})
    yield make_request("create with a finalizer", "POST", here, altered(body, ("metadata.finalizers", ["both.io/x"])))
    yield make_request("delete what is held", "DELETE", one, {"gracePeriodSeconds": 0})
    yield make_request("create what is going", "POST", here, body)
    yield make_request("hold what is going", "PATCH", one, {"metadata": {"finalizers": ["b.io/y"]}}, headers=MERGE)
    yield make_request("let it go", "PATCH", one, {"metadata": {"finalizers": None}}, headers=MERGE)
    yield make_request("get what went", "GET", one)
    yield make_request("delete what is not there", "DELETE", place(kind, "never"))
    yield make_request("delete a collection of none", "DELETE", f"{here}?labelSelector=none%3Dat-all")


GROUP_CHANGES: Final[tuple[tuple[str, Json], ...]] = (
    ("the quorum", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}),
    ("the quorum to none", {"spec": {"schedulingPolicy": {"gang": {"minCount": 0}}}}),
    ("the quorum to less than none", {"spec": {"schedulingPolicy": {"gang": {"minCount": -1}}}}),
    ("the policy", {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}}),
    ("to both policies", {"spec": {"schedulingPolicy": {"basic": {}}}}),
    ("to no policy", {"spec": {"schedulingPolicy": {"gang": None}}}),
    ("the workload", {"spec": {"workloadRef": {"workloadName": "w", "templateName": "t"}}}),
    ("the topology", {"spec": {"schedulingConstraints": {"topology": [{"key": "rack"}]}}}),
    ("the disruption mode", {"spec": {"disruptionMode": {"single": None, "all": {}}}}),
    ("to no disruption mode", {"spec": {"disruptionMode": None}}),
    ("the class", {"spec": {"priorityClassName": "other"}}),
    ("the priority", {"spec": {"priority": 5}}),
    ("to no priority", {"spec": {"priority": None}}),
    ("the policy of preemption", {"spec": {"preemptionPolicy": "Never"}}),
    ("the parent", {"spec": {"parentCompositePodGroupName": "p"}}),
    ("the devices", {"spec": {"resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}}),
    ("the status by the front door", {"status": {"conditions": [{"type": "X", "status": "True"}]}}),
)
WORKLOAD_CHANGES: Final[tuple[tuple[str, Json], ...]] = (
    ("the controller", {"spec": {"controllerRef": {"kind": "Job", "name": "j"}}}),
    ("the templates", {"spec": {"podGroupTemplates": [{"name": "w", "schedulingPolicy": {"basic": {}}}]}}),
    ("to no templates", {"spec": {"podGroupTemplates": []}}),
    ("a quorum", {"spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}]}}),
    ("a policy", {"spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"basic": {}}}]}}),
    (
        "a template more",
        {
            "spec": {
                "podGroupTemplates": [
                    {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}},
                    {"name": "more", "schedulingPolicy": {"basic": {}}},
                ]
            }
        },
    ),
    (
        "a priority",
        {
            "spec": {
                "podGroupTemplates": [
                    {
                        "name": "workers",
                        "schedulingPolicy": {"gang": {"minCount": 2}},
                        "priority": 4,
                        "disruptionMode": {},
                    }
                ]
            }
        },
    ),
)

#: Changes of an existing object: allowed ones, and rejected ones.
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
        ("several fields", {"provisioner": "q.io/x", "volumeBindingMode": "Odd"}),
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
    **dict.fromkeys((kinds.POD_GROUP, kinds.POD_GROUP_ALPHA), GROUP_CHANGES),
    **dict.fromkeys((kinds.WORKLOAD, kinds.WORKLOAD_ALPHA), WORKLOAD_CHANGES),
    kinds.DISRUPTION_BUDGET: (("the bound", {"spec": {"minAvailable": 2}}),),
    kinds.CSI_DRIVER: (
        ("attaching", {"spec": {"attachRequired": False}}),
        ("capacity", {"spec": {"storageCapacity": True}}),
        ("pods without the driver", {"spec": {"preventPodSchedulingIfMissing": True}}),
    ),
    kinds.CSI_NODE: (
        ("a driver", {"spec": {"drivers": [{"name": "d.io", "nodeID": "m"}]}}),
        ("the status by the front door", {"status": {"storageHealth": [{"name": "d.io"}]}}),
    ),
    kinds.DEVICE_TAINT_RULE: (("the effect", {"spec": {"taint": {"effect": "NoExecute"}}}),),
    kinds.POD_CERTIFICATE_REQUEST: (("the pod", {"spec": {"podName": "q"}}),),
    kinds.STORAGE_VERSION_MIGRATION: (("the resource", {"spec": {"resource": {"resource": "pods"}}}),),
    kinds.STORAGE_CAPACITY: (("the class", {"storageClassName": "d"}), ("the amount", {"capacity": "2Gi"})),
    kinds.VOLUME_ATTACHMENT: (("the node", {"spec": {"nodeName": "m"}}),),
    kinds.VOLUME_ATTRIBUTES_CLASS: (("the parameters", {"parameters": {"k": "w"}}),),
    kinds.CONTROLLER_REVISION: (("the data", {"data": {"spec": {"a": 1}}}), ("the number", {"revision": 2})),
    kinds.SECRET: (("the type", {"type": "Other"}),),
    kinds.ROLE_BINDING: (("the role", {"roleRef": {"name": "edit"}}),),
    kinds.NODE: (
        ("the provider", {"spec": {"providerID": "x"}}),
        ("the provider again", {"spec": {"providerID": "y"}}),
        ("to no provider", {"spec": {"providerID": None}}),
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
