"""The bind verb: promised at once, written by compare-and-swap, taken back with the call."""

import asyncio

import pytest

from mooring.api import well_known
from mooring.api.errors import Conflict
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.scheduler.extender.component import POD_WAIT_SECONDS, SUPERSEDED
from mooring.scheduler.extender.protocol import ExtenderSettings, Mode
from mooring.volumes.state import ConflictReason
from support.builders import claim_body, pod_body
from support.scheduler.cluster import SmallWorld, in_world
from support.scheduler.extender_caller import Caller, a_second, furnish, on_node


@pytest.mark.req("T33.bind")
def test_volume_then_wait_then_pod() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")])
        async with Caller(world).running() as caller:
            assert await caller.passing("a") == ["n1"]
            task = caller.begin("a")
            await world.settle()
            assert world.body(VOLUME, "v")["spec"]["claimRef"]["name"] == "a"
            assert world.node_of("a") == ""
            assert caller.counted("mooring_extender_bindings") == 1
            world.finish_bindings()
            assert await task == ""
            assert world.node_of("a") == "n1"
            assert world.client.writes == ["patch persistentvolumes/v", "bind a to n1"]
            assert caller.counted("mooring_extender_bindings") == 0
            assert caller.counted("mooring_extender_calls_total", verb="bind", result="answered") == 1

    in_world(scenario)


def test_a_pod_without_volumes() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, pods=())
        world.put(POD, pod_body(name="plain"))
        async with Caller(world).running() as caller:
            assert await caller.bind("plain", "n2") == ""
            assert world.node_of("plain") == "n2"

    in_world(scenario)


@pytest.mark.parametrize(
    "seen", [pytest.param(True, id="as we know"), pytest.param(False, id="which we have not heard of yet")]
)
def test_volumes_that_kube_scheduler_has_bound_itself(seen: bool) -> None:
    """Its VolumeBinding was left on: only the pod is left to be bound."""

    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")])
        async with Caller(world).running() as caller:
            world.change(VOLUME, "v", {"spec": {"claimRef": _reference(world, "a")}})
            world.finish_bindings()
            if seen:
                await world.settle()
            assert await caller.bind("a") == ""
            assert world.node_of("a") == "n1"
            assert ("patch persistentvolumes/v" in world.client.writes) is not seen

    in_world(scenario)


def test_again_is_no_different() -> None:
    """kube-scheduler did not hear the answer, or has forgotten it."""

    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")])
        async with Caller(world).running() as caller:
            task = caller.begin("a")
            await world.settle()
            world.finish_bindings()
            assert await task == ""
            assert await caller.bind("a") == "", "before the informer shows it"
            await world.settle()
            assert await caller.bind("a") == ""
            assert await caller.bind("a", "n2") == 'pod "a" is already assigned to node "n1"'
            assert world.client.writes == ["patch persistentvolumes/v", "bind a to n1"]

    in_world(scenario)


@pytest.mark.req("T13.extender")
def test_two_pods_that_were_shown_the_same_volume() -> None:
    """An extender has no Reserve: both pods pass, and the first one bound gets the volume."""

    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")], pods=("a", "b"))
        async with Caller(world).running() as caller:
            assert await caller.passing("a") == await caller.passing("b") == ["n1"]
            first = caller.begin("a")
            await asyncio.sleep(0)
            assert await caller.bind("b") == f'node "n1" no longer fits: {ConflictReason.NO_VOLUME}'
            answer = await caller.call("filter", Pod=world.body(POD, "b"), NodeNames=["n1", "n2"])
            assert answer["FailedAndUnresolvableNodes"]["n1"] == ConflictReason.NO_VOLUME, "the promise counts at once"
            await world.settle()
            world.finish_bindings()
            assert await first == ""
            assert [world.node_of(pod) for pod in ("a", "b")] == ["n1", ""]

    in_world(scenario)


@pytest.mark.req("T33.replicas")
def test_two_replicas_cannot_both_win() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")], pods=("a", "b"))
        async with Caller(world).running() as one, a_second(world) as other:
            assert await one.passing("a") == await other.passing("a") == ["n1"]
            tasks = [one.begin("a"), other.begin("b")]
            await world.settle()
            world.finish_bindings()
            outcomes = await asyncio.gather(*tasks)
            assert sorted(outcome == "" for outcome in outcomes) == [False, True]
            assert sorted(world.node_of(pod) for pod in ("a", "b")) == ["", "n1"]
            [lost] = [outcome for outcome in outcomes if outcome]
            assert "running PreBind plugin" in lost

    in_world(scenario)


def test_either_replica_goes_on_with_what_the_other_began() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v1"), on_node("v2")])
        async with Caller(world).running() as one, a_second(world) as other:
            task = one.begin("a")
            await world.settle()
            task.cancel()
            await world.settle()
            [given] = [v for v in ("v1", "v2") if "claimRef" in world.body(VOLUME, v)["spec"]]
            assert await other.passing("a") == ["n1"]
            task = other.begin("a")
            await world.settle()
            world.finish_bindings()
            assert await task == ""
            assert world.body(CLAIM, "a")["spec"]["volumeName"] == given

    in_world(scenario)


def test_a_promise_goes_with_its_caller() -> None:
    """Whose time-out was shorter than ours. Nothing is written yet, so nothing may be left."""

    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")], pods=("a", "b"))
        async with Caller(world).running() as caller:
            world.client.faults["patch persistentvolumes"] = ["before"] * 20
            task = caller.begin("a")
            await world.settle(0.01)
            assert caller.counted("mooring_extender_bindings") == 1
            task.cancel()
            await world.settle(0.01)
            assert caller.counted("mooring_extender_bindings") == 0
            assert await caller.passing("b") == ["n1"]

    in_world(scenario)


def test_a_promise_that_never_began_goes_as_well() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")], pods=("a", "b"))
        async with Caller(world).running() as caller:
            task = caller.begin("a")
            await asyncio.sleep(0)
            assert caller.counted("mooring_extender_bindings") == 1
            await caller.extender._bind_verb.stop()
            assert await task == SUPERSEDED
            assert await caller.passing("b") == ["n1"]
            assert world.client.writes == []

    in_world(scenario)


def test_time_runs_out_and_the_next_call_goes_on() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, pods=())
        world.put(CLAIM, claim_body(name="a", storage_class="made"))
        world.put(POD, pod_body(name="a", claims=["a"]))
        async with Caller(world, ExtenderSettings(mode=Mode.BIND, bind_timeout=30.0)).running() as caller:
            began = world.clock.monotonic()
            assert (await caller.bind("a")).endswith("binding volumes: context deadline exceeded")
            assert 30.0 <= world.clock.monotonic() - began < 32.0
            assert world.body(CLAIM, "a")["metadata"]["annotations"][well_known.SELECTED_NODE] == "n1"
            assert await caller.passing("a") == ["n1"], "a volume is being made there"
            task = caller.begin("a")
            await world.settle()
            world.put(VOLUME, on_node("made-for-a") | {})
            world.change(
                VOLUME, "made-for-a", {"spec": {"storageClassName": "made", "claimRef": _reference(world, "a")}}
            )
            world.finish_bindings()
            assert await task == ""

    in_world(scenario)


def _reference(world: SmallWorld, claim: str) -> dict[str, str]:
    uid = world.body(CLAIM, claim)["metadata"]["uid"]
    return {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claim, "uid": uid}


def test_the_last_caller_counts() -> None:
    """kube-scheduler has started again and decided anew."""

    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v1"), on_node("v2", "n2")])
        world.client.faults["patch persistentvolumes"] = ["before"] * 3
        async with Caller(world).running() as caller:
            first = caller.begin("a", "n1")
            await world.settle(0.01)
            second = caller.begin("a", "n2")
            assert await first == SUPERSEDED
            await world.settle()
            world.finish_bindings()
            assert await second == ""
            assert world.node_of("a") == "n2"
            assert world.client.writes[-1] == "bind a to n2"
            assert "bind a to n1" not in world.client.writes

    in_world(scenario)


def test_bind_conflict_releases_reservation() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")], pods=("a", "b"))
        world.client.faults["patch persistentvolumes"] = [Conflict("the object has been modified")]
        async with Caller(world).running() as caller:
            assert await caller.bind("a") == 'running PreBind plugin "VolumeBinding": the object has been modified'
            assert await caller.passing("b") == ["n1"]
            assert caller.counted("mooring_extender_calls_total", verb="bind", result="refused") == 1

    in_world(scenario)


def test_a_pod_that_is_not_known_yet_is_waited_for() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, pods=())
        async with Caller(world).running() as caller:
            uid = f"uid-{world.api.version}"
            late = asyncio.create_task(caller.call("bind", PodName="p", PodNamespace="default", PodUID=uid, Node="n1"))
            await world.settle(1.0)
            assert not late.done()
            assert world.put(POD, pod_body(name="p")).uid == uid
            assert (await late)["Error"] == ""

    in_world(scenario)


@pytest.mark.parametrize("exists", [pytest.param(True, id="another of its name"), pytest.param(False, id="none")])
def test_a_pod_that_is_gone_is_not(exists: bool) -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, pods=())
        if exists:
            world.put(POD, pod_body(name="p"))
        async with Caller(world).running() as caller:
            began = world.clock.monotonic()
            answer = await caller.call("bind", PodName="p", PodNamespace="default", PodUID="old", Node="n1")
            assert answer["Error"] == 'pod "p" with uid old not found'
            assert world.clock.monotonic() - began == pytest.approx(POD_WAIT_SECONDS)
            assert world.client.writes == []

    in_world(scenario)


def test_stopping_gives_up_what_is_under_way() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")])
        async with Caller(world).running() as caller:
            task = caller.begin("a")
            await world.settle()
        assert await task == SUPERSEDED
        assert not caller.extender.ready

    in_world(scenario)
