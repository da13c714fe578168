"""What both servers are asked: every kind through every verb, and what is wrong with each kind in its own way.

Data for `test_api_differential`. A conversation is a list of requests that build on each other; `{name}` in a label is
the kind's plural, so that a difference is found by what was asked.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from conformance.both_servers import Json, Request
from mooring.api import kinds
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from server.harness import ABSENT, altered

NAMESPACE: Final = "diff"

MERGE: Final = {"Content-Type": "application/merge-patch+json"}
STRATEGIC: Final = {"Content-Type": "application/strategic-merge-patch+json"}
JSON_PATCH: Final = {"Content-Type": "application/json-patch+json"}
APPLY: Final = {"Content-Type": "application/apply-patch+yaml"}
TABLE: Final = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
METADATA: Final = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}

_CONTAINER: Final = {"name": "c", "image": "i:1"}
_TEMPLATE: Final = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [_CONTAINER]}}
_WORKLOAD: Final = {"selector": {"matchLabels": {"app": "a"}}, "template": _TEMPLATE}
_ABOUT: Final = {"kind": "Pod", "namespace": NAMESPACE, "name": "p"}

#: A valid object of each kind, without its name.
VALID: Final[dict[Kind[ApiObject], Json]] = {
    kinds.POD: {"spec": {"containers": [_CONTAINER]}},
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


def _shared(resources: Json) -> Json:
    """Two containers that ask for something by themselves, in a pod that asks as a whole."""
    first = {**_CONTAINER, "resources": {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "4"}}}
    second = {**_CONTAINER, "name": "second", "resources": {"requests": {"cpu": "500m", "memory": "1536Ki"}}}
    return {"containers": [first, second], "resources": resources}


#: Per kind, a change that makes a valid object wrong, or a correct one that is completed in an unusual way.
WRONG: Final[dict[Kind[ApiObject], tuple[tuple[str, tuple[str, object]], ...]]] = {
    kinds.POD: (
        ("no containers", ("spec.containers", [])),
        ("a container without an image", ("spec.containers", [{"name": "c"}])),
        ("two containers of one name", ("spec.containers", [_CONTAINER, _CONTAINER])),
        ("an odd restart policy", ("spec.restartPolicy", "Odd")),
        ("an odd quantity", ("spec.containers.0.resources", {"requests": {"cpu": "1K"}})),
        ("requests above limits", ("spec.containers.0.resources", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
        ("an odd toleration", ("spec.tolerations", [{"operator": "Exists", "value": "x"}])),
        ("a number for a string", ("spec.nodeName", 5)),
        ("an unknown priority class", ("spec.priorityClassName", "nope")),
        ("a priority of its own", ("spec.priority", 5)),
        ("a mount of nothing", ("spec.containers.0.volumeMounts", [{"name": "v", "mountPath": "/x"}])),
        ("two volumes of one name", ("spec.volumes", [{"name": "v"}, {"name": "v"}])),
        ("an odd node selector", ("spec.nodeSelector", {"a b": "c"})),
        ("gates", ("spec.schedulingGates", [{"name": "example.com/g"}])),
        ("requests from limits", ("spec.containers.0.resources", {"limits": {"cpu": "0.1", "memory": "1.5Gi"}})),
        ("requests of the whole pod", ("spec.resources", {"requests": {"cpu": "2"}})),
        ("limits of the whole pod", ("spec.resources", {"limits": {"cpu": "2", "memory": "1Gi"}})),
        ("nothing of the whole pod", ("spec.resources", {})),
        ("requests of the whole pod for a device", ("spec.resources", {"requests": {"example.com/gpu": "1"}})),
        (
            "requests of the whole pod above its limits",
            ("spec.resources", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        ),
        ("requests of the whole pod below nothing", ("spec.resources", {"requests": {"memory": "-1"}})),
        ("an odd quantity for the whole pod", ("spec.resources", {"requests": {"cpu": "1K"}})),
        ("less for the whole pod than for a container", ("spec", _shared({"requests": {"cpu": "1"}}))),
        ("a limit of the whole pod below a container's", ("spec", _shared({"limits": {"cpu": "3", "memory": "1Gi"}}))),
        ("requests of the whole pod from its containers", ("spec", _shared({"limits": {"cpu": "5", "memory": "1Gi"}}))),
        ("requests of the whole pod for what its containers have", ("spec", _shared({"requests": {"memory": "1Gi"}}))),
        (
            "a limit and a request of the whole pod",
            ("spec", _shared({"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}})),
        ),
    ),
    kinds.CLAIM: (
        ("no access modes", ("spec.accessModes", [])),
        ("an odd access mode", ("spec.accessModes", ["Odd"])),
        ("no size", ("spec.resources", {})),
        ("no storage", ("spec.resources", {"requests": {"storage": "0"}})),
        ("an odd mode", ("spec.volumeMode", "Odd")),
        ("a single user beside others", ("spec.accessModes", ["ReadWriteOncePod", "ReadWriteOnce"])),
    ),
    kinds.VOLUME: (
        ("no source", ("spec.hostPath", ABSENT)),
        ("two sources", ("spec.local", {"path": "/y"})),
        ("no capacity", ("spec.capacity", ABSENT)),
        ("no access modes", ("spec.accessModes", [])),
        ("an odd policy", ("spec.persistentVolumeReclaimPolicy", "Odd")),
        ("an odd affinity", ("spec.nodeAffinity", {"required": {"nodeSelectorTerms": []}})),
    ),
    kinds.STORAGE_CLASS: (
        ("no provisioner", ("provisioner", ABSENT)),
        ("an odd mode", ("volumeBindingMode", "Odd")),
        ("an odd policy", ("reclaimPolicy", "Recycle")),
        ("an odd topology", ("allowedTopologies", [{"matchLabelExpressions": [{"key": "k", "values": []}]}])),
    ),
    kinds.DEPLOYMENT: (
        ("no selector", ("spec.selector", ABSENT)),
        ("an empty selector", ("spec.selector", {})),
        ("another selector", ("spec.selector.matchLabels", {"app": "b"})),
        ("negative replicas", ("spec.replicas", -1)),
        ("an odd strategy", ("spec.strategy", {"type": "Odd"})),
        ("no room to roll", ("spec.strategy", {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})),
        ("an odd share", ("spec.strategy", {"rollingUpdate": {"maxSurge": "a"}})),
        ("a short deadline", ("spec.progressDeadlineSeconds", 0)),
    ),
    kinds.DAEMON_SET: (
        ("no selector", ("spec.selector", ABSENT)),
        ("an odd strategy", ("spec.updateStrategy", {"type": "Odd"})),
        ("both ways", ("spec.updateStrategy", {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})),
    ),
    kinds.STATEFUL_SET: (
        ("no selector", ("spec.selector", ABSENT)),
        ("an odd policy", ("spec.podManagementPolicy", "Odd")),
        ("a negative partition", ("spec.updateStrategy", {"rollingUpdate": {"partition": -1}})),
    ),
    kinds.REPLICA_SET: (("no selector", ("spec.selector", ABSENT)), ("negative replicas", ("spec.replicas", -1))),
    kinds.DISRUPTION_BUDGET: (
        ("both bounds", ("spec.maxUnavailable", 1)),
        ("more than all", ("spec.minAvailable", "101%")),
        ("an odd share", ("spec.minAvailable", "a")),
        ("an odd policy", ("spec.unhealthyPodEvictionPolicy", "Odd")),
    ),
    kinds.PRIORITY_CLASS: (
        ("too high", ("value", 2000000000)),
        ("a system's name", ("metadata.name", "system-x")),
        ("an odd policy", ("preemptionPolicy", "Odd")),
    ),
    kinds.LEASE: (
        ("no duration", ("spec.leaseDurationSeconds", 0)),
        ("an odd moment", ("spec.renewTime", "2026-01-01T00:00:00Z")),
        ("negative transitions", ("spec.leaseTransitions", -1)),
    ),
    kinds.SERVICE: (
        ("no ports", ("spec.ports", ABSENT)),
        ("an odd type", ("spec.type", "Odd")),
        ("a port of none", ("spec.ports", [{"port": 0}])),
        ("two ports without names", ("spec.ports", [{"port": 80}, {"port": 81}])),
        ("a name with a digit first", ("metadata.name", "1a")),
    ),
    kinds.SECRET: (
        ("an odd key", ("stringData", {"a b": "v"})),
        ("data that is no base64", ("data", {"k": "?"})),
    ),
    kinds.CONFIG_MAP: (("an odd key", ("data", {"a b": "v"})), ("a number", ("data", {"k": 5}))),
    kinds.CSI_NODE: (
        ("a driver without a name", ("spec.drivers", [{"nodeID": "n"}])),
        ("one driver twice", ("spec.drivers", [{"name": "d.io", "nodeID": "n"}] * 2)),
    ),
    kinds.CSI_DRIVER: (("an odd life", ("spec.volumeLifecycleModes", ["Odd"])),),
    kinds.STORAGE_CAPACITY: (
        ("no class", ("storageClassName", ABSENT)),
        ("less than nothing", ("capacity", "-1Gi")),
        ("the provisioner's probe", ("metadata.name", "#%123-invalid-name")),
    ),
    kinds.VOLUME_ATTACHMENT: (("no source", ("spec.source", {})), ("no attacher", ("spec.attacher", ABSENT))),
    kinds.VOLUME_ATTRIBUTES_CLASS: (("no parameters", ("parameters", ABSENT)), ("no driver", ("driverName", ABSENT))),
    kinds.CONTROLLER_REVISION: (("no data", ("data", ABSENT)), ("a list of data", ("data", [1]))),
    kinds.EVENT: (("another namespace", ("involvedObject.namespace", "other")),),
    kinds.NEW_EVENT: (
        ("no time", ("eventTime", ABSENT)),
        ("no action", ("action", ABSENT)),
        ("an odd type", ("type", "Odd")),
    ),
    kinds.NODE: (
        ("an odd taint", ("spec.taints", [{"key": "k", "effect": "Odd"}])),
        ("one taint twice", ("spec.taints", [{"key": "k", "effect": "NoSchedule"}] * 2)),
    ),
    kinds.NAMESPACE: (("a long name", ("metadata.name", "a" * 64)),),
    kinds.REPLICATION_CONTROLLER: (("no template", ("spec.template", ABSENT)),),
}


def mistakes(kind: Kind[ApiObject]) -> Iterator[Request]:
    for label, change in WRONG.get(kind, ()):
        yield Request(
            f"{kind.plural}: create with {label}", "POST", f"{place(kind)}?dryRun=All", body_of(kind, "w", change)
        )


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
