"""The extender's verbs, from body to body."""

import asyncio
import json
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, VOLUME
from mooring.control.feature_gates import parse_feature_gates
from mooring.scheduler.extender.component import DOES_NOT_BIND, NOT_READY
from mooring.scheduler.extender.evaluator import RECHECK_DELAY_SECONDS
from mooring.scheduler.extender.protocol import VERBS, ExtenderSettings
from mooring.volumes.state import ConflictReason
from support.builders import Body, claim_body, node_body, pod_body, volume_body
from support.scheduler.cluster import SmallWorld, in_world
from support.scheduler.extender_caller import Caller, furnish, on_node


def asked(world: SmallWorld, pod: str, **nodes: object) -> dict[str, object]:
    return {"Pod": world.body(POD, pod), **nodes}


@pytest.mark.req("T33.filter")
def test_filter_in_both_forms() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")])
        async with Caller(world).running() as caller:
            answer = await caller.call("filter", **asked(world, "a", NodeNames=["n1", "n2"]))
            assert answer["NodeNames"] == ["n1"]
            assert answer["FailedAndUnresolvableNodes"] == {"n2": ConflictReason.NO_VOLUME}
            bodies = [node_body(name=name) for name in ("n1", "n2")]
            answer = await caller.call("filter", **asked(world, "a", Nodes={"items": bodies}))
            assert answer["Nodes"]["items"] == bodies[:1]
            assert caller.counted("mooring_extender_calls_total", verb="filter", result="answered") == 2

    in_world(scenario)


@pytest.mark.req("T33.score")
def test_prioritize() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(
            world,
            volumes=[volume_body(name="v1", node="n1", size="50Gi"), volume_body(name="v2", node="n2", size="5Gi")],
        )
        async with Caller(world).running() as caller:
            reply = await caller.raw("prioritize", json.dumps(asked(world, "a", NodeNames=["n1", "n2"])).encode())
            assert json.loads(reply.body) == [{"Host": "n1", "Score": 7}, {"Host": "n2", "Score": 10}]

    in_world(scenario)


@pytest.mark.req("T22.extender")
def test_preempt_keeps_victims_as_they_are_and_leaves_nodes_out() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")])
        victims = {name: {"Pods": [{"UID": f"u-{name}"}], "NumPDBViolations": 1} for name in ("n1", "n2")}
        async with Caller(world).running() as caller:
            answer = await caller.call("preempt", **asked(world, "a", NodeNameToMetaVictims=victims))
            assert answer == {"NodeNameToMetaVictims": {"n1": victims["n1"]}}

    in_world(scenario)


def test_pods_on_nodes_and_their_limits_are_followed() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v1"), on_node("v2", "n2")])
        async with Caller(world).running() as caller:
            world.put(POD, pod_body(name="resident", node="n1", claims=["a"]))
            world.delete(NODE, "n2")
            await world.settle()
            answer = await caller.call("filter", **asked(world, "a", NodeNames=["n1", "n2"]))
            assert (answer["NodeNames"], list(answer["FailedNodes"])) == (["n1"], ["n2"])

    in_world(scenario)


@pytest.mark.parametrize(
    "arrives", [pytest.param("claim", id="a claim that was unknown"), pytest.param("volume", id="a volume")]
)
def test_news_that_is_just_late_is_waited_for(arrives: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, pods=())
        world.put(POD, pod_body(name="a", claims=["a"]))
        things = [(VOLUME, on_node("v")), (CLAIM, claim_body(name="a"))]
        early, late = things if arrives == "claim" else reversed(things)
        world.put(*early)
        async with Caller(world).running() as caller:
            task = asyncio.create_task(caller.passing("a"))
            await world.settle(RECHECK_DELAY_SECONDS / 2)
            world.put(*late)
            assert await task == ["n1"]

    in_world(scenario)


def test_a_no_is_not_waited_with_twice_in_a_row() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world)
        async with Caller(world).running() as caller:
            began = world.clock.monotonic()
            for _ in range(5):
                assert await caller.passing("a") == []
            assert world.clock.monotonic() - began == pytest.approx(RECHECK_DELAY_SECONDS)
            assert caller.counted("mooring_extender_calls_total", verb="filter", result="refused") == 5

    in_world(scenario)


def test_a_claim_that_stays_unknown_is_an_error_not_a_no() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, pods=())
        world.put(POD, pod_body(name="a", claims=["a"]))
        async with Caller(world).running() as caller:
            answer = await caller.call("filter", **asked(world, "a", NodeNames=["n1"]))
            assert answer["Error"] == 'persistentvolumeclaim "a" not found'
            assert answer["NodeNames"] is None

    in_world(scenario)


@pytest.mark.req("T17.extender")
def test_node_with_failed_provisioning_is_filtered_last() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, pods=())
        world.put(CLAIM, claim_body(name="a", storage_class="made"))
        world.put(POD, pod_body(name="a", claims=["a"]))
        async with Caller(world).running() as caller:
            for node in ("n1", None):
                world.change(CLAIM, "a", {"metadata": {"annotations": {well_known.SELECTED_NODE: node}}})
                await world.settle()
            assert await caller.passing("a") == ["n2"]
            assert await caller.passing("a", "n1") == ["n1"], "better there than nowhere"

    in_world(scenario)


def test_without_late_binding() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")])
        context = replace(world.context, gates=parse_feature_gates("VolumeScheduling=false"))
        async with Caller(world, context=context).running() as caller:
            assert await caller.passing("a") == []

    in_world(scenario)


def test_filter_mode_binds_nothing() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world, volumes=[on_node("v")])
        async with Caller(world, ExtenderSettings()).running() as caller:
            assert await caller.passing("a") == ["n1"]
            assert await caller.bind("a") == DOES_NOT_BIND
            assert world.client.writes == []

    in_world(scenario)


def errors(body: bytes) -> str:
    answer: Body = json.loads(body)
    return str(answer["Error"])


@pytest.mark.parametrize("verb", VERBS)
def test_before_everything_is_listed_there_is_no_verdict(verb: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        caller = Caller(world)
        reply = await caller.raw(verb, b"{}")
        assert errors(reply.body) == NOT_READY
        assert reply.code == (200 if verb in ("filter", "bind") else 503)
        assert caller.counted("mooring_extender_calls_total", verb=verb, result="error") == 1

    in_world(scenario)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"Pod": {"metadata": {"name": 1}}}', id="a name that is no text"),
    ],
)
def test_malformed_call_is_reported_in_protocol_error_field(verb: str, body: bytes) -> None:
    async def scenario(world: SmallWorld) -> None:
        async with Caller(world).running() as caller:
            reply = await caller.raw(verb, body)
            assert "of the scheduler extender protocol v1" in errors(reply.body)
            assert reply.code == (200 if verb in ("filter", "bind") else 400)

    in_world(scenario)


def test_unknown_verbs() -> None:
    async def scenario(world: SmallWorld) -> None:
        with pytest.raises(KeyError):
            await Caller(world).raw("delete", b"{}")

    in_world(scenario)


@pytest.mark.req("T33.self-test")
def test_missing_calls_are_logged() -> None:
    async def scenario(world: SmallWorld) -> None:
        furnish(world)
        settings = ExtenderSettings(called_within=60.0, ready_only_when_called=True)
        with capture_logs() as logs:
            async with Caller(world, settings).running() as caller:
                world.change(POD, "a", {"spec": {"nodeName": "n1"}})
                await world.settle(100.0)
                assert caller.counted("mooring_extender_unasked_pods") == 1
                assert caller.counted("mooring_extender_last_call_timestamp_seconds") == 0
                assert not caller.extender.ready
                world.put(POD, pod_body(name="b"))
                assert await caller.passing("b") == ["n1", "n2"]
                assert caller.extender.ready
                assert caller.counted("mooring_extender_last_call_timestamp_seconds") == world.clock.now()
                await world.settle(200.0)
        about_calls = [line for line in logs if line["event"].startswith("kube-scheduler")]
        said = [(line["log_level"], line["event"]) for line in about_calls]
        assert said == [("warning", "kube-scheduler does not call"), ("info", "kube-scheduler calls")]
        assert "1 pods of default-scheduler were bound" in about_calls[0]["reason"]

    in_world(scenario)


def test_silence_alone_does_not_make_it_unready() -> None:
    """Behind a Service, an unready replica would never be called."""

    async def scenario(world: SmallWorld) -> None:
        furnish(world)
        async with Caller(world, ExtenderSettings(called_within=60.0)).running() as caller:
            world.change(POD, "a", {"spec": {"nodeName": "n1"}})
            await world.settle(100.0)
            assert caller.extender.ready

    in_world(scenario)
