"""Whatever a file says: an object is refused with a sentence, or explained; nothing falls over."""

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.kinds import CLAIM, NODE, POD
from mooring.explain.cluster_objects import ClusterObjects, MalformedObject
from mooring.explain.cluster_view import ClusterView
from mooring.explain.node import explain_node
from mooring.explain.pod import explain_claim, explain_in, overview
from mooring.explain.text import claim_lines, pod_paragraphs
from support.builders import (
    Body,
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
from support.builders.drivers import DRIVER
from support.explain.clusters import event_body

Path = tuple[str | int, ...]

TERM = {"matchExpressions": [{"key": "disk", "operator": "Gt", "values": ["1"]}]}
AFFINITY: Body = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}},
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    },
}
AT = "2026-11-02T10:00:00Z"
CLUSTER: list[Body] = [
    class_body(),
    class_body(name="made", provisioner=DRIVER, allowed_topologies=[{"kubernetes.io/hostname": ["n1"]}]),
    node_body(name="n1", labels={"disk": "5"}, taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
    node_body(name="n2", zone="z"),
    claim_body(name="late", selector={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}),
    claim_body(name="new", storage_class="made"),
    claim_body(name="bound", volume="v3", bound=True),
    volume_body(name="v1", node="n1", labels={"a": "b"}),
    volume_body(name="v2", affinity={"nodeSelectorTerms": [TERM]}),
    volume_body(name="v3", node="n2", phase="Bound", source={"csi": {"driver": DRIVER, "volumeHandle": "h"}}),
    driver_body(tracks_capacity=True),
    capacity_body(topology={"matchLabels": {"disk": "5"}}, capacity="10Gi"),
    csi_node_body(name="n2", limits={DRIVER: 1}),
    attachment_body(volume="v3", node="n2"),
    pod_body(name="there", node="n2", affinity=AFFINITY, requests={"cpu": "1"}, claims=["bound"]),
    pod_body(name="new", claims=["late", "new", "bound"], affinity=AFFINITY, tolerations=[{"operator": "Exists"}]),
    claim_body(name="chosen", storage_class="made", selected_node="n1"),
    claim_body(name="named", volume="v1"),
    pod_body(name="waits", claims=["chosen", "named"]),
    event_body(claim_body(name="chosen"), "ProvisioningFailed", "rpc error: code = Internal desc = x", at=AT),
    {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "csi-example-com", "namespace": "storage"},
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": AT},
    },
]
ODD = ["", "x" * 300, "-5Gi", "1e99", "NaN", "Nonsense", " 1 ", 0, -1, 2**31, 1e30, float("nan"), True, None, [], {}]
#: Without these there is no object to speak of.
KEPT: set[Path] = {("kind",), ("apiVersion",), ("metadata",), ("metadata", "name")}


def paths(value: object, above: Path = ()) -> Iterator[Path]:
    inside: list[tuple[str | int, object]] = []
    match value:
        case dict():
            inside = list(value.items())
        case list():
            inside = list(enumerate(value))
    for key, item in inside:
        yield (*above, key)
        yield from paths(item, (*above, key))


PLACES = [(number, path) for number, body in enumerate(CLUSTER) for path in paths(body) if path not in KEPT]


def replaced(body: Body, path: Path, value: object) -> None:
    """Put the value there, unless an earlier one has taken the place away."""
    if path in set(paths(body)):
        target: Any = body
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = copy.deepcopy(value)


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(ODD)), min_size=1, max_size=3))
def test_odd_values_anywhere_are_refused_or_explained(changes: list[tuple[tuple[int, Path], object]]) -> None:
    bodies = copy.deepcopy(CLUSTER)
    for (number, path), value in changes:
        replaced(bodies[number], path, value)
    objects = ClusterObjects()
    refusals: list[str] = []
    for body in bodies:
        try:
            objects.add(body)
        except MalformedObject as refusal:
            refusals.append(str(refusal))
    assert all(any(body["kind"] in refusal for body in bodies) for refusal in refusals)
    view = ClusterView(objects)
    for pod in objects.of(POD):
        verdict = explain_in(view, pod)
        assert verdict.verdict.startswith(pod.key)
        assert all(pod_paragraphs(verdict))
        assert msgspec.json.encode(verdict)
    for claim in objects.of(CLAIM):
        found = explain_claim(view, claim)
        assert found.verdict.startswith(claim.key)
        assert all(claim_lines(found))
        assert msgspec.json.encode(found)
    for node in objects.of(NODE):
        assert explain_node(view, node).verdict.startswith(node.name)
    assert all(line.verdict for line in overview(view))
