"""Nobody sleeps who could be placed: after any event, every pod that was left parked is one that no node takes.

Waking everybody after every event would be right and slow; this compares with it. Nodes, classes, drivers, what they
report, volumes and claims come, change and go at random, pods are promised volumes and give them back. More than that:
VolumeBinding and VolumeZone, where they had rejected a sleeping pod, take back their no to no node, since preemption
might have made use of it, and no claim could be unbound for its sake that could not before.
"""

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import (
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
from builders.drivers import DRIVER
from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject, Condition
from mooring.api.views.pod import Pod
from mooring.scheduler.unbinding import in_the_way
from mooring.volumes.clean_claims import CLEAN
from mooring.volumes.nodeset import EMPTY
from scheduler.sleeping_cluster import PROFILE, Cluster, rejections

pytestmark = [pytest.mark.req("T26.volumes"), pytest.mark.level("u")]

OTHER = "other.csi.example.com"
EBS = {"awsElasticBlockStore": {"volumeID": "v"}}
AT_NODE = ({"matchLabels": {keys.HOSTNAME: "n1"}}, {"matchLabels": {keys.HOSTNAME: "n2"}})

BY_CONTROLLER = {keys.BOUND_BY_CONTROLLER: keys.YES}


def clean(claim: Claim) -> Claim:
    """One that was bound, and whose volume nobody has used."""
    status = msgspec.structs.replace(claim.status, conditions=(Condition(type=CLEAN, status="True"),))
    return msgspec.structs.replace(claim, status=status)


#: Every object there may be, in the states it may be in; None for not being there.
WORLD: dict[str, Sequence[ApiObject | None]] = {
    "node n1": [a_node(name="n1", labels={keys.ZONE: zone}) for zone in "ab"],
    "node n2": [None, a_node(name="n2", labels={keys.ZONE: "b", "topology.ebs.csi.aws.com/zone": "a"})],
    "class local": [None, a_class(name="local")],
    "class made": [
        None,
        a_class(name="made", provisioner=DRIVER),
        a_class(name="made", provisioner=DRIVER, allowed_topologies=[{keys.ZONE: ["b"]}]),
        a_class(name="made", provisioner=OTHER, uid="another"),
        a_class(name="made", provisioner=DRIVER, annotations={keys.CAPACITY_USE: keys.CAPACITY_ADDITIVE}),
    ],
    "class also": [
        a_class(name="also", provisioner=DRIVER),
        a_class(name="also", provisioner=DRIVER, annotations={keys.CAPACITY_POOL: "its own"}),
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
            a_volume(name=name, storage_class=storage_class, labels={"kind": "fast", keys.ZONE: "b"}),
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
            a_volume(name=name, annotations={keys.STORAGE_CLASS_BETA: "made"}, storage_class=storage_class),
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
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": keys.ZONE, "operator": "In", "values": ["a"]}]}]
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
    st.tuples(st.just("give back"), st.sampled_from(PODS)),
)


@settings(max_examples=300)
@given(
    st.fixed_dictionaries({key: st.sampled_from(states) for key, states in WORLD.items()}),
    st.lists(EVENTS, max_size=12),
)
def test_no_pod_that_could_be_placed_stays_asleep(
    start: dict[str, ApiObject | None], events: list[tuple[str, ApiObject | None]]
) -> None:
    cluster = Cluster(PODS)
    for key, state in start.items():
        cluster.happens(key, state)
    cluster.start()
    for key, state in events:
        if isinstance(state, Pod):
            cluster.give_back(state)
        else:
            cluster.happens(key, state)
        for pod in cluster.sleeping():
            attempt, decision = cluster.decide(pod)
            assert not decision.node, f"{pod.key} sleeps through {key}: {decision.node} would take it"
            for plugin, nodes in cluster.rejected[pod.key].items():
                better = nodes & ~rejections(decision, cluster.snapshot).get(plugin, EMPTY) & cluster.snapshot.nodes
                assert not better, f"{pod.key} sleeps through {key}: {plugin} has changed its mind"
            if pod.key not in cluster.unbinds:
                helps = in_the_way(attempt, PROFILE, random.Random(0))
                assert not helps, f"{pod.key} sleeps through {key}: its claims could be unbound for it"
        cluster.try_all()
