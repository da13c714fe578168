"""Preemption as it happens: victims are told and go, the node is kept for whom they went, and nothing happens twice."""

import asyncio

import pytest

from mooring.api.errors import ApiError, Forbidden, NotFound, ServiceUnavailable, UnknownError
from mooring.api.kinds import CLAIM, DISRUPTION_BUDGET, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.scheduler.component import FAILED
from scheduler.test_component import with_scheduler
from support.builders import claim_body, class_body, node_body, pod_body, volume_body
from support.scheduler.cluster import SmallWorld

pytestmark = pytest.mark.req("T22.protocol")


def put(world: SmallWorld, name: str, *, priority: int = 0, cpu: str = "4", node: str = "", **more: object) -> None:
    body = pod_body(name=name, priority=priority, requests={"cpu": cpu}, node=node, **more)
    if node:
        # Deletion takes a moment: a kubelet has to end the pod.
        body["metadata"]["finalizers"] = ["example.com/running"]
    world.put(POD, body)


def let_go(world: SmallWorld, name: str) -> None:
    world.change(POD, name, {"metadata": {"finalizers": None}})


def leaving(world: SmallWorld, name: str) -> bool:
    return "deletionTimestamp" in world.body(POD, name)["metadata"]


def test_a_less_important_pod_makes_way() -> None:
    async def scenario(world: SmallWorld) -> None:
        put(world, "old", node="n1")
        await world.settle()
        put(world, "urgent", priority=10)
        await world.settle()
        assert leaving(world, "old")
        [why] = [c for c in world.body(POD, "old")["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert (why["status"], why["reason"]) == ("True", "PreemptionByScheduler")
        assert why["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
        uid = world.body(POD, "urgent")["metadata"]["uid"]
        assert world.recorder.messages("Preempted") == [f"Preempted by pod {uid} on node n1"]
        assert world.recorder.messages(FAILED) == ["0/1 nodes are available: 1 Insufficient cpu."]
        found = "found a potential placement for pod on node n1, preempting 1 victims"
        assert world.recorder.of_preemption == [found]
        assert f" preemption: {found}" in world.body(POD, "urgent")["status"]["conditions"][0]["message"]
        assert world.body(POD, "urgent")["status"]["nominatedNodeName"] == "n1"

        let_go(world, "old")
        await world.settle(2.0)
        assert world.node_of("urgent") == "n1"

    with_scheduler(scenario, "n1")


def test_pod_preempts_once_it_gets_a_volume_on_a_full_node() -> None:
    """NodeResourcesFit is the first to reject the node, but it is the volume that keeps the pod from preempting."""

    async def scenario(world: SmallWorld) -> None:
        world.put(STORAGE_CLASS, class_body())
        world.put(CLAIM, claim_body(name="data"))
        put(world, "old", node="n1")
        await world.settle()
        put(world, "urgent", priority=10, claims=["data"])
        await world.settle(30.0)
        assert not leaving(world, "old")
        world.put(VOLUME, volume_body(name="disk", node="n1"))
        await world.settle(30.0)
        assert leaving(world, "old")
        let_go(world, "old")
        await world.settle(5.0)
        [reference] = [world.body(VOLUME, "disk")["spec"].get("claimRef")]
        assert reference["name"] == "data"

    with_scheduler(scenario, "n1")


def test_no_victim_is_evicted_twice_or_in_vain() -> None:
    """Two urgent pods, capacity for one on each node: each has one victim, and no further pod is evicted meanwhile."""

    async def scenario(world: SmallWorld) -> None:
        for node in ("n1", "n2"):
            put(world, f"old-{node}", node=node)
        await world.settle()
        for name in ("first", "second", "third"):
            put(world, name, priority=10)
        await world.settle(30.0)
        assert len(world.recorder.messages("Preempted")) == 2
        assert [write for write in world.client.writes if write.startswith("delete")] == sorted(
            f"delete pods/old-{node}" for node in ("n1", "n2")
        )
        for node in ("n1", "n2"):
            let_go(world, f"old-{node}")
        await world.settle(30.0)
        placed = [world.node_of(name) for name in ("first", "second", "third")]
        assert sorted(placed) == ["", "n1", "n2"]

    with_scheduler(scenario, "n1", "n2")


@pytest.mark.req("T22.nominated")
def test_preempted_resources_are_kept_for_nominated_pod() -> None:
    async def scenario(world: SmallWorld) -> None:
        put(world, "old", node="n1")
        await world.settle()
        put(world, "urgent", priority=10)
        await world.settle()
        put(world, "sneaky", priority=9)
        let_go(world, "old")
        await world.settle(30.0)
        assert world.node_of("urgent") == "n1"
        assert world.node_of("sneaky") == ""

    with_scheduler(scenario, "n1")


@pytest.mark.req("T22.nominated")
def test_a_pod_that_finds_a_place_elsewhere_gives_the_promise_back() -> None:
    async def scenario(world: SmallWorld) -> None:
        put(world, "old", node="n1")
        await world.settle()
        put(world, "urgent", priority=10)
        await world.settle()
        world.put(NODE, node_body(name="n2"))
        await world.settle(5.0)
        assert world.node_of("urgent") == "n2"
        let_go(world, "old")
        put(world, "next", priority=1)
        await world.settle(5.0)
        assert world.node_of("next") == "n1"

    with_scheduler(scenario, "n1")


@pytest.mark.req("T22.nominated")
def test_a_gated_pod_keeps_its_nominated_node_from_pods_of_lower_priority() -> None:
    async def scenario(world: SmallWorld) -> None:
        put(world, "gated", priority=5, nominated_node="n1", gates=["example.com/later"])
        put(world, "lower", priority=4)
        await world.settle(30.0)
        assert world.node_of("lower") == ""
        put(world, "higher", priority=6)
        await world.settle(5.0)
        assert world.node_of("higher") == "n1"

    with_scheduler(scenario, "n1")


@pytest.mark.req("T22.nominated", "T26.node")
@pytest.mark.parametrize("how", ["deleted", "finished", "promised nothing any more", "tried and found wanting"])
def test_pods_are_requeued_when_a_nomination_ends(how: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        put(world, "promised", nominated_node="n1", gates=["example.com/later"], node_selector={"there": "is none"})
        put(world, "waits")
        await world.settle(30.0)
        assert world.node_of("waits") == ""
        match how:
            case "deleted":
                world.delete(POD, "promised")
            case "finished":
                world.change(POD, "promised", {"status": {"phase": "Failed"}}, subresource="status")
            case "promised nothing any more":
                world.change(POD, "promised", {"status": {"nominatedNodeName": None}}, subresource="status")
            case _:
                world.change(POD, "promised", {"spec": {"schedulingGates": None}})
        await world.settle(15.0)
        assert world.node_of("waits") == "n1"

    with_scheduler(scenario, "n1")


def test_a_refused_eviction_is_tried_again() -> None:
    async def scenario(world: SmallWorld) -> None:
        put(world, "old", node="n1")
        await world.settle()
        world.client.faults["delete pods"] = [Forbidden("not now")]
        put(world, "urgent", priority=10)
        await world.settle(0.5)
        assert not leaving(world, "old")
        await world.settle(5.0)
        assert leaving(world, "old")

    with_scheduler(scenario, "n1")


@pytest.mark.req("T22.nominated")
def test_nominated_node_is_written_before_the_first_eviction() -> None:
    """The next leader after a crash can tell then for which pod the victims were evicted."""

    async def scenario(world: SmallWorld) -> None:
        put(world, "old", node="n1")
        await world.settle()
        world.client.writes.clear()
        put(world, "urgent", priority=10)
        await world.settle()
        evicting = ["patch pods/urgent/status", "patch pods/old/status", "delete pods/old"]
        assert [write for write in dict.fromkeys(world.client.writes) if write in evicting] == evicting

    with_scheduler(scenario, "n1")


def test_no_pod_is_evicted_for_a_deleted_pod() -> None:
    """The news of it had not arrived when the victims were chosen."""

    async def scenario(world: SmallWorld) -> None:
        put(world, "old", node="n1")
        await world.settle()
        world.client.faults["patch pods"] = [NotFound("there is no such pod")] * 2
        put(world, "urgent", priority=10)
        await world.settle(0.5)
        assert not leaving(world, "old")

    with_scheduler(scenario, "n1")


@pytest.mark.parametrize(
    "trouble", ["before", "after", ServiceUnavailable("away"), UnknownError("disk on fire")], ids=str
)
def test_an_eviction_without_answer_is_asked_for_again_and_the_place_stays_kept(trouble: str | ApiError) -> None:
    """Two victims; while the second eviction fails, no other pod is bound to what the first has freed."""

    async def scenario(world: SmallWorld) -> None:
        for name in ("a", "b"):
            put(world, name, node="n1", cpu="2")
        await world.settle()
        world.client.faults["delete pods"] = ["", trouble, trouble]
        put(world, "urgent", priority=10)
        await world.settle(0.05)
        first = next(name for name in ("a", "b") if leaving(world, name))
        let_go(world, first)
        put(world, "sneaky", cpu="2")
        await world.settle(30.0)
        assert world.node_of("sneaky") == ""
        let_go(world, "b" if first == "a" else "a")
        await world.settle(30.0)
        assert (world.node_of("urgent"), world.node_of("sneaky")) == ("n1", "")
        assert len(world.recorder.messages("Preempted")) == 2

    with_scheduler(scenario, "n1")


def test_no_further_pod_is_evicted_once_the_node_is_not_needed() -> None:
    async def scenario(world: SmallWorld) -> None:
        for name in ("a", "b"):
            put(world, name, node="n1", cpu="2")
        await world.settle()
        world.client.faults["delete pods"] = ["", "before", "before", "before"]
        put(world, "urgent", priority=10)
        await world.settle(0.05)
        world.delete(POD, "urgent")
        await world.settle(30.0)
        assert sorted(leaving(world, name) for name in ("a", "b")) == [False, True]

    with_scheduler(scenario, "n1")


@pytest.mark.req("T22.nominated")
def test_a_place_stays_kept_if_binding_fails() -> None:
    """What failed may succeed at the next try; until then no other pod takes the freed resources."""

    async def scenario(world: SmallWorld) -> None:
        put(world, "old", node="n1")
        await world.settle()
        put(world, "urgent", priority=10)
        await world.settle()
        world.client.faults["bind"] = [Forbidden("not now")]
        put(world, "sneaky")
        let_go(world, "old")
        await world.settle(1.5)
        assert world.client.writes.count("bind urgent to n1") == 1
        assert (world.node_of("urgent"), world.node_of("sneaky")) == ("", "")
        await world.settle(30.0)
        assert (world.node_of("urgent"), world.node_of("sneaky")) == ("n1", "")

    with_scheduler(scenario, "n1")


@pytest.mark.req("T22.budgets")
@pytest.mark.parametrize("namespace", ["default", "other"])
def test_budget_that_the_scheduler_has_not_observed_protects_its_pods(namespace: str) -> None:
    """The watch of budgets is behind. The pod on n1 has the lowest priority and would be the victim without them; a
    victim of another namespace beside it needs a list of all namespaces."""

    async def scenario(world: SmallWorld) -> None:
        put(world, "guarded", node="n1", priority=-2, cpu="2", labels={"app": "guarded"})
        put(world, "beside", node="n1", priority=-2, cpu="2", namespace=namespace)
        put(world, "usual", node="n2", priority=-1)
        await world.settle()
        world.client.late[DISRUPTION_BUDGET.plural] = asyncio.Event()
        budget = {"metadata": {"name": "guarded", "namespace": "default"}}
        selector = {"selector": {"matchLabels": {"app": "guarded"}}}
        world.put(DISRUPTION_BUDGET, budget | {"spec": selector, "status": {"disruptionsAllowed": 0}})
        put(world, "urgent", priority=10)
        await world.settle(10.0)
        assert not any(leaving(world, name) for name in ("guarded", "usual"))
        world.client.late[DISRUPTION_BUDGET.plural].set()
        await world.settle(15.0)
        assert [name for name in ("guarded", "usual") if leaving(world, name)] == ["usual"]

    with_scheduler(scenario, "n1", "n2")


@pytest.mark.parametrize("error", ["before", ServiceUnavailable("away"), Forbidden("no role")], ids=str)
def test_no_pod_is_evicted_until_the_budgets_were_listed(error: str | ApiError) -> None:
    async def scenario(world: SmallWorld) -> None:
        put(world, "old", node="n1")
        await world.settle()
        world.client.faults["list poddisruptionbudgets"] = [error] * 2
        put(world, "urgent", priority=10)
        await world.settle(0.05)
        assert not leaving(world, "old")
        await world.settle(15.0)
        assert leaving(world, "old")

    with_scheduler(scenario, "n1")


def test_no_pod_is_nominated_or_evicted_once_the_preemptor_is_bound_elsewhere() -> None:
    """The budgets are listed only after that."""

    async def scenario(world: SmallWorld) -> None:
        put(world, "old", node="n1")
        await world.settle()
        world.client.faults["list poddisruptionbudgets"] = ["before"] * 8
        put(world, "urgent", priority=10)
        await world.settle(0.05)
        written = world.client.writes.count("patch pods/urgent/status")
        world.put(NODE, node_body(name="n2"))
        await world.settle(60.0)
        assert world.node_of("urgent") == "n2"
        assert not leaving(world, "old")
        assert world.client.writes.count("patch pods/urgent/status") == written

    with_scheduler(scenario, "n1")


def test_equals_wait() -> None:
    async def scenario(world: SmallWorld) -> None:
        put(world, "old", node="n1", priority=10)
        await world.settle()
        put(world, "new", priority=10)
        await world.settle(5.0)
        assert not leaving(world, "old")
        assert world.recorder.of_preemption == [
            "0/1 nodes are available: 1 No preemption victims found for incoming pod."
        ]

    with_scheduler(scenario, "n1")
