"""Objects that the server takes as they are: what nonsense begins with."""

from typing import Any, Final

from mooring.api import kinds
from mooring.api.kinds import Kind
from support.builders import (
    attachment_body,
    capacity_body,
    claim_body,
    class_body,
    csi_node_body,
    driver_body,
    node_body,
    pod_body,
    volume_body,
)

_TEMPLATE: Final = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
_SELECTOR: Final = {"matchLabels": {"a": "b"}}
_ROLE: Final = {"kind": "ClusterRole", "name": "view"}
_RULES: Final = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
_ASKED: Final = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
_AFFINITY: Final = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
        }
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": _SELECTOR, "topologyKey": "zone"}]
    },
}

GOOD: Final[dict[Kind[Any], dict[str, Any]]] = {
    kinds.POD: pod_body(name="a", claims=("data",), affinity=_AFFINITY, requests={"cpu": "1"}),
    kinds.CLAIM: claim_body(name="a"),
    kinds.VOLUME: volume_body(name="a"),
    kinds.STORAGE_CLASS: class_body(name="a"),
    kinds.NODE: node_body(name="a"),
    kinds.CSI_DRIVER: driver_body(name="a"),
    kinds.CSI_NODE: csi_node_body(name="a"),
    kinds.STORAGE_CAPACITY: capacity_body(name="a"),
    kinds.VOLUME_ATTACHMENT: attachment_body(name="a"),
    kinds.NAMESPACE: {"metadata": {"name": "a"}},
    kinds.CONFIG_MAP: {"data": {"a": "b"}, "binaryData": {"c": "YQ=="}},
    kinds.SECRET: {"data": {"a": "YQ=="}, "stringData": {"b": "c"}, "type": "Opaque"},
    kinds.SERVICE: {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "name": "web"}]}},
    kinds.STATEFUL_SET: {
        "spec": {
            "selector": _SELECTOR,
            "serviceName": "s",
            "replicas": 2,
            "template": _TEMPLATE,
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": claim_body()["spec"]}],
        }
    },
    kinds.DEPLOYMENT: {"spec": {"selector": _SELECTOR, "template": _TEMPLATE, "replicas": 1}},
    kinds.REPLICA_SET: {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    kinds.DAEMON_SET: {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    kinds.DISRUPTION_BUDGET: {"spec": {"selector": _SELECTOR, "minAvailable": 1}},
    kinds.PRIORITY_CLASS: {"value": 5, "description": "d"},
    kinds.LEASE: {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    kinds.EVENT: {"involvedObject": {"namespace": "default", "name": "a", "kind": "Pod"}, "reason": "R", "count": 1},
    kinds.ROLE: {"rules": _RULES},
    kinds.CLUSTER_ROLE: {"rules": _RULES, "aggregationRule": {"clusterRoleSelectors": [_SELECTOR]}},
    kinds.ROLE_BINDING: {"roleRef": _ROLE, "subjects": [{"kind": "User", "name": "u"}]},
    kinds.CLUSTER_ROLE_BINDING: {"roleRef": _ROLE, "subjects": [{"kind": "Group", "name": "g"}]},
    kinds.SELF_ACCESS_REVIEW: {"spec": _ASKED},
    kinds.ACCESS_REVIEW: {"spec": _ASKED | {"user": "u", "extra": {"a": ["b"]}}},
    kinds.LOCAL_ACCESS_REVIEW: {"spec": _ASKED | {"user": "u"}},
    kinds.SELF_RULES_REVIEW: {"spec": {"namespace": "default"}},
    kinds.TOKEN_REVIEW: {"spec": {"token": "t", "audiences": ["a"]}},
}
