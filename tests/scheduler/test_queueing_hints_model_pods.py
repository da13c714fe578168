"""A schedulable pod is always requeued: as `test_queueing_hints_model`, for nodes and other pods.

Nodes come, go, are relabelled, tainted, cordoned and resized; pods come, go, finish, are relabelled and resized, want
to be near others or away from them, hold ports and disks; namespaces are relabelled.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import kinds, well_known
from mooring.api.pod_requirements import RESTART_ALL
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from support.builders import Body, a_node, a_pod, metadata, viewed
from support.scheduler.queue_cluster import QueueCluster

pytestmark = [pytest.mark.req("T26.volumes"), pytest.mark.level("u")]

TAINT = {"key": "kept", "value": "for", "effect": "NoSchedule"}
TOLERATES = {"key": "kept", "operator": "Exists"}
DISK = {"name": "disk", "awsElasticBlockStore": {"volumeID": "v"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def term(app: str, key: str, **more: Body) -> Body:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def near(*terms: Body) -> Body:
    return {"podAffinity": {REQUIRED: list(terms)}}


def away_from(*terms: Body) -> Body:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def spread(key: str, **more: object) -> list[Body]:
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **selector, **more}]


def port(number: int) -> list[Body]:
    return [{"name": "main", "image": "main", "ports": [{"containerPort": number, "hostPort": number}]}]


def namespace_body(*, team: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name="other", labels={"team": team})}


a_namespace = viewed(kinds.NAMESPACE, namespace_body)

#: Every object there may be, in the states it may be in; None for not being there.
WORLD: dict[str, Sequence[ApiObject | None]] = {
    **{
        f"node {name}": [
            None,
            a_node(name=name, zone="a"),
            a_node(name=name, zone="b"),
            a_node(name=name, labels={"disk": "ssd"}),
            a_node(name=name, zone="a", features=[RESTART_ALL]),
            a_node(name=name, zone="a", taints=[TAINT]),
            a_node(name=name, zone="b", unschedulable=True),
            a_node(name=name, zone="b", allocatable={"cpu": "2"}),
            a_node(name=name, zone="a", allocatable={"pods": "1"}),
        ]
        for name in ("n1", "n2", "n3")
    },
    **{
        f"pod on {node}": [
            None,
            # One and the same pod: these fields may change.
            a_pod(name=f"on-{node}", node=node, labels={"app": "web"}),
            a_pod(name=f"on-{node}", node=node, labels={"app": "web"}, deleting=True),
            a_pod(name=f"on-{node}", node=node, labels={"app": "web"}, phase="Succeeded"),
            a_pod(name=f"on-{node}", node=node, labels={"app": "db"}, requests={"cpu": "3"}),
            a_pod(name=f"on-{node}", node=node, labels={"app": "db"}, requests={"cpu": "1"}),
            a_pod(name=f"on-{node}", node=node, labels={"app": "solo"}),
            # Others under its name.
            a_pod(name=f"on-{node}", node=node, affinity=away_from(term("web", well_known.ZONE)), uid="away from web"),
            a_pod(
                name=f"on-{node}",
                node=node,
                affinity=away_from(term("solo", well_known.HOSTNAME)),
                uid="away from solo",
            ),
            a_pod(name=f"on-{node}", node=node, containers=port(80), uid="has a port"),
            a_pod(name=f"on-{node}", node=node, volumes=[DISK], uid="has a disk"),
        ]
        for node in ("n1", "n2", "n3")
    },
    "pod elsewhere": [
        None,
        a_pod(name="elsewhere", namespace="other", node="n1", labels={"app": "web"}),
        a_pod(
            name="elsewhere",
            namespace="other",
            node="n2",
            uid="away from web",
            affinity=away_from(term("web", well_known.ZONE, namespaceSelector={})),
        ),
    ],
    "namespace": [None, a_namespace(team="a"), a_namespace(team="b")],
}
PODS = (
    a_pod(name="large", requests={"cpu": "3"}),
    a_pod(name="port", containers=port(80)),
    a_pod(name="near", affinity=near(term("web", well_known.ZONE))),
    a_pod(name="near-both", affinity=near(term("web", well_known.ZONE), term("web", well_known.HOSTNAME))),
    a_pod(
        name="near-others",
        affinity=near(term("web", well_known.HOSTNAME, namespaceSelector={"matchLabels": {"team": "a"}})),
    ),
    a_pod(name="solo", labels={"app": "solo"}, affinity=near(term("solo", well_known.ZONE))),
    a_pod(name="away", affinity=away_from(term("web", well_known.HOSTNAME))),
    a_pod(
        name="away-from-others",
        affinity=away_from(term("web", well_known.ZONE, namespaceSelector={"matchLabels": {"team": "a"}})),
    ),
    a_pod(name="web", labels={"app": "web"}),
    a_pod(name="spread", labels={"app": "web"}, topology_spread=spread(well_known.ZONE)),
    a_pod(name="spread-far", labels={"app": "web"}, topology_spread=spread(well_known.HOSTNAME, minDomains=3)),
    a_pod(
        name="spread-clean",
        labels={"app": "web"},
        topology_spread=spread(well_known.HOSTNAME, nodeTaintsPolicy="Honor"),
    ),
    a_pod(name="picky", node_selector={"disk": "ssd"}),
    a_pod(name="tolerant", tolerations=[TOLERATES], requests={"cpu": "3"}),
    a_pod(name="disk", volumes=[DISK]),
    a_pod(
        name="restarts",
        containers=[{"name": "c", "image": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}],
    ),
)

EVENTS = st.one_of(
    *(st.tuples(st.just(key), st.sampled_from(states)) for key, states in WORLD.items()),
    st.tuples(st.just("recreate"), st.sampled_from(PODS)),
)


def settle(cluster: QueueCluster) -> None:
    cluster.schedule_all()
    while cluster.confirm_bindings():
        cluster.schedule_all()


@settings(max_examples=300)
@given(
    st.fixed_dictionaries({key: st.sampled_from(states) for key, states in WORLD.items()}),
    st.lists(st.sampled_from(PODS), min_size=1, max_size=4, unique_by=lambda pod: pod.name),
    st.lists(EVENTS, max_size=12),
)
def test_schedulable_pod_is_always_requeued(
    start: dict[str, ApiObject | None], pods: list[Pod], events: list[tuple[str, ApiObject | None]]
) -> None:
    cluster = QueueCluster(pods)
    for key, state in start.items():
        cluster.set_object(key, state)
    cluster.start()
    settle(cluster)
    for key, state in events:
        if key == "recreate" and isinstance(state, Pod):
            cluster.recreate(state)
        else:
            cluster.set_object(key, state)
        for pod in cluster.unschedulable_pods():
            node = cluster.decide(pod)[1].node
            assert not node, f"{pod.key} not requeued by {key}: {node} is feasible"
        settle(cluster)
