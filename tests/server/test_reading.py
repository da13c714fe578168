"""Get and list."""

import msgspec
import pytest

from mooring.api.errors import BadRequest, Invalid, NotFound, ServerTimeout, ServiceUnavailable, UnknownError
from mooring.api.kinds import CONFIG_MAP, EVENT, KINDS, NODE, POD, SECRET, STATEFUL_SET, Kind
from mooring.api.patches.contract import MergePatch
from mooring.server.contract import ListOptions, Target
from support.builders import Body, node_body, pod_body
from support.server.harness import TEST_USER, Harness, causes, decoded


def config(name: str, **labels: str) -> Body:
    return {"metadata": {"name": name, "labels": labels}}


async def names(server: Harness, kind: Kind, options: ListOptions) -> list[str]:
    return [obj["metadata"]["name"] for obj in await server.listed(kind, options)]


async def test_what_is_not_there_is_not_found(server: Harness) -> None:
    with pytest.raises(NotFound, match=r'^configmaps "a" not found$'):
        await server.get(CONFIG_MAP, "a")
    with pytest.raises(NotFound, match=r'^statefulsets.apps "a" not found$'):
        await server.get(STATEFUL_SET, "a")


async def test_a_status_is_read_with_all_around_it(server: Harness) -> None:
    pod = await server.create(POD, pod_body(name="a"))
    assert await server.get(POD, "a", subresource="status") == pod


@pytest.mark.parametrize(
    ("kind", "subresource"),
    [
        pytest.param(CONFIG_MAP, "status", id="a kind without status"),
        pytest.param(POD, "log", id="unknown subresource"),
    ],
)
async def test_endpoints_that_do_not_exist(server: Harness, kind: Kind, subresource: str) -> None:
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        await server.get(kind, "a", subresource=subresource)


async def test_lists_are_in_namespace_and_name_order(server: Harness) -> None:
    for namespace, name in (("other", "b"), ("default", "c"), ("other", "a"), ("default", "b")):
        await server.create(CONFIG_MAP, config(name), namespace=namespace)
    page = await server.page(CONFIG_MAP, namespace="")
    assert [
        (o["metadata"]["namespace"], o["metadata"]["name"]) for o in await server.listed(CONFIG_MAP, namespace="")
    ] == [
        ("default", "b"),
        ("default", "c"),
        ("other", "a"),
        ("other", "b"),
    ]
    assert page.resource_version == str(server.revision)


async def test_a_namespace_that_does_not_exist_is_empty(server: Harness) -> None:
    assert await server.listed(CONFIG_MAP, namespace="nons") == []


async def test_a_namespace_is_not_its_longer_namesake(server: Harness) -> None:
    await server.create(CONFIG_MAP, config("a"), namespace="other")
    assert await server.listed(CONFIG_MAP, namespace="oth") == []


async def test_items_carry_their_own_versions(server: Harness) -> None:
    first = await server.create(CONFIG_MAP, config("a"))
    await server.create(CONFIG_MAP, config("b"))
    assert (await server.listed(CONFIG_MAP))[0] == first


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param("app=web", ["a"], id="equal"),
        pytest.param("app!=web", ["b", "c"], id="not equal also matches absent"),
        pytest.param("app in (web,db)", ["a", "b"], id="one of"),
        pytest.param("app notin (web)", ["b", "c"], id="none of"),
        pytest.param("app", ["a", "b"], id="present"),
        pytest.param("!app", ["c"], id="absent"),
        pytest.param("app=web,tier=front", ["a"], id="all of several"),
        pytest.param("app=db,tier=front", [], id="not all of several"),
    ],
)
async def test_label_selectors(server: Harness, selector: str, found: list[str]) -> None:
    for body in (config("a", app="web", tier="front"), config("b", app="db"), config("c")):
        await server.create(CONFIG_MAP, body)
    assert await names(server, CONFIG_MAP, ListOptions(labels=selector)) == found


PODS = (
    pod_body(name="free"),
    pod_body(name="placed", node="n1", scheduler="other", gates=()),
    pod_body(name="hosted") | {"spec": pod_body()["spec"] | {"hostNetwork": True, "restartPolicy": "Never"}},
)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param("metadata.name=placed", ["placed"], id="name"),
        pytest.param("metadata.namespace!=default", [], id="namespace"),
        pytest.param("spec.nodeName=", ["free", "hosted"], id="without a node"),
        pytest.param("spec.nodeName=n1", ["placed"], id="on a node"),
        pytest.param("spec.host=n1", ["placed"], id="on a node, by the old name"),
        pytest.param("spec.schedulerName=other", ["placed"], id="scheduler"),
        pytest.param("spec.restartPolicy!=Always", ["hosted"], id="restart policy"),
        pytest.param("spec.hostNetwork=true", ["hosted"], id="a flag that is set"),
        pytest.param("spec.hostNetwork=false", ["free", "placed"], id="a flag that is not set"),
        pytest.param("spec.serviceAccountName=default,spec.nodeName!=n1", ["free", "hosted"], id="several"),
        pytest.param("status.phase=Running", ["placed"], id="phase"),
        pytest.param("status.podIP=10.0.0.1", ["placed"], id="address"),
        pytest.param("status.nominatedNodeName=n2", ["placed"], id="nomination"),
        pytest.param(
            "status.phase!=Succeeded,status.phase!=Failed", ["free", "hosted", "placed"], id="as the scheduler"
        ),
    ],
)
async def test_fields_of_pods(server: Harness, selector: str, found: list[str]) -> None:
    for body in PODS:
        await server.create(POD, body)
    status = {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "nominatedNodeName": "n2"}
    await server.patch(POD, "placed", MergePatch({"status": status}), subresource="status")
    assert await names(server, POD, ListOptions(fields=selector)) == found


EVENT_BODY: Body = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u", "fieldPath": "spec"},
    "reason": "Failed",
    "type": "Warning",
    "reportingComponent": "scheduler",
}


@pytest.mark.parametrize(
    ("kind", "body", "selector"),
    [
        pytest.param(EVENT, EVENT_BODY, "involvedObject.name=p,involvedObject.kind=Pod", id="what an event is about"),
        pytest.param(EVENT, EVENT_BODY, "involvedObject.uid=u,involvedObject.fieldPath=spec", id="which one exactly"),
        pytest.param(EVENT, EVENT_BODY, "involvedObject.namespace=default,type=Warning", id="where, and how bad"),
        pytest.param(EVENT, EVENT_BODY, "source=scheduler,reason=Failed", id="the source falls back to the reporter"),
        pytest.param(EVENT, EVENT_BODY, "involvedObject.apiVersion=,involvedObject.resourceVersion=", id="absent"),
        pytest.param(NODE, node_body(name="e"), "spec.unschedulable=false", id="nodes that take pods"),
        pytest.param(SECRET, {"metadata": {"name": "e"}}, "type=Opaque", id="secrets of a type"),
    ],
)
async def test_fields_of_other_kinds(server: Harness, kind: Kind, body: Body, selector: str) -> None:
    await server.create(kind, body)
    assert await names(server, kind, ListOptions(fields=selector)) == ["e"]
    refuted = selector.replace("=", "!=")
    assert await names(server, kind, ListOptions(fields=refuted)) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
async def test_every_kind_can_be_selected_by_name(server: Harness, kind: Kind) -> None:
    assert await server.listed(kind, ListOptions(fields="metadata.name=x", labels="a=b")) == []


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        pytest.param(POD, ListOptions(fields="spec.foo=1"), "field label not supported: spec.foo", id="pod field"),
        pytest.param(
            CONFIG_MAP,
            ListOptions(fields="data.a=1"),
            '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
            id="field of a kind with none",
        ),
        pytest.param(POD, ListOptions(fields="spec.nodeName"), "invalid selector", id="no comparison"),
        pytest.param(POD, ListOptions(labels="a in (b"), "unable to parse requirement", id="label selector"),
        pytest.param(POD, ListOptions(resource_version="abc"), "invalid resource version", id="not a version"),
    ],
)
async def test_lists_that_cannot_be_understood(server: Harness, kind: Kind, options: ListOptions, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        await server.listed(kind, options)
    assert message in refusal.value.message


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        pytest.param(ListOptions(resource_version_match="Exact"), ["FieldValueForbidden"], id="no version"),
        pytest.param(
            ListOptions(resource_version_match="Exact", resource_version="0"), ["FieldValueForbidden"], id="exactly any"
        ),
        pytest.param(
            ListOptions(resource_version_match="Foo", resource_version="1"),
            ["FieldValueNotSupported"],
            id="no such match",
        ),
        pytest.param(
            ListOptions(resource_version_match="NotOlderThan", resource_version="1", continue_token="x"),
            ["FieldValueForbidden"],
            id="with a continue key",
        ),
    ],
)
async def test_combinations_that_mean_nothing(server: Harness, options: ListOptions, reasons: list[str]) -> None:
    with pytest.raises(Invalid) as refusal:
        await server.listed(POD, options)
    assert refusal.value.message.startswith('ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: ')
    assert [cause.reason for cause in causes(refusal.value)] == reasons


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(ListOptions(), id="newest"),
        pytest.param(ListOptions(resource_version="0", limit=1), id="any, and the limit is only a hint"),
        pytest.param(ListOptions(resource_version="1"), id="not older"),
        pytest.param(ListOptions(resource_version="1", resource_version_match="NotOlderThan"), id="not older, said so"),
        pytest.param(ListOptions(resource_version="4", resource_version_match="Exact"), id="exactly the newest"),
    ],
)
async def test_versions_that_the_newest_state_satisfies(server: Harness, options: ListOptions) -> None:
    await server.create(CONFIG_MAP, config("a"))
    await server.create(CONFIG_MAP, config("b"))
    assert await names(server, CONFIG_MAP, options) == ["a", "b"]


async def test_the_future_is_waited_for_three_seconds(server: Harness) -> None:
    with pytest.raises(ServerTimeout) as refusal:
        await server.listed(POD, ListOptions(resource_version="99"))
    assert server.clock.seconds == pytest.approx(3.0, abs=0.1)
    assert refusal.value.message == "Timeout: Too large resource version: 99, current: 2"
    assert refusal.value.details is not None
    assert refusal.value.details.retry_after_seconds == 1
    assert refusal.value.details.causes[0].reason == "ResourceVersionTooLarge"


async def test_the_future_may_come_in_time(server: Harness) -> None:
    sleep = server.clock.sleep

    async def busy(seconds: float) -> None:
        await sleep(seconds)
        await server.create(CONFIG_MAP, {"metadata": {"generateName": "a"}})

    server.clock.sleep = busy  # type: ignore[method-assign]
    assert len(await server.listed(CONFIG_MAP, ListOptions(resource_version="5"))) == 3


async def test_a_closed_store_is_an_unavailable_service(server: Harness) -> None:
    await server.store.close()
    for refused in (server.get(POD, "a"), server.listed(POD), server.create(NODE, node_body())):
        with pytest.raises(ServiceUnavailable):
            await refused


@pytest.mark.parametrize("version", ["", "0", "1"], ids=["the newest", "any", "not older than"])
async def test_one_object_at_a_version(server: Harness, version: str) -> None:
    await server.create(CONFIG_MAP, config("a"))
    target = Target(CONFIG_MAP, "default", "a")
    assert decoded(await server.api.get(TEST_USER, target, resource_version=version))["metadata"]["name"] == "a"


async def test_one_object_at_a_version_that_is_none(server: Harness) -> None:
    await server.create(CONFIG_MAP, config("a"))
    target = Target(CONFIG_MAP, "default", "a")
    with pytest.raises(ServerTimeout, match="Too large resource version: 99"):
        await server.api.get(TEST_USER, target, resource_version="99")
    with pytest.raises(UnknownError, match="invalid syntax") as refusal:
        await server.api.get(TEST_USER, target, resource_version="abc")
    assert "reason" not in msgspec.to_builtins(refusal.value.to_status())
