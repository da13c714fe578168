"""Pods that are pending because of nodes, other pods, or their own spec."""

from mooring.api import well_known
from mooring.api.kinds import POD_GROUP
from support.builders import Body, node_body, pod_body
from support.explain.reason_rows.contract import N1, Row


def port(number: int) -> list[Body]:
    return [{"name": "main", "ports": [{"containerPort": number, "hostPort": number}]}]


def near(side: str, **labels: str) -> Body:
    term = {"topologyKey": well_known.ZONE, "labelSelector": {"matchLabels": labels}}
    return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(key: str) -> list[Body]:
    selector = {"matchLabels": {"app": "web"}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


ABOUT_NODES = [
    Row(
        "Insufficient <resource>",
        [N1, pod_body(name="old", node="n1", requests={"cpu": "3500m"}), pod_body(requests={"cpu": "2"})],
        node="n1",
        figure="2 requested, 500m of 4 free",
        now="a new node with 2 cpu free",
    ),
    Row(
        "Too many pods",
        [node_body(name="n1", allocatable={"pods": "1"}), pod_body(name="old", node="n1"), pod_body()],
        node="n1",
        figure="1 requested, 0 of 1 free",
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
        now="add to the pod a toleration of gpu=yes:NoSchedule",
    ),
    Row(
        "node(s) didn't match Pod's node affinity/selector",
        [N1, pod_body(node_selector={well_known.ZONE: "b", "disk": "ssd"})],
        node="n1",
        figure=f"the node has no disk, {well_known.ZONE}=a",
        now=f"a new node with disk=ssd,{well_known.ZONE}=b",
    ),
    Row(
        "node(s) didn't have free ports for the requested pod ports",
        [N1, pod_body(name="old", node="n1", containers=port(80)), pod_body(containers=port(80))],
        node="n1",
        figure="TCP 80 is used by default/old",
        now="use another host port",
    ),
    Row(
        "node(s) didn't match pod topology spread constraints",
        [
            N1,
            node_body(name="n2", zone="b", unschedulable=True),
            *(pod_body(name=f"old-{each}", node="n1", labels={"app": "web"}) for each in range(2)),
            pod_body(labels={"app": "web"}, topology_spread=spread(well_known.ZONE)),
        ],
        node="n1",
        figure=f"{well_known.ZONE}=a has 2 matching pods",
        now="to ScheduleAnyway",
    ),
    Row(
        "node(s) didn't match pod topology spread constraints (missing required label)",
        [N1, pod_body(labels={"app": "web"}, topology_spread=spread("rack"))],
        node="n1",
        figure="the node has no label rack",
        now="to ScheduleAnyway",
    ),
    Row(
        "node(s) didn't match pod affinity rules",
        [N1, pod_body(affinity=near("podAffinity", app="cache"))],
        node="n1",
        figure=f"requires a pod with app=cache in the same {well_known.ZONE}",
        now="podAffinity preferred instead of required",
    ),
    Row(
        "node(s) didn't match pod anti-affinity rules",
        [
            N1,
            pod_body(name="old", node="n1", labels={"app": "cache"}),
            pod_body(affinity=near("podAntiAffinity", app="cache")),
        ],
        node="n1",
        figure=f"{well_known.ZONE}=a has default/old",
        now="podAntiAffinity preferred instead of required",
    ),
    Row(
        "node(s) didn't satisfy existing pods anti-affinity rules",
        [
            N1,
            pod_body(name="old", node="n1", affinity=near("podAntiAffinity", app="web")),
            pod_body(labels={"app": "web"}),
        ],
        node="n1",
        figure=f"{well_known.ZONE}=a has default/old",
        now="kubectl -n default delete pod old",
    ),
    Row("no nodes available to schedule pods", [pod_body()], now="a new node"),
    Row(
        "Scheduling is blocked due to non-empty scheduling gates",
        [N1, pod_body(gates=["quota"])],
        figure="quota",
        now="Find out which controller sets the gates",
    ),
    Row(
        "mooring does not support resourceClaims yet",
        [N1, pod_body() | {"spec": {"resourceClaims": [{"name": "gpu"}]}}],
        now="Leave the pod to kube-scheduler",
    ),
    Row(
        "pod's affinity to other pods cannot be parsed: <problem>",
        [N1, pod_body(affinity=near("podAffinity", app="not a label"))],
        figure="not a label",
        now="Create the pod again",
    ),
    Row(
        "pod's nodeSelector cannot be parsed: <problem>",
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
        now="change the pod's node affinity",
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
        "mooring does not support schedulingGroup yet: pods of a group are not scheduled one by one",
        [N1, pod_body() | {"spec": {"schedulingGroup": {"podGroupName": "training"}}}],
        now="Leave the pods of the group to kube-scheduler",
        unlisted={POD_GROUP: "not served by the API server"},
    ),
    Row(
        "pod's topology spread constraints cannot be parsed: <problem>",
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
        "pod's resource requests cannot be parsed: <problem>",
        [N1, pod_body(requests={"cpu": "much"})],
        figure="much",
        now="quantities such as 500m",
    ),
]
