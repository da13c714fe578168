import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import pytest

from mooring.api.errors import Conflict
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.scheduler.component import FAILED, SCHEDULED, Scheduler
from support.builders import Body, claim_body, claim_ref, class_body, csi_node_body, node_body, pod_body, volume_body
from support.builders.drivers import DRIVER
from support.scheduler.cluster import Recorded, SmallWorld, in_world

HOST = "kubernetes.io/hostname"


@contextlib.contextmanager
def scheduling(world: SmallWorld, **options: float | bool) -> Iterator[Scheduler]:
    scheduler = Scheduler(world.context, **options)
    task = asyncio.create_task(scheduler.run())
    try:
        yield scheduler
        assert not task.done(), "the scheduler must not stop"
    finally:
        task.cancel()


def with_scheduler(scenario: Callable[[SmallWorld], Awaitable[None]], *nodes: str) -> None:
    async def whole(world: SmallWorld) -> None:
        for name in nodes:
            world.put(NODE, node_body(name=name))
        with scheduling(world):
            await world.settle()
            await scenario(world)

    in_world(whole)


def apart(app: str) -> Body:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_a_pod_gets_a_node_and_an_event() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(POD, pod_body())
        await world.settle()
        assert world.node_of("pod-1") == "n1"
        said = "Successfully assigned default/pod-1 to n1"
        assert world.recorder.events == [Recorded("pod-1", "Normal", SCHEDULED, said)]

    with_scheduler(scenario, "n1")


def test_it_is_ready_once_everything_was_listed() -> None:
    async def scenario(world: SmallWorld) -> None:
        scheduler = Scheduler(world.context)
        assert not scheduler.ready
        task = asyncio.create_task(scheduler.run())
        await world.settle()
        assert scheduler.ready
        task.cancel()
        await world.settle()
        assert not scheduler.ready

    in_world(scenario)


def test_unschedulable_pod_is_scheduled_when_node_is_added() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(POD, pod_body(requests={"cpu": "6"}))
        await world.settle()
        why = "0/1 nodes are available: 1 Insufficient cpu."
        assert world.recorder.events == [Recorded("pod-1", "Warning", FAILED, why)]
        [condition] = world.body(POD, "pod-1")["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        victims = "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        assert condition["message"] == f"{why} preemption: {victims}"

        await world.settle(60)
        assert len(world.recorder.events) == 1, "nothing happened, so nothing was tried"
        world.put(NODE, node_body(name="big", allocatable={"cpu": "8"}))
        await world.settle()
        assert world.node_of("pod-1") == "big"

    with_scheduler(scenario, "n1")


def test_without_nodes_it_says_so_and_waits_for_one() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(POD, pod_body())
        await world.settle(30)
        assert world.recorder.messages(FAILED) == ["no nodes available to schedule pods"]
        world.put(NODE, node_body(name="n1"))
        await world.settle()
        assert world.node_of("pod-1") == "n1"

    with_scheduler(scenario)


def test_assumed_resources_are_not_reused() -> None:
    async def scenario(world: SmallWorld) -> None:
        for number in range(3):
            world.put(POD, pod_body(name=f"p{number}", requests={"cpu": "2"}))
        await world.settle()
        placed = [world.node_of(f"p{number}") for number in range(3)]
        assert sorted(placed) == ["", "n1", "n1"]

    with_scheduler(scenario, "n1")


def test_deleted_pod_frees_resources_for_pending_pod() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(POD, pod_body(name="first", requests={"cpu": "4"}))
        await world.settle()
        world.put(POD, pod_body(name="second", requests={"cpu": "4"}))
        await world.settle(5)
        world.delete(POD, "first")
        await world.settle()
        assert world.node_of("second") == "n1"

    with_scheduler(scenario, "n1")


@pytest.mark.req("T34.counted")
def test_pods_of_others_are_left_alone_but_counted() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(POD, pod_body(name="other-scheduler", scheduler="another"))
        world.put(POD, pod_body(name="preset", node="n1", requests={"cpu": "4"}))
        world.put(POD, pod_body(name="gated", gates=["wait"]))
        world.put(POD, pod_body(name="mine", requests={"cpu": "1"}))
        await world.settle()
        assert [world.node_of(name) for name in ("other-scheduler", "gated", "mine")] == ["", "", ""]
        assert [(e.pod, e.message) for e in world.recorder.events] == [
            ("mine", "0/1 nodes are available: 1 Insufficient cpu.")
        ]

    with_scheduler(scenario, "n1")


def test_a_gate_that_is_lifted_lets_the_pod_through() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(POD, pod_body(gates=["wait"]))
        await world.settle()
        world.change(POD, "pod-1", {"spec": {"schedulingGates": None}})
        await world.settle()
        assert world.node_of("pod-1") == "n1"

    with_scheduler(scenario, "n1")


@pytest.mark.parametrize(
    ("pod", "part"),
    [
        pytest.param({"requests": {"cpu": "one core"}}, 'quantity "one core"', id="a request"),
        pytest.param({"node_selector": {"not a key": "x"}}, "not a key", id="a selector"),
        pytest.param(
            {
                "topology_spread": [
                    {
                        "topologyKey": HOST,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"a b": "c"}},
                    }
                ]
            },
            "spread constraints cannot be parsed",
            id="a spread constraint",
        ),
    ],
)
def test_invalid_pod_is_reported_and_others_scheduled(pod: Body, part: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(POD, pod_body(name="bad", **pod))
        world.put(POD, pod_body(name="good"))
        await world.settle()
        assert world.node_of("good") == "n1"
        [message] = world.recorder.messages(FAILED)
        assert message.startswith("0/1 nodes are available: ")
        assert part in message

    with_scheduler(scenario, "n1")


def test_invalid_pod_or_node_stops_no_other_pod() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(NODE, node_body(name="odd", allocatable={"cpu": "many"}))
        world.put(POD, pod_body(name="odd", node="n1", requests={"cpu": "one core"}))
        world.put(POD, pod_body(requests={"cpu": "1"}))
        await world.settle()
        assert world.node_of("pod-1") == "n1"

    with_scheduler(scenario, "n1")


def local_volumes(world: SmallWorld, *nodes: str) -> None:
    world.put(STORAGE_CLASS, class_body())
    for name in nodes:
        world.put(VOLUME, volume_body(name=f"on-{name}", node=name))


def test_pods_and_volumes_go_together() -> None:
    async def scenario(world: SmallWorld) -> None:
        local_volumes(world, "n1", "n2")
        for number in range(3):
            world.put(CLAIM, claim_body(name=f"c{number}"))
            labels = {"app": "db"}
            world.put(POD, pod_body(name=f"p{number}", claims=[f"c{number}"], labels=labels, affinity=apart("db")))
        await world.settle()
        world.finish_bindings()
        await world.settle()
        where = {name: world.node_of(name) for name in ("p0", "p1", "p2")}
        assert sorted(where.values()) == ["", "n1", "n2"]
        for name, node in where.items():
            if node:
                assert world.body(CLAIM, name.replace("p", "c"))["spec"]["volumeName"] == f"on-{node}"
        [why] = set(world.recorder.messages(FAILED))
        assert why == ("0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.")

    with_scheduler(scenario, "n1", "n2", "n3")


@pytest.mark.req("T13.restored", "T16.give-back")
def test_a_failed_binding_gives_everything_back_and_is_tried_again() -> None:
    async def scenario(world: SmallWorld) -> None:
        local_volumes(world, "n1")
        world.put(CLAIM, claim_body())
        world.client.faults["patch persistentvolumes"] = [Conflict("too late")]
        world.put(POD, pod_body(claims=["claim-1"], requests={"cpu": "4"}))
        await world.settle()
        why = 'running PreBind plugin "VolumeBinding": too late'
        assert world.recorder.messages(FAILED) == [why]
        [condition] = world.body(POD, "pod-1")["status"]["conditions"]
        assert (condition["reason"], condition["message"]) == ("SchedulerError", why)

        await world.settle(1.0)
        world.finish_bindings()
        await world.settle()
        assert world.node_of("pod-1") == "n1", "room and volume were free again after the backoff"

    with_scheduler(scenario, "n1")


@pytest.mark.req("T47.limits")
def test_limits_are_looked_at_again_before_the_pod_is_bound() -> None:
    """While the volume is being made, the node lowers its limit; another node takes the pod afterwards."""

    async def scenario(world: SmallWorld) -> None:
        world.put(STORAGE_CLASS, class_body(name="made", provisioner=DRIVER))
        world.put(CSI_NODE, csi_node_body(name="n1", limits={DRIVER: 1}))
        world.put(CLAIM, claim_body(storage_class="made"))
        world.put(POD, pod_body(claims=["claim-1"]))
        await world.settle()
        drivers = [{"name": DRIVER, "nodeID": "n1", "allocatable": {"count": 0}}]
        world.change(CSI_NODE, "n1", {"spec": {"drivers": drivers}})
        csi = {"csi": {"driver": DRIVER, "volumeHandle": "1"}}
        reference = claim_ref(uid=world.body(CLAIM, "claim-1")["metadata"]["uid"])
        world.put(VOLUME, volume_body(name="v", storage_class="made", source=csi, claim_ref=reference, phase="Bound"))
        world.finish_binding("claim-1", "v")
        await world.settle()
        why = 'running PreBind plugin "VolumeBinding": binding volumes: node "n1" takes no more volumes of driver'
        assert world.recorder.messages(FAILED) == [f'{why} "{DRIVER}"']
        assert world.node_of("pod-1") == ""

        world.put(NODE, node_body(name="n2"))
        await world.settle(5.0)
        assert world.node_of("pod-1") == "n2"

    with_scheduler(scenario, "n1")


@pytest.mark.req("T16.give-back")
def test_what_a_failed_binding_gives_back_helps_a_pod_that_waits_for_it() -> None:
    async def scenario(world: SmallWorld) -> None:
        local_volumes(world, "n1")
        for name in ("first", "second"):
            world.put(CLAIM, claim_body(name=name))
        world.client.faults["patch persistentvolumes"] = ["before", Conflict("too late")]
        world.put(POD, pod_body(name="first", claims=["first"]))
        await world.settle(0.02)
        world.put(POD, pod_body(name="second", claims=["second"]))
        await world.settle(0.02)
        assert [event.pod for event in world.recorder.events] == ["second"], "the first has the only volume"
        await world.settle(1.2)
        assert world.body(VOLUME, "on-n1")["spec"]["claimRef"]["name"] == "second"
        world.finish_bindings()
        await world.settle()
        assert world.node_of("second") == "n1"

    with_scheduler(scenario, "n1")


@pytest.mark.req("T15.asynchronous")
def test_pod_waiting_for_its_volume_delays_no_other_pod() -> None:
    async def scenario(world: SmallWorld) -> None:
        local_volumes(world, "n1")
        world.put(CLAIM, claim_body())
        world.put(POD, pod_body(name="slow", claims=["claim-1"]))
        await world.settle()
        world.put(POD, pod_body(name="quick"))
        await world.settle()
        assert (world.node_of("slow"), world.node_of("quick")) == ("", "n1")
        world.finish_bindings()
        await world.settle()
        assert world.node_of("slow") == "n1"

    with_scheduler(scenario, "n1")


@pytest.mark.req("T16.lost-answer")
def test_binding_with_lost_response_is_not_repeated() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.client.faults["bind"] = ["after"]
        world.put(POD, pod_body())
        await world.settle(30)
        assert world.node_of("pod-1") in ("n1", "n2")
        assert world.recorder.messages(FAILED) == []
        assert len(world.recorder.messages(SCHEDULED)) == 1

    with_scheduler(scenario, "n1", "n2")


def test_a_pod_deleted_while_it_is_bound_leaves_no_trace() -> None:
    async def scenario(world: SmallWorld) -> None:
        local_volumes(world, "n1")
        world.put(CLAIM, claim_body())
        world.put(POD, pod_body(claims=["claim-1"], requests={"cpu": "4"}))
        await world.settle()
        world.delete(POD, "pod-1")
        await world.settle()
        assert world.recorder.events == []
        world.put(POD, pod_body(name="next", requests={"cpu": "4"}))
        await world.settle()
        assert world.node_of("next") == "n1"

    with_scheduler(scenario, "n1")
