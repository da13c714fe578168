"""A request about one object costs the same however many other objects the API server stores.

Counted are the calls of reads and writes of every kind that users write, and of the kinds that components write most,
among few and among many objects of all these kinds. The label keys of nodes, which old zone labels of a volume depend
on, are read from a bounded number of nodes: here from fewer than there are.
"""

import copy
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest

from mooring.api import well_known
from mooring.api.kinds import BY_KIND, NAMESPACE, PRIORITY_CLASS, STORAGE_CLASS, Kind
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.server.admission import chain
from support.builders import Body, claim_body, node_body, pod_body, volume_body
from support.builders.counting import counted
from support.e2e.every_kind import WRITTEN
from support.server.harness import Harness

FEW, MANY = 10, 70
#: Calls that may differ, as the depth of a search does. One call for each of the other objects would be sixty more.
TOLERANCE: Final = 20
#: Kinds of which there are few in a cluster: a pod or claim without a class looks for the default among all of them.
RARE: Final = (STORAGE_CLASS, PRIORITY_CLASS)
COMPONENTS_WRITE: Final[list[Body]] = [
    node_body(name="node", zone="a"),
    pod_body(name="pod", claims=("claim",)),
    claim_body(name="claim", storage_class=None),
    volume_body(name="volume", node="node"),
    volume_body(name="zonal", source={"nfs": {"path": "/", "server": "nas"}}, labels={well_known.ZONE: "a"}),
    volume_body(name="old-zonal", source={"nfs": {"path": "/", "server": "nas"}}, labels={well_known.ZONE_BETA: "a"}),
    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lease"}},
]
BODIES: Final = [body for body in [*WRITTEN, *COMPONENTS_WRITE] if body["kind"] != "Namespace"]


def kind_of(body: Body) -> Kind[Any]:
    return BY_KIND[body["apiVersion"], body["kind"]]


def named(body: Body, name: str) -> Body:
    body = copy.deepcopy(body)
    body["metadata"]["name"] = f"{body['metadata']['name']}-{name}"
    return body


async def filled(count: int) -> Harness:
    server = await Harness().start()
    for body in BODIES:
        for number in range(2 if kind_of(body) in RARE else count):
            await server.create(kind_of(body), named(body, f"stored-{number}"))
    for number in range(count):
        await server.create(NAMESPACE, {"metadata": {"name": f"team-{number}"}})
    return server


def requests(server: Harness, body: Body) -> Iterator[tuple[str, Callable[[], Awaitable[object]]]]:
    kind, name = kind_of(body), body["metadata"]["name"]
    yield "create", lambda: server.create(kind, body)
    yield "get", lambda: server.get(kind, name)
    yield "merge patch", lambda: server.patch(kind, name, MergePatch({"metadata": {"labels": {"a": "b"}}}))
    yield "strategic patch", lambda: server.patch(kind, name, StrategicPatch({"metadata": {"labels": {"a": "c"}}}))
    yield "delete", lambda: server.delete(kind, name)


async def calls(count: int) -> dict[str, int]:
    server = await filled(count)
    found: dict[str, int] = {}
    for body in BODIES:
        # The first object of a kind fills the caches.
        for name in ("first", "second"):
            for verb, send in requests(server, named(body, name)):
                with counted() as counter:
                    await send()
                found[f"{verb} {body['kind']} {body['metadata']['name']}"] = counter.calls
    return found


async def test_a_request_costs_the_same_among_many_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "NODES_READ", FEW)
    few, many = await calls(FEW), await calls(MANY)
    grown = {what: (few[what], many[what]) for what in few if many[what] > few[what] + TOLERANCE}
    assert grown == {}
    assert len(few) == 5 * len(BODIES)


@pytest.mark.parametrize("labels", [{well_known.ZONE: "a"}, {well_known.ZONE_BETA: "a"}])
async def test_zone_labels_become_node_affinity_all_the_same(labels: dict[str, str]) -> None:
    server = await filled(1)
    body = volume_body(name="late", source={"nfs": {"path": "/", "server": "nas"}}, labels=labels)
    created = await server.create(kind_of(body), body)
    [term] = created["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert [one["key"] for one in term["matchExpressions"]] == [well_known.ZONE]
