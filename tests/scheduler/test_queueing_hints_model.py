"""A schedulable pod is always requeued: after any event, no node fits a pod that is still unschedulable.

Retrying every pod after every event would be correct and slow; this compares with it. Nodes, classes, capacity,
volumes and claims change at random; pods get volumes reserved and lose them. Besides, VolumeBinding and VolumeZone keep
rejecting the nodes they had rejected, since preemption depends on it, and no further claim could be rolled back.
"""

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.views.meta import ApiObject, Condition
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.scheduler.binding.claim_rollback import blocking_claims
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.claim_rollback import CLEAN
from mooring.volumes.topology import EMPTY
from support.builders import (
    a_capacity,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_node,
    a_pod,
    a_volume,
    claim_ref,
    owned_by,
    pod_body,
)
from support.builders.drivers import DRIVER
from support.scheduler.queue_cluster import QueueCluster, rejections

pytestmark = [pytest.mark.req("T26.volumes"), pytest.mark.level("u")]

OTHER = "other.csi.example.com"
EBS = {"awsElasticBlockStore": {"volumeID": "v"}}
AT_NODE = ({"matchLabels": {well_known.HOSTNAME: "n1"}}, {"matchLabels": {well_known.HOSTNAME: "n2"}})

BY_CONTROLLER = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}


def clean(claim: Claim) -> Claim:
    """With the condition that no pod has used its volume."""
    status = msgspec.structs.replace(claim.status, conditions=(Condition(type=CLEAN, status="True"),))
    return msgspec.structs.replace(claim, status=status)


#: Every object there may be, in the states it may be in; None for not being there.
WORLD: dict[str, Sequence[ApiObject | None]] = {
    "node n1": [a_node(name="n1", labels={well_known.ZONE: zone}) for zone in "ab"],
    "node n2": [None, a_node(name="n2", labels={well_known.ZONE: "b", "topology.ebs.csi.aws.com/zone": "a"})],
    "class local": [None, a_class(name="local")],
    "class made": [
        None,
        a_class(name="made", provisioner=DRIVER),
        a_class(name="made", provisioner=DRIVER, allowed_topologies=[{well_known.ZONE: ["b"]}]),
        a_class(name="made", provisioner=OTHER, uid="another"),
        a_class(name="made", provisioner=DRIVER, annotations={well_known.CAPACITY_USE: well_known.CAPACITY_ADDITIVE}),
    ],
    "class also": [
        a_class(name="also", provisioner=DRIVER),
        a_class(name="also", provisioner=DRIVER, annotations={well_known.CAPACITY_POOL: "its own"}),
        a_class(name="also", binding_mode="Immediate", uid="another"),
    ],
    "driver": [None, a_driver(tracks_capacity=True), a_driver(tracks_capacity=False, required=True)],
    "csi node n1": [
        None,
        a_csi_node(name="n1", limits={DRIVER: 0}),
        a_csi_node(name="n1", limits={DRIVER: 1, OTHER: 0}),
        a_csi_node(name="n1", limits={DRIVER: None}, migrated="kubernetes.io/aws-ebs"),
    ],
    "csi node n2": [None, a_csi_node(name="n2", limits={DRIVER: 0}, migrated="kubernetes.io/aws-ebs")],
    **{
        f"capacity {name}": [
            None,
            *(
                a_capacity(name=name, storage_class=storage_class, topology=topology, capacity=free, largest=largest)
                for free, largest in (("1Gi", None), ("5Gi", None), ("20Gi", "5Gi"), ("much", None))
            ),
        ]
        for name, storage_class, topology in (
            ("made-1", "made", AT_NODE[0]),
            ("made-2", "made", AT_NODE[1]),
            ("also-1", "also", AT_NODE[0]),
        )
    },
    **{
        f"volume {name}": [
            None,
            a_volume(name=name, storage_class=storage_class, node=node),
            a_volume(name=name, storage_class=storage_class, size="1Gi"),
            a_volume(name=name, storage_class=storage_class, size="much"),
            a_volume(name=name, storage_class=storage_class, phase="Released"),
            a_volume(name=name, storage_class=storage_class, deleting=True),
            a_volume(name=name, storage_class=storage_class, labels={"kind": "fast", well_known.ZONE: "b"}),
            a_volume(name=name, storage_class=storage_class, claim_ref=claim_ref(name="c1"), node="n2"),
            a_volume(name=name, storage_class=storage_class, claim_ref=claim_ref(name="c2", uid="uid-c2")),
            a_volume(name=name, storage_class=storage_class, claim_ref=claim_ref(name="c2", uid="gone")),
            a_volume(
                name=name,
                storage_class=storage_class,
                claim_ref=claim_ref(name="c2", uid="uid-c2"),
                node="n2",
                annotations=BY_CONTROLLER,
            ),
            a_volume(name=name, annotations={well_known.STORAGE_CLASS_BETA: "made"}, storage_class=storage_class),
            a_volume(
                name=name,
                storage_class=storage_class,
                source={"csi": {"driver": OTHER, "volumeHandle": name}},
                node=node,
            ),
            a_volume(
                name=name,
                storage_class=storage_class,
                source=EBS,
                affinity={
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": well_known.ZONE, "operator": "In", "values": ["a"]}]}
                    ]
                },
            ),
        ]
        for name, storage_class, node in (("v1", "local", "n1"), ("v2", "made", "n2"), ("v3", "made", "n1"))
    },
    **{
        f"claim {name}": [
            None,
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}"),
            a_claim(name=name, storage_class=storage_class, uid=f"anew-{name}", size="1Gi"),
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}", selected_node="n2"),
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}", volume="v2", bound=True),
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}", volume="v1", bound=True),
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}", volume="v3"),
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}", volume="v2", bound=True, phase="Lost"),
            a_claim(
                name=name,
                storage_class=storage_class,
                uid=f"uid-{name}",
                selector={"matchLabels": {"kind": "fast"}},
            ),
            a_claim(name=name, storage_class="", uid=f"uid-{name}"),
            clean(
                a_claim(
                    name=name,
                    storage_class=storage_class,
                    uid=f"uid-{name}",
                    volume="v2",
                    bound=True,
                    annotations=BY_CONTROLLER,
                )
            ),
        ]
        for name, storage_class in (("c1", "local"), ("c2", "made"), ("c3", "also"))
    },
    "claim mine": [
        None,
        a_claim(name="own-x", storage_class="made", owners=[owned_by(pod_body(name="own"), uid="own")]),
        a_claim(name="own-x", storage_class="made"),
    ],
}
PODS = (
    a_pod(name="one", claims=["c1"]),
    a_pod(name="two", claims=["c2"]),
    a_pod(name="both", claims=["c1", "c2"]),
    a_pod(name="also", claims=["c2", "c3"]),
    a_pod(name="own", uid="own", ephemeral=["x"]),
    a_pod(name="disk", volumes=[{"name": "disk"} | EBS]),
)
EVENTS = st.one_of(
    *(st.tuples(st.just(key), st.sampled_from(states)) for key, states in WORLD.items()),
    st.tuples(st.just("unreserve"), st.sampled_from(PODS)),
)


@settings(max_examples=300)
@given(
    st.fixed_dictionaries({key: st.sampled_from(states) for key, states in WORLD.items()}),
    st.lists(EVENTS, max_size=12),
)
def test_schedulable_pod_is_always_requeued(
    start: dict[str, ApiObject | None], events: list[tuple[str, ApiObject | None]]
) -> None:
    cluster = QueueCluster(PODS)
    for key, state in start.items():
        cluster.set_object(key, state)
    cluster.start()
    for key, state in events:
        if isinstance(state, Pod):
            cluster.unreserve(state)
        else:
            cluster.set_object(key, state)
        for pod in cluster.unschedulable_pods():
            attempt, decision = cluster.decide(pod)
            assert not decision.node, f"{pod.key} not requeued by {key}: {decision.node} is feasible"
            for plugin, nodes in cluster.rejected[pod.key].items():
                better = nodes & ~rejections(decision, cluster.snapshot).get(plugin, EMPTY) & cluster.snapshot.nodes
                assert not better, f"{pod.key} not requeued by {key}: the result of {plugin} changed"
            if pod.key not in cluster.claim_rollbacks:
                helps = blocking_claims(attempt, DEFAULT, random.Random(0))
                assert not helps, f"{pod.key} not requeued by {key}: a claim rollback would help"
        cluster.schedule_all()
