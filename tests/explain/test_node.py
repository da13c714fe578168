"""Nodes: what they have left, and what they say to pods that wait."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import NODE
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.explain.cluster_view import ClusterView
from mooring.explain.node import explain_node, zone_loss
from mooring.explain.results import DriverUse, NodeReport, ResourceUse
from support.builders import (
    Body,
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_volume,
    capacity_body,
    claim_body,
    claim_ref,
    class_body,
    csi_node_body,
    node_body,
    pod_body,
    volume_body,
)
from support.builders.drivers import DRIVER
from support.explain.clusters import listed
from support.scheduler.snapshots import a_snapshot


def explained_node(*bodies: Body, name: str = "n1") -> NodeReport:
    objects = listed(*bodies)
    node = objects.get(NODE, name)
    assert node is not None
    return explain_node(ClusterView(objects), node)


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def silent() -> Body:
    body = node_body(name="n1", ready=False)
    body["status"]["conditions"][0] |= {"lastTransitionTime": "2026-11-02T10:00:00Z", "message": "Kubelet is silent"}
    return body


@pytest.mark.parametrize(
    ("node", "verdict", "remedy_texts"),
    [
        pytest.param(node_body(name="n1"), "n1 accepts pods.", (), id="well"),
        pytest.param(
            node_body(name="n1", unschedulable=True),
            "n1 accepts no pods: it is cordoned.",
            ("kubectl uncordon n1",),
            id="cordoned",
        ),
        pytest.param(
            node_body(name="n1", taints=[TAINT]),
            "n1 accepts no pods: taint gpu:NoSchedule.",
            ("add to pods a toleration of gpu=yes:NoSchedule, or kubectl taint node n1 gpu:NoSchedule-",),
            id="tainted",
        ),
        pytest.param(
            silent(),
            "n1 accepts no pods: it is not ready since 2026-11-02T10:00:00Z: Kubelet is silent.",
            (),
            id="not ready",
        ),
    ],
)
def test_whether_it_takes_pods(node: Body, verdict: str, remedy_texts: tuple[str, ...]) -> None:
    report = explained_node(node)
    assert (report.verdict, report.remedy_texts) == (verdict, remedy_texts)
    assert report.ok == (not verdict.startswith("n1 accepts no"))


def test_the_report_lists_free_resources_volumes_and_pending_pods() -> None:
    report = explained_node(
        node_body(name="n1", zone="a", allocatable={"example.com/gpu": "2"}),
        node_body(name="n2", zone="b"),
        csi_node_body(name="n1", limits={DRIVER: 25, "free.example.com": None}),
        class_body(),
        volume_body(name="here", node="n1"),
        volume_body(name="there", node="n2"),
        volume_body(name="anywhere"),
        capacity_body(topology={"matchLabels": {well_known.ZONE: "a"}}, capacity="3Gi"),
        capacity_body(name="other", topology={"matchLabels": {well_known.ZONE: "b"}}, capacity="9Gi"),
        claim_body(name="data"),
        pod_body(name="old", node="n1", requests={"cpu": "500m", "memory": "1Gi"}),
        pod_body(name="fits"),
        pod_body(name="huge", requests={"cpu": "9"}),
        pod_body(name="gated", gates=["quota"]),
    )
    assert report.verdict == "n1 accepts pods; 2 of 3 pending pods do not fit there."
    assert report.resources == (
        ResourceUse("cpu", "500m", "4"),
        ResourceUse("memory", "1Gi", "8Gi"),
        ResourceUse("pods", "1", "110"),
        ResourceUse("example.com/gpu", "0", "2"),
    )
    assert report.drivers == (DriverUse(DRIVER, 0, 25),)
    assert report.volumes == ("here",)
    assert [room.detail for room in report.capacity_reports] == ["class made: 3Gi"]
    assert report.pending["default/fits"] == ()
    [huge] = report.pending["default/huge"]
    assert (huge.reason, huge.detail) == ("Insufficient cpu", "9 requested, 3500m of 4 free")
    assert [one.plugin for one in report.pending["default/gated"]] == ["SchedulingGates"]


def test_what_would_be_lost_with_its_zone() -> None:
    """Told before it happens: a pod whose volume is in this zone only, and not one that could go elsewhere."""
    zones = [
        node_body(name=name, labels={well_known.ZONE: zone, well_known.HOSTNAME: name})
        for name, zone in (("n1", "a"), ("n2", "b"))
    ]
    bound = claim_body(name="data", volume="disk", bound=True, phase="Bound", storage_class="local")
    disk = volume_body(name="disk", node="n1", claim_ref={"namespace": "default", "name": "data"}, phase="Bound")
    pods = [pod_body(name="db", claims=["data"], node="n1"), pod_body(name="web", node="n1")]
    report = explained_node(*zones, class_body(name="local"), bound, disk, *pods)
    assert report.notes == ("if zone a is lost, db cannot run anywhere else: its volumes are only there.",)


def node(name: str, zone: str = "", **more: object) -> ApiObject:
    labels = {well_known.HOSTNAME: name} | ({well_known.ZONE: zone} if zone else {})
    return a_node(name=name, labels=labels, **more)


NODES = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("c1", "c")]


def bound(name: str, *on: str, zone: str = "") -> list[ApiObject]:
    """A claim with its volume on some nodes, or with the labels of a zone alone."""
    reference = claim_ref(name=name, uid=f"{name}-uid")
    labels = {well_known.ZONE: zone} if zone else {}
    volume = a_volume(name=f"v-{name}", claim_ref=reference, phase="Bound", labels=labels, affinity=among(*on))
    return [a_claim(name=name, volume=f"v-{name}", bound=True), volume]


def among(*names: str) -> Body | None:
    if not names:
        return None
    hosts = {"key": well_known.HOSTNAME, "operator": "In", "values": list(names)}
    return {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}


def selecting(zone: str) -> Pod:
    return a_pod(name="selective", node_selector={well_known.ZONE: zone})


@pytest.mark.parametrize(
    ("pod", "objects", "want"),
    [
        pytest.param(a_pod(), [], [], id="no volumes, goes anywhere"),
        pytest.param(a_pod(claims=["d"]), bound("d", "c1"), ["c by volumes"], id="a volume on one node"),
        pytest.param(a_pod(claims=["d"]), bound("d", "a1", "a2"), ["a by volumes"], id="a volume in one zone"),
        pytest.param(a_pod(claims=["d"]), bound("d", "a1", "b1"), [], id="a volume in two zones"),
        pytest.param(a_pod(claims=["d"]), bound("d", zone="b"), ["b by volumes"], id="a volume that only has a label"),
        pytest.param(selecting("b"), [], ["b"], id="wants to be in one zone"),
        pytest.param(a_pod(claims=["d"]), bound("d", "gone"), [], id="can go nowhere as it is"),
        pytest.param(
            a_pod(claims=["d"]),
            [a_claim(name="d"), a_volume(name="v", node="c1")],
            ["c by volumes"],
            id="to be bound late",
        ),
        pytest.param(a_pod(claims=["missing"]), [], [], id="no such claim"),
    ],
)
def test_what_one_pod_depends_on(pod: Pod, objects: list[ApiObject], want: list[str]) -> None:
    snapshot = a_snapshot(*NODES, a_class(name="local"), *objects)
    sentences = {zone: zone_loss([pod], zone, snapshot) for zone in "abc"}
    found = [zone + (" by volumes" if "volumes" in text else "") for zone, text in sentences.items() if text]
    assert found == want


def test_a_crowd_is_no_reason() -> None:
    """Free resources do not matter: only reasons that no eviction could change count."""
    full = [a_pod(name=f"full-{n}", node=n, requests={"cpu": "4"}) for n in ("a1", "a2", "b1")]
    snapshot = a_snapshot(*NODES, *full)
    assert not any(zone_loss([a_pod(requests={"cpu": "4"})], zone, snapshot) for zone in "abc")


def test_replicas_that_depend_on_a_zone_are_listed_in_one_sentence() -> None:
    replicas = [a_pod(name=f"db-{n}", claims=[f"d{n}"], node=on) for n, on in enumerate(("c1", "a1", "c1"))]
    objects = [*bound("d0", "c1"), *bound("d1", "a1", "b1"), *bound("d2", "c1")]
    selective = a_pod(name="selective", node_selector={well_known.ZONE: "c"})
    snapshot = a_snapshot(*NODES, a_class(name="local"), *objects, *replicas)
    assert zone_loss([*replicas, selective], "c", snapshot) == (
        "if zone c is lost, db-0 and db-2 cannot run anywhere else: their volumes are only there; "
        "selective cannot run anywhere else: no other node is suitable."
    )
    assert zone_loss([*replicas, selective], "a", snapshot) == zone_loss([*replicas, selective], "b", snapshot) == ""


def test_nodes_without_a_zone_are_in_none() -> None:
    nodes = [node("a1", "a"), node("x1"), node("x2")]
    snapshot = a_snapshot(*nodes, a_class(name="local"), *bound("d", "x1"))
    assert zone_loss([a_pod(claims=["d"])], "a", snapshot) == ""
    assert zone_loss([a_pod(claims=["d"])], "", snapshot) == ""
