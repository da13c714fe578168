"""Invalid or unusual objects of every kind, to create on both servers.

Data for `test_api_differential`, beside `api_requests`.
"""

from collections.abc import Iterator
from typing import Final

from mooring.api import kinds
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from support.conformance.api_requests import CONTAINER, body_of, place
from support.conformance.server_pair import Json, Request
from support.server.harness import ABSENT


def _shared(resources: Json) -> Json:
    """Two containers with their own requests, in a pod with pod-level requests."""
    first = {**CONTAINER, "resources": {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "4"}}}
    second = {**CONTAINER, "name": "second", "resources": {"requests": {"cpu": "500m", "memory": "1536Ki"}}}
    return {"containers": [first, second], "resources": resources}


_VOLUME: Final[dict[str, Json]] = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
_AT_HOME: Final = {
    "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]}
}

_TEMPLATE: Final = {"name": "t", "schedulingPolicy": {"basic": {}}}
GROUP_MISTAKES: Final[tuple[tuple[str, tuple[str, object]], ...]] = (
    ("no spec", ("spec", ABSENT)),
    ("no policy", ("spec.schedulingPolicy", ABSENT)),
    ("two policies", ("spec.schedulingPolicy", {"basic": {}, "gang": {"minCount": 1}})),
    ("no quorum", ("spec.schedulingPolicy", {"gang": {}})),
    ("a quorum of less than none", ("spec.schedulingPolicy", {"gang": {"minCount": -1}})),
    ("a quorum of text", ("spec.schedulingPolicy", {"gang": {"minCount": "3"}})),
    ("pods one by one", ("spec.schedulingPolicy", {"basic": {}})),
    ("a topology", ("spec.schedulingConstraints", {"topology": [{"key": "example.com/rack"}]})),
    ("two topologies", ("spec.schedulingConstraints", {"topology": [{"key": "a"}, {"key": "b"}]})),
    ("an odd topology", ("spec.schedulingConstraints", {"topology": [{"key": "a b"}]})),
    ("a topology without a key", ("spec.schedulingConstraints", {"topology": [{}]})),
    ("a constraint that is empty", ("spec.schedulingConstraints", {})),
    ("all disrupted", ("spec.disruptionMode", {"all": {}})),
    ("two modes", ("spec.disruptionMode", {"all": {}, "single": {}})),
    ("an empty mode", ("spec.disruptionMode", {})),
    ("a workload", ("spec.workloadRef", {"workloadName": "w", "templateName": "t"})),
    ("an odd workload", ("spec.workloadRef", {"workloadName": "W w"})),
    ("an unknown class", ("spec.priorityClassName", "nope")),
    ("a class of an odd name", ("spec.priorityClassName", "N o")),
    ("a system's class", ("spec.priorityClassName", "system-node-critical")),
    ("a priority", ("spec.priority", 5)),
    ("its priority", ("spec.priority", 0)),
    ("a policy of preemption", ("spec.preemptionPolicy", "Odd")),
    ("a parent", ("spec.parentCompositePodGroupName", "p")),
    ("devices", ("spec.resourceClaims", [{"name": "r"}])),
    ("a status", ("status", {"conditions": [{"type": "X", "status": "True", "reason": "R", "message": ""}]})),
)
WORKLOAD_MISTAKES: Final[tuple[tuple[str, tuple[str, object]], ...]] = (
    ("no spec", ("spec", ABSENT)),
    ("no templates", ("spec.podGroupTemplates", [])),
    ("nine templates", ("spec.podGroupTemplates", [_TEMPLATE | {"name": f"t{n}"} for n in range(9)])),
    ("a template twice", ("spec.podGroupTemplates", [_TEMPLATE, _TEMPLATE])),
    ("a template without a name", ("spec.podGroupTemplates", [{"schedulingPolicy": {"basic": {}}}])),
    ("a template of an odd name", ("spec.podGroupTemplates", [_TEMPLATE | {"name": "a.b"}])),
    ("a template without a policy", ("spec.podGroupTemplates", [{"name": "t"}])),
    ("two priorities", ("spec.podGroupTemplates", [_TEMPLATE, _TEMPLATE | {"name": "u", "priority": 4}])),
    ("a priority that is too high", ("spec.podGroupTemplates", [_TEMPLATE | {"priority": 1000000001}])),
    ("an empty mode", ("spec.podGroupTemplates", [_TEMPLATE | {"disruptionMode": {}}])),
    ("a topology", ("spec.podGroupTemplates", [_TEMPLATE | {"schedulingConstraints": {"topology": [{"key": "r"}]}}])),
    ("a class of an odd name", ("spec.podGroupTemplates", [_TEMPLATE | {"priorityClassName": "N o"}])),
    ("a controller", ("spec.controllerRef", {"apiGroup": "batch", "kind": "Job", "name": "j"})),
    ("an odd controller", ("spec.controllerRef", {"apiGroup": "B b", "kind": "a/b"})),
    ("composite templates", ("spec.compositePodGroupTemplates", [{"name": "c", "schedulingPolicy": {"basic": {}}}])),
)

#: Per kind, a change that makes a valid object wrong, or a correct one that is completed in an unusual way.
WRONG: Final[dict[Kind[ApiObject], tuple[tuple[str, tuple[str, object]], ...]]] = {
    kinds.POD: (
        ("no containers", ("spec.containers", [])),
        ("a container without an image", ("spec.containers", [{"name": "c"}])),
        ("two containers of one name", ("spec.containers", [CONTAINER, CONTAINER])),
        ("an odd restart policy", ("spec.restartPolicy", "Odd")),
        ("an odd quantity", ("spec.containers.0.resources", {"requests": {"cpu": "1K"}})),
        ("requests above limits", ("spec.containers.0.resources", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
        ("an odd toleration", ("spec.tolerations", [{"operator": "Exists", "value": "x"}])),
        ("a number for a string", ("spec.nodeName", 5)),
        ("an unknown priority class", ("spec.priorityClassName", "nope")),
        ("a group", ("spec.schedulingGroup", {"podGroupName": "g"})),
        ("a group without a name", ("spec.schedulingGroup", {})),
        ("a group of an odd name", ("spec.schedulingGroup", {"podGroupName": "G g"})),
        ("a priority of its own", ("spec.priority", 5)),
        ("a mount of nothing", ("spec.containers.0.volumeMounts", [{"name": "v", "mountPath": "/x"}])),
        ("two volumes of one name", ("spec.volumes", [{"name": "v"}, {"name": "v"}])),
        *(
            (f"a volume of {source} that leads out", ("spec.volumes", [{"name": "v", source: what}]))
            for source, what in (
                ("hostPath", {"path": "/a/../../etc"}),
                ("hostPath", {"path": "/a", "type": "Odd"}),
                ("csi", {"driver": "../../../tmp/x"}),
                ("nfs", {"server": "s", "path": "../x"}),
                ("configMap", {"name": "c", "items": [{"key": "k", "path": "../../x"}]}),
                ("secret", {"secretName": "c", "items": [{"key": "k", "path": "/x"}]}),
                ("projected", {"sources": [{"configMap": {"name": "c", "items": [{"key": "k", "path": "..x"}]}}]}),
            )
        ),
        (
            "a mount that leads out of its volume",
            (
                "spec",
                {
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "containers": [
                        {**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "../../y"}]}
                    ],
                },
            ),
        ),
        ("an odd node selector", ("spec.nodeSelector", {"a b": "c"})),
        ("less than no grace", ("spec.terminationGracePeriodSeconds", -5)),
        ("an image volume of no image", ("spec.volumes", [{"name": "v", "image": {}}])),
        (
            "a token volume",
            (
                "spec",
                {
                    "serviceAccountName": "default",
                    "containers": [CONTAINER],
                    "volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
                },
            ),
        ),
        (
            "two names of its account",
            ("spec", {"containers": [CONTAINER], "serviceAccount": "x", "serviceAccountName": "y"}),
        ),
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
            "limits of every container of the whole pod",
            (
                "spec",
                {
                    "containers": [{**CONTAINER, "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}],
                    "resources": {"requests": {"cpu": "3"}},
                },
            ),
        ),
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
        *(
            (f"a source that {what}", ("spec", _VOLUME | source))
            for what, source in (
                ("leads to a driver elsewhere", {"csi": {"driver": "../../../tmp/x", "volumeHandle": "h"}}),
                ("names a driver at length", {"csi": {"driver": "d" * 64, "volumeHandle": "h"}}),
                ("names a driver in capitals", {"csi": {"driver": "D.Io", "volumeHandle": "h"}}),
                ("names no handle", {"csi": {"driver": "d.io"}}),
                ("has a handle that leads out", {"csi": {"driver": "d.io", "volumeHandle": "../../h"}}),
                (
                    "has a secret that leads out",
                    {"csi": {"driver": "d.io", "volumeHandle": "h", "nodePublishSecretRef": {"name": "../s"}}},
                ),
                ("leads out of its path", {"hostPath": {"path": "/a/../.."}}),
                ("is of an odd type", {"hostPath": {"path": "/a", "type": "Odd"}}),
                ("has a local path that leads out", {"local": {"path": "../a"}, "nodeAffinity": _AT_HOME}),
                ("has a relative export", {"nfs": {"server": "s", "path": "a"}}),
                ("is recycled with its node", {"hostPath": {"path": "//"}, "persistentVolumeReclaimPolicy": "Recycle"}),
            )
        ),
        ("an odd affinity", ("spec.nodeAffinity", {"required": {"nodeSelectorTerms": []}})),
    ),
    kinds.STORAGE_CLASS: (
        ("no provisioner", ("provisioner", ABSENT)),
        ("an odd mode", ("volumeBindingMode", "Odd")),
        ("an odd policy", ("reclaimPolicy", "Recycle")),
        ("an odd topology", ("allowedTopologies", [{"matchLabelExpressions": [{"key": "k", "values": []}]}])),
    ),
    kinds.DEPLOYMENT: (
        ("less than no grace", ("spec.template.spec.terminationGracePeriodSeconds", -5)),
        ("an image volume of no image", ("spec.template.spec.volumes", [{"name": "v", "image": {}}])),
        ("no selector", ("spec.selector", ABSENT)),
        ("an empty selector", ("spec.selector", {})),
        ("another selector", ("spec.selector.matchLabels", {"app": "b"})),
        ("negative replicas", ("spec.replicas", -1)),
        ("an odd strategy", ("spec.strategy", {"type": "Odd"})),
        ("neither surge nor unavailable", ("spec.strategy", {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})),
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
    **dict.fromkeys((kinds.POD_GROUP, kinds.POD_GROUP_ALPHA), GROUP_MISTAKES),
    **dict.fromkeys((kinds.WORKLOAD, kinds.WORKLOAD_ALPHA), WORKLOAD_MISTAKES),
    kinds.LEASE: (
        ("no duration", ("spec.leaseDurationSeconds", 0)),
        ("an odd moment", ("spec.renewTime", "2026-01-01T00:00:00Z")),
        ("the zero moment", ("spec.renewTime", "0001-01-01T00:00:00.000000Z")),
        ("a moment of the first year", ("spec.renewTime", "0001-01-01T00:00:00.500000Z")),
        ("a moment after the last year", ("spec.renewTime", "9999-12-31T23:59:59.000000-01:00")),
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
    kinds.CONFIG_MAP: (
        ("an odd key", ("data", {"a b": "v"})),
        ("a number", ("data", {"k": 5})),
    ),
    kinds.CSI_NODE: (
        ("a driver without a name", ("spec.drivers", [{"nodeID": "n"}])),
        ("a driver elsewhere", ("spec.drivers", [{"name": "../x", "nodeID": "n"}])),
        ("a driver of a long name", ("spec.drivers", [{"name": "d" * 64, "nodeID": "n"}])),
        ("a long name of the node", ("spec.drivers", [{"name": "d.io", "nodeID": "n" * 257}])),
        ("one driver twice", ("spec.drivers", [{"name": "d.io", "nodeID": "n"}] * 2)),
    ),
    kinds.CSI_DRIVER: (
        ("an odd life", ("spec.volumeLifecycleModes", ["Odd"])),
        ("a name that leads out", ("metadata.name", "../x")),
    ),
    kinds.STORAGE_CAPACITY: (
        ("no class", ("storageClassName", ABSENT)),
        ("less than nothing", ("capacity", "-1Gi")),
        ("the provisioner's probe", ("metadata.name", "#%123-invalid-name")),
    ),
    kinds.VOLUME_ATTACHMENT: (
        ("no source", ("spec.source", {})),
        ("no attacher", ("spec.attacher", ABSENT)),
        ("an attacher elsewhere", ("spec.attacher", "../x")),
        ("an attacher of a long name", ("spec.attacher", "d" * 64)),
        ("a volume elsewhere", ("spec.source", {"persistentVolumeName": "../x"})),
    ),
    kinds.VOLUME_ATTRIBUTES_CLASS: (("no parameters", ("parameters", ABSENT)), ("no driver", ("driverName", ABSENT))),
    kinds.CONTROLLER_REVISION: (("no data", ("data", ABSENT)), ("a list of data", ("data", [1]))),
    kinds.EVENT: (
        ("another namespace", ("involvedObject.namespace", "other")),
        ("the zero moment", ("lastTimestamp", "0001-01-01T00:00:00Z")),
        ("a fraction of the zero moment", ("lastTimestamp", "0001-01-01T00:00:00.5Z")),
        ("a moment of the first year", ("lastTimestamp", "0001-01-01T00:00:01Z")),
        ("a fraction before 1970", ("lastTimestamp", "1969-12-31T23:59:58.5Z")),
        ("a moment after the last year", ("lastTimestamp", "9999-12-31T23:59:59-01:00")),
        ("a moment before the first year", ("lastTimestamp", "0001-01-01T00:00:00+01:00")),
    ),
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
