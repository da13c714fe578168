"""Nodes: what they have left, and what they say to pods that wait."""

import pytest

from builders import Body, capacity_body, claim_body, class_body, csi_node_body, node_body, pod_body, volume_body
from builders.drivers import DRIVER
from explain.worlds import listed
from mooring.api import keys
from mooring.api.kinds import NODE
from mooring.explain.node import explain_node
from mooring.explain.situation import Situation
from mooring.explain.verdicts import DriverUse, NodeStanding, ResourceUse


def told(*bodies: Body, name: str = "n1") -> NodeStanding:
    objects = listed(*bodies)
    node = objects.get(NODE, name)
    assert node is not None
    return explain_node(Situation(objects), node)


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def silent() -> Body:
    body = node_body(name="n1", ready=False)
    body["status"]["conditions"][0] |= {"lastTransitionTime": "2026-11-02T10:00:00Z", "message": "Kubelet is silent"}
    return body


@pytest.mark.parametrize(
    ("node", "verdict", "helps"),
    [
        pytest.param(node_body(name="n1"), "n1 takes pods.", (), id="well"),
        pytest.param(
            node_body(name="n1", unschedulable=True),
            "n1 takes no pods: it is cordoned.",
            ("kubectl uncordon n1",),
            id="cordoned",
        ),
        pytest.param(
            node_body(name="n1", taints=[TAINT]),
            "n1 takes no pods: taint gpu:NoSchedule.",
            ("let pods tolerate gpu=yes:NoSchedule, or kubectl taint node n1 gpu:NoSchedule-",),
            id="tainted",
        ),
        pytest.param(
            silent(),
            "n1 takes no pods: it is not ready since 2026-11-02T10:00:00Z: Kubelet is silent.",
            (),
            id="not ready",
        ),
    ],
)
def test_whether_it_takes_pods(node: Body, verdict: str, helps: tuple[str, ...]) -> None:
    standing = told(node)
    assert (standing.verdict, standing.helps) == (verdict, helps)
    assert standing.ok == (not verdict.startswith("n1 takes no"))


def test_what_it_has_left_and_who_waits() -> None:
    standing = told(
        node_body(name="n1", zone="a", allocatable={"example.com/gpu": "2"}),
        node_body(name="n2", zone="b"),
        csi_node_body(name="n1", limits={DRIVER: 25, "free.example.com": None}),
        class_body(),
        volume_body(name="here", node="n1"),
        volume_body(name="there", node="n2"),
        volume_body(name="anywhere"),
        capacity_body(topology={"matchLabels": {keys.ZONE: "a"}}, capacity="3Gi"),
        capacity_body(name="other", topology={"matchLabels": {keys.ZONE: "b"}}, capacity="9Gi"),
        claim_body(name="data"),
        pod_body(name="old", node="n1", requests={"cpu": "500m", "memory": "1Gi"}),
        pod_body(name="fits"),
        pod_body(name="huge", requests={"cpu": "9"}),
        pod_body(name="gated", gates=["quota"]),
    )
    assert standing.verdict == "n1 takes pods; 2 of 3 waiting pods do not fit there."
    assert standing.resources == (
        ResourceUse("cpu", "500m", "4"),
        ResourceUse("memory", "1Gi", "8Gi"),
        ResourceUse("pods", "1", "110"),
        ResourceUse("example.com/gpu", "0", "2"),
    )
    assert standing.drivers == (DriverUse(DRIVER, 0, 25),)
    assert standing.volumes == ("here",)
    assert [room.detail for room in standing.rooms] == ["class made: 3Gi"]
    assert standing.pending["default/fits"] == ()
    [huge] = standing.pending["default/huge"]
    assert (huge.reason, huge.detail) == ("Insufficient cpu", "9 asked for, 3500m of 4 free")
    assert [one.plugin for one in standing.pending["default/gated"]] == ["SchedulingGates"]


def test_what_would_be_lost_with_its_zone() -> None:
    """Told before it happens: a pod whose volume is in this zone only, and not one that could go elsewhere."""
    zones = [
        node_body(name=name, labels={keys.ZONE: zone, keys.HOSTNAME: name}) for name, zone in (("n1", "a"), ("n2", "b"))
    ]
    bound = claim_body(name="data", volume="disk", bound=True, phase="Bound", storage_class="local")
    disk = volume_body(name="disk", node="n1", claim_ref={"namespace": "default", "name": "data"}, phase="Bound")
    pods = [pod_body(name="db", claims=["data"], node="n1"), pod_body(name="web", node="n1")]
    standing = told(*zones, class_body(name="local"), bound, disk, *pods)
    assert standing.notes == ("if zone a is lost, db cannot run anywhere else, since its volumes are only there.",)
