"""The end-to-end list of the topology design, all at once: every case with a class and volumes of its own.

Cases are data, checked on plain objects, so that each environment can run the whole list. Three nodes in three zones
are required.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mooring.api import well_known
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.scenarios.placements import Objects

NODES: Final = ("node-1", "node-2", "node-3")


class Case(NamedTuple):
    """`runs` and `waits` are the pods that run or are pending at the end; `nodes` are the allowed nodes of running
    pods.
    """

    name: str
    objects: Sequence[Body]
    runs: Sequence[str]
    waits: Sequence[str]
    nodes: Sequence[str]


def _volumes(case: str, nodes: Sequence[str], *, size: str = "10Gi") -> list[Body]:
    """One local volume for every occurrence of a node."""
    return [
        volume_body(name=f"{case}-{number}", storage_class=case, node=node, size=size)
        for number, node in enumerate(nodes)
    ]


def _set(case: str, kind: str, replicas: int) -> Body:
    rule = {"labelSelector": {"matchLabels": {"app": case}}, "topologyKey": well_known.HOSTNAME}
    claim = claim_body(name="data", namespace="", storage_class=case)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": case},
        "spec": {
            "replicas": replicas,
            "serviceName": case,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": case}},
            "template": {
                "metadata": {"labels": {"app": case}},
                "spec": {
                    "containers": [{"name": "main", "image": "example.com/main:1"}],
                    "affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}},
                },
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim["spec"]}],
        },
    }


def _pod(case: str, claims: int) -> list[Body]:
    names = [f"{case}-{number}" for number in range(claims)]
    bodies = [claim_body(name=name, namespace="", storage_class=case) for name in names]
    return [*bodies, pod_body(name=case, namespace="", claims=names)]


def _case(
    name: str, objects: Sequence[Body], *, runs: Sequence[str], waits: Sequence[str], nodes: Sequence[str]
) -> Case:
    return Case(name, [class_body(name=name), *objects], runs, waits, nodes)


def _pods(case: str, *ordinals: int) -> list[str]:
    return [f"{case}-{ordinal}" for ordinal in ordinals]


CASES: Final = (
    _case(
        "apart",
        [*_volumes("apart", NODES), _set("apart", "podAntiAffinity", 3)],
        runs=_pods("apart", 0, 1, 2),
        waits=(),
        nodes=NODES,
    ),
    _case(
        "apart-on-two",
        [*_volumes("apart-on-two", NODES[:2]), _set("apart-on-two", "podAntiAffinity", 3)],
        runs=_pods("apart-on-two", 0, 1),
        waits=_pods("apart-on-two", 2),
        nodes=NODES[:2],
    ),
    _case(
        "together",
        [*_volumes("together", ("node-2", "node-2")), _set("together", "podAffinity", 2)],
        runs=_pods("together", 0, 1),
        waits=(),
        nodes=("node-2",),
    ),
    _case(
        "together-one-each",
        [*_volumes("together-one-each", NODES), _set("together-one-each", "podAffinity", 2)],
        runs=_pods("together-one-each", 0),
        waits=_pods("together-one-each", 1),
        nodes=NODES,
    ),
    _case(
        "several",
        [*_volumes("several", ("node-1", "node-3", "node-3")), *_pod("several", 2)],
        runs=["several"],
        waits=(),
        nodes=("node-3",),
    ),
    _case(
        "several-one-each",
        [*_volumes("several-one-each", NODES), *_pod("several-one-each", 2)],
        runs=(),
        waits=["several-one-each"],
        nodes=(),
    ),
    Case(
        "fallback",
        [
            class_body(name="fallback", provisioner="local.standins.mooring.dev"),
            *_volumes("fallback", NODES, size="1Gi"),
            *_pod("fallback", 1),
        ],
        ["fallback"],
        (),
        NODES,
    ),
)


def bodies() -> list[Body]:
    """Volumes before the objects that use them, as in a file."""
    return [body for case in CASES for body in case.objects]


def placed(pods: Objects) -> bool:
    """Whether all pods that must run are scheduled, and all that must wait exist; that they stay pending takes longer
    to check.
    """
    return _are_there(pods, lambda pod: bool(pod["spec"].get("nodeName")))


def settled(pods: Objects) -> bool:
    """The same, and all scheduled pods run."""
    return _are_there(pods, lambda pod: pod["status"]["phase"] == "Running")


def _are_there(pods: Objects, is_right: Callable[[Body], bool]) -> bool:
    there = {pod["metadata"]["name"] for pod in pods}
    right = {pod["metadata"]["name"] for pod in pods if is_right(pod)}
    return all(right.issuperset(case.runs) and there.issuperset(case.waits) for case in CASES)


def assert_as_designed(pods: Objects, claims: Objects, volumes: Objects) -> None:
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    bound = {claim["metadata"]["name"]: claim["spec"].get("volumeName", "") for claim in claims}
    home = {volume["metadata"]["name"]: _node_of(volume) for volume in volumes}
    for case in CASES:
        used: list[str] = []
        for name in case.runs:
            pod = by_name[name]
            node = pod["spec"]["nodeName"]
            assert node in case.nodes, name
            mine = [bound[claim] for claim in _claims(pod)]
            assert {home[volume] for volume in mine} == {node}, name
            used += mine
        assert len(used) == len(set(used)), case.name
        for name in case.waits:
            assert not by_name[name]["spec"].get("nodeName"), name
            assert [bound[claim] for claim in _claims(by_name[name])] == [""] * len(_claims(by_name[name])), name
    apart = [by_name[name]["spec"]["nodeName"] for name in ("apart-0", "apart-1", "apart-2")]
    assert len(set(apart)) == 3
    # The existing volumes are too small: this one is provisioned.
    assert bound["fallback-0"].startswith("pvc-")


def _claims(pod: Body) -> list[str]:
    return [volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"]["volumes"]]


def _node_of(volume: Body) -> str:
    terms = (volume["spec"].get("nodeAffinity") or {}).get("required", {}).get("nodeSelectorTerms", [])
    return next(
        (e["values"][0] for term in terms for e in term["matchExpressions"] if e["key"] == well_known.HOSTNAME), ""
    )
