"""Pods that wait because of nodes, other pods, or themselves."""

from builders import Body, node_body, pod_body
from explain.reason_rows.contract import N1, Row
from mooring.api import keys


def port(number: int) -> list[Body]:
    return [{"name": "main", "ports": [{"containerPort": number, "hostPort": number}]}]


def near(side: str, **labels: str) -> Body:
    term = {"topologyKey": keys.ZONE, "labelSelector": {"matchLabels": labels}}
    return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(key: str) -> list[Body]:
    selector = {"matchLabels": {"app": "web"}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


ABOUT_NODES = [
    Row(
        "Insufficient <resource>",
        [N1, pod_body(name="old", node="n1", requests={"cpu": "3500m"}), pod_body(requests={"cpu": "2"})],
        node="n1",
        figure="2 asked for, 500m of 4 free",
        now="a new node with 2 cpu free",
    ),
    Row(
        "Too many pods",
        [node_body(name="n1", allocatable={"pods": "1"}), pod_body(name="old", node="n1"), pod_body()],
        node="n1",
        figure="1 asked for, 0 of 1 free",
        now="move a pod off n1",
    ),
    Row(
        "node(s) were unschedulable",
        [node_body(name="n1", unschedulable=True), pod_body()],
        node="n1",
        figure="spec.unschedulable is true",
        now="kubectl uncordon n1",
    ),
    Row(
        "node(s) didn't match Pod's required features",
        [N1, pod_body(more_spec={"hostNetwork": True, "hostUsers": False})],
        node="n1",
        figure="does not declare UserNamespacesHostNetworkSupport",
        now="upgrade the kubelet of n1",
    ),
    Row(
        "node(s) had untolerated taint(s)",
        [node_body(name="n1", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]), pod_body()],
        node="n1",
        figure="gpu=yes:NoSchedule",
        now="let the pod tolerate gpu=yes:NoSchedule",
    ),
    Row(
        "node(s) didn't match Pod's node affinity/selector",
        [N1, pod_body(node_selector={keys.ZONE: "b", "disk": "ssd"})],
        node="n1",
        figure=f"the node has no disk, {keys.ZONE}=a",
        now=f"a new node with disk=ssd,{keys.ZONE}=b",
    ),
    Row(
        "node(s) didn't have free ports for the requested pod ports",
        [N1, pod_body(name="old", node="n1", containers=port(80)), pod_body(containers=port(80))],
        node="n1",
        figure="TCP 80 is default/old's",
        now="use another host port",
    ),
    Row(
        "node(s) didn't match pod topology spread constraints",
        [
            N1,
            node_body(name="n2", zone="b", unschedulable=True),
            *(pod_body(name=f"old-{each}", node="n1", labels={"app": "web"}) for each in range(2)),
            pod_body(labels={"app": "web"}, topology_spread=spread(keys.ZONE)),
        ],
        node="n1",
        figure=f"{keys.ZONE}=a has 2 such pods",
        now="be ScheduleAnyway",
    ),
    Row(
        "node(s) didn't match pod topology spread constraints (missing required label)",
        [N1, pod_body(labels={"app": "web"}, topology_spread=spread("rack"))],
        node="n1",
        figure="the node has no label rack",
        now="be ScheduleAnyway",
    ),
    Row(
        "node(s) didn't match pod affinity rules",
        [N1, pod_body(affinity=near("podAffinity", app="cache"))],
        node="n1",
        figure=f"wants a pod with app=cache in its {keys.ZONE}",
        now="prefer its podAffinity instead of requiring it",
    ),
    Row(
        "node(s) didn't match pod anti-affinity rules",
        [
            N1,
            pod_body(name="old", node="n1", labels={"app": "cache"}),
            pod_body(affinity=near("podAntiAffinity", app="cache")),
        ],
        node="n1",
        figure=f"{keys.ZONE}=a has default/old",
        now="prefer its podAntiAffinity instead of requiring it",
    ),
    Row(
        "node(s) didn't satisfy existing pods anti-affinity rules",
        [
            N1,
            pod_body(name="old", node="n1", affinity=near("podAntiAffinity", app="web")),
            pod_body(labels={"app": "web"}),
        ],
        node="n1",
        figure=f"{keys.ZONE}=a has default/old",
        now="kubectl -n default delete pod old",
    ),
    Row("no nodes available to schedule pods", [pod_body()], now="a new node"),
    Row(
        "Scheduling is blocked due to non-empty scheduling gates",
        [N1, pod_body(gates=["quota"])],
        figure="quota",
        now="Find out who sets the gates",
    ),
    Row(
        "mooring does not support resourceClaims yet",
        [N1, pod_body() | {"spec": {"resourceClaims": [{"name": "gpu"}]}}],
        now="Leave the pod to kube-scheduler",
    ),
    Row(
        "pod's affinity to other pods cannot be understood: <problem>",
        [N1, pod_body(affinity=near("podAffinity", app="not a label"))],
        figure="not a label",
        now="Create the pod again",
    ),
    Row(
        "pod's nodeSelector cannot be understood: <problem>",
        [N1, pod_body(node_selector={"disk": "not a label"})],
        figure="not a label",
        now="Create the pod again",
    ),
    Row(
        "node(s) didn't satisfy plugin(s) [<plugin>]",
        [
            N1,
            pod_body(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
                            ]
                        }
                    }
                }
            ),
        ],
        node="n1",
        now="let the pod ask for another node",
    ),
    Row(
        "pod affinity terms conflict",
        [
            N1,
            pod_body(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {"key": "metadata.name", "operator": "In", "values": [name]}
                                        for name in ("n1", "n2")
                                    ]
                                }
                            ]
                        }
                    }
                }
            ),
        ],
        now="Create the pod again",
    ),
    Row(
        "mooring does not support schedulingGroup yet: pods of a group are not placed one by one",
        [N1, pod_body() | {"spec": {"schedulingGroup": {"podGroupName": "training"}}}],
        now="Leave the pods of the group to kube-scheduler",
    ),
    Row(
        "pod's topology spread constraints cannot be understood: <problem>",
        [
            N1,
            pod_body(
                topology_spread=[
                    *spread("rack"),
                    spread("rack")[0] | {"labelSelector": {"matchLabels": {"app": "a b"}}},
                ]
            ),
        ],
        figure="a b",
        now="Create the pod again",
    ),
    Row(
        "pod's resource requests cannot be understood: <problem>",
        [N1, pod_body(requests={"cpu": "much"})],
        figure="much",
        now="amounts such as 500m",
    ),
]
