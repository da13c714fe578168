from contextlib import aclosing

import pytest

from builders import Body, pod_body
from mooring.api.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from mooring.api.kinds import POD
from mooring.api.patches.contract import MergePatch
from mooring.server.contract import WatchOptions, WriteOptions
from server.harness import DRY_RUN, Harness, decoded

DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}


def eviction(name: str = "a", **options: object) -> Body:
    body: Body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return body | ({"deleteOptions": options} if options else {})


async def test_an_evicted_pod_has_its_grace_and_says_why_it_goes(server: Harness) -> None:
    await server.create(POD, pod_body(name="a", node="n1"))
    written = await server.evict("a", eviction())
    assert (written.code, decoded(written.body)["status"]) == (201, "Success")
    pod = await server.get(POD, "a")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:35Z"
    assert pod["status"]["conditions"] == [DISRUPTED]


async def test_the_grace_may_be_said(server: Harness) -> None:
    await server.create(POD, pod_body(name="a", node="n1"))
    await server.evict("a", eviction(gracePeriodSeconds=7))
    assert (await server.get(POD, "a"))["metadata"]["deletionGracePeriodSeconds"] == 7
    await server.evict("a", eviction(gracePeriodSeconds=0))
    with pytest.raises(NotFound):
        await server.get(POD, "a")


async def test_watchers_see_the_reason_before_the_end(server: Harness) -> None:
    pod = await server.create(POD, pod_body(name="a"))
    await server.evict("a", eviction())
    after = WatchOptions(resource_version=pod["metadata"]["resourceVersion"])
    async with aclosing(await server.watch(POD, after)) as stream:
        events = [await anext(stream), await anext(stream)]
    assert [(event.type, decoded(event.body)["status"]["conditions"]) for event in events if event] == [
        ("MODIFIED", [DISRUPTED]),
        ("DELETED", [DISRUPTED]),
    ]


async def test_other_conditions_stay_and_a_second_eviction_changes_nothing(server: Harness) -> None:
    await server.create(POD, pod_body(name="a", node="n1"))
    ready = {"type": "Ready", "status": "True"}
    early = {"type": "DisruptionTarget", "status": "False"}
    await server.patch(POD, "a", MergePatch({"status": {"conditions": [early, ready]}}), subresource="status")
    await server.evict("a", eviction())
    pod = await server.get(POD, "a")
    assert pod["status"]["conditions"] == [DISRUPTED, ready]
    await server.clock.sleep(5)
    await server.evict("a", eviction())
    assert await server.get(POD, "a") == pod


@pytest.mark.parametrize(
    "precondition",
    [
        pytest.param({"uid": "other"}, id="another pod"),
        pytest.param({"resourceVersion": "1"}, id="another version"),
    ],
)
async def test_an_eviction_may_say_which_pod_it_means(server: Harness, precondition: Body) -> None:
    pod = await server.create(POD, pod_body(name="a"))
    with pytest.raises(Conflict, match=r'cannot be fulfilled on Pod "a": the (UID|ResourceVersion)'):
        await server.evict("a", eviction(preconditions=precondition))
    assert await server.get(POD, "a") == pod
    metadata = pod["metadata"]
    same = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    await server.evict("a", eviction(preconditions=same))
    with pytest.raises(NotFound):
        await server.get(POD, "a")


@pytest.mark.parametrize(
    ("body", "options"),
    [
        pytest.param(eviction(), DRY_RUN, id="in the query"),
        pytest.param(eviction(dryRun=["All"]), WriteOptions(), id="in the body"),
    ],
)
async def test_a_dry_run_evicts_nothing(server: Harness, body: Body, options: WriteOptions) -> None:
    pod = await server.create(POD, pod_body(name="a"))
    assert (await server.evict("a", body, options)).code == 201
    assert await server.get(POD, "a") == pod


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"metadata": {"name": "a"}}, id="without a kind"),
        pytest.param(eviction() | {"apiVersion": "policy/v1beta1"}, id="of old clients"),
    ],
)
async def test_evictions_that_are_understood(server: Harness, body: Body) -> None:
    await server.create(POD, pod_body(name="a"))
    assert (await server.evict("a", body)).code == 201


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        pytest.param(eviction("b"), BadRequest, "name in URL does not match name in Eviction object", id="other pod"),
        pytest.param(
            {"metadata": {"name": "a", "namespace": "other"}},
            BadRequest,
            "the namespace of the provided object does not match",
            id="other namespace",
        ),
        pytest.param(
            eviction() | {"apiVersion": "policy/v2"},
            BadRequest,
            'Eviction in version "v2" cannot be handled as a Eviction',
            id="unknown version",
        ),
        pytest.param(
            eviction() | {"apiVersion": "v1", "kind": "Binding"},
            BadRequest,
            'Binding in version "v1" cannot be handled as a Eviction',
            id="another kind",
        ),
        pytest.param(eviction() | {"deleteOptions": 5}, BadRequest, "cannot unmarshal number", id="wrong type"),
        pytest.param(eviction(propagationPolicy="X"), Invalid, "propagationPolicy: Unsupported", id="policy"),
        pytest.param(eviction(dryRun=["X"]), Invalid, 'dryRun: Unsupported value: ["X"]', id="dry run"),
    ],
)
async def test_evictions_that_make_no_sense(server: Harness, body: Body, error: type[ApiError], message: str) -> None:
    pod = await server.create(POD, pod_body(name="a"))
    with pytest.raises(error) as refusal:
        await server.evict("a", body)
    assert message in refusal.value.message
    assert await server.get(POD, "a") == pod


async def test_fields_nobody_knows_are_warned_of_or_refused(server: Harness) -> None:
    await server.create(POD, pod_body(name="a"))
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "x"'):
        await server.evict("a", eviction() | {"x": 1}, WriteOptions(field_validation="Strict"))
    assert (await server.evict("a", eviction() | {"x": 1})).warnings == ('unknown field "x"',)


async def test_there_must_be_a_pod(server: Harness) -> None:
    with pytest.raises(NotFound, match=r'^pods "a" not found$'):
        await server.evict("a", eviction())
