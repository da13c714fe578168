"""Delete of an object and of a collection, and eviction."""

from contextlib import aclosing

import pytest

from mooring.api.errors import ApiError, BadRequest, Conflict, Invalid, MethodNotAllowed, NotFound
from mooring.api.kinds import CLAIM, CONFIG_MAP, EVENT, NAMESPACE, POD, STATEFUL_SET, STORAGE_CLASS, Kind
from mooring.api.patches.contract import MergePatch
from mooring.server.contract import DeleteOptions, ListOptions, WatchOptions, WriteOptions
from server.verbs.test_write import STATEFUL, BusyStore
from support.builders import Body, claim_body, class_body, pod_body
from support.server.harness import DRY_RUN, Harness, altered, decoded


def config(name: str = "a", *finalizers: str, **labels: str) -> Body:
    return {"metadata": {"name": name, "finalizers": list(finalizers), "labels": labels}}


async def gone(server: Harness, kind: Kind, name: str = "a") -> bool:
    try:
        await server.get(kind, name)
    except NotFound:
        return True
    return False


async def test_object_without_finalizers_is_removed_at_once(server: Harness) -> None:
    obj = await server.create(CONFIG_MAP, config())
    assert await server.delete(CONFIG_MAP, "a") == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": obj["metadata"]["uid"]},
    }
    assert await gone(server, CONFIG_MAP)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(STORAGE_CLASS, class_body(name="a"), id="storage class"),
        pytest.param(POD, pod_body(name="a"), id="pod"),
    ],
)
async def test_some_kinds_return_the_deleted_object(server: Harness, kind: Kind, body: Body) -> None:
    obj = await server.create(kind, body)
    answer = await server.delete(kind, "a")
    assert (answer["kind"], answer["metadata"]["uid"]) == (kind.kind, obj["metadata"]["uid"])
    assert await gone(server, kind)


async def test_what_is_not_there_cannot_be_deleted(server: Harness) -> None:
    with pytest.raises(NotFound, match=r'^configmaps "a" not found$'):
        await server.delete(CONFIG_MAP, "a")


async def test_finalizers_keep_an_object_until_they_are_gone(server: Harness) -> None:
    created = await server.create(CONFIG_MAP, config("a", "a.io/x", "a.io/y"))
    marked = await server.delete(CONFIG_MAP, "a")
    assert marked["metadata"] == created["metadata"] | {
        "deletionTimestamp": "2026-01-02T03:04:05Z",
        "deletionGracePeriodSeconds": 0,
        "resourceVersion": str(server.revision),
    }
    await server.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"finalizers": ["a.io/y"]}}))
    assert not await gone(server, CONFIG_MAP)
    last = await server.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"finalizers": None}}))
    assert last["metadata"]["resourceVersion"] == str(server.revision)
    assert "finalizers" not in last["metadata"]
    assert await gone(server, CONFIG_MAP)


async def test_an_update_can_take_the_last_finalizer_too(server: Harness) -> None:
    await server.create(CLAIM, claim_body(name="a"))
    marked = await server.delete(CLAIM, "a")
    assert marked["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    metadata = {k: v for k, v in marked["metadata"].items() if k != "finalizers"}
    await server.update(CLAIM, marked | {"metadata": metadata}, subresource="status")
    assert await gone(server, CLAIM)


async def test_emptying_the_finalizers_of_what_stays_deletes_nothing(server: Harness) -> None:
    await server.create(CONFIG_MAP, config("a", "a.io/x"))
    await server.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"finalizers": None}}))
    assert not await gone(server, CONFIG_MAP)


async def test_deleting_again_changes_nothing(server: Harness) -> None:
    await server.create(CONFIG_MAP, config("a", "a.io/x"))
    marked = await server.delete(CONFIG_MAP, "a")
    server.clock.seconds = 60
    assert await server.delete(CONFIG_MAP, "a") == marked


async def test_terminating_object_gets_no_finalizers(server: Harness) -> None:
    await server.create(CONFIG_MAP, config("a", "a.io/x"))
    await server.delete(CONFIG_MAP, "a")
    with pytest.raises(Invalid) as refusal:
        await server.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"finalizers": ["a.io/x", "b.io/y"]}}))
    assert refusal.value.message == (
        'ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is '
        'being deleted, found new finalizers []string{"b.io/y"}'
    )


async def test_other_changes_are_still_possible_then(server: Harness) -> None:
    await server.create(CONFIG_MAP, config("a", "a.io/x"))
    await server.delete(CONFIG_MAP, "a")
    new = await server.patch(CONFIG_MAP, "a", MergePatch({"data": {"k": "v"}}))
    assert new["data"] == {"k": "v"}


async def running(
    server: Harness, *, node: str = "n1", phase: str = "Running", finalizers: tuple[str, ...] = ()
) -> Body:
    await server.create(POD, pod_body(name="a", node=node, finalizers=finalizers))
    return await server.patch(POD, "a", MergePatch({"status": {"phase": phase}}), subresource="status")


async def test_running_pod_gets_a_grace_period(server: Harness) -> None:
    before = await running(server)
    marked = await server.delete(POD, "a")
    assert marked["metadata"] == before["metadata"] | {
        "deletionTimestamp": "2026-01-02T03:04:35Z",
        "deletionGracePeriodSeconds": 30,
        "generation": 2,
        "resourceVersion": str(server.revision),
    }
    await server.delete(POD, "a", DeleteOptions(grace_seconds=0))
    assert await gone(server, POD)


@pytest.mark.parametrize(
    ("asked", "grace", "moment"),
    [
        pytest.param(5, 5, "2026-01-02T03:04:10Z", id="shorter than the pod's own"),
        pytest.param(60, 60, "2026-01-02T03:05:05Z", id="longer than the pod's own"),
        pytest.param(-1, 1, "2026-01-02T03:04:06Z", id="negative is one second"),
        pytest.param(300_000_000_000, 300_000_000_000, "2125-12-09T03:04:05Z", id="more than can be spelled"),
        pytest.param((1 << 63) - 1, (1 << 63) - 1, "2125-12-09T03:04:05Z", id="as much as can be asked for"),
    ],
)
async def test_delete_may_set_the_grace_period(server: Harness, asked: int, grace: int, moment: str) -> None:
    await running(server)
    metadata = (await server.delete(POD, "a", DeleteOptions(grace_seconds=asked)))["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["deletionTimestamp"]) == (grace, moment)


@pytest.mark.parametrize(
    ("node", "phase"),
    [
        pytest.param("", "Pending", id="not placed"),
        pytest.param("n1", "Succeeded", id="done"),
        pytest.param("n1", "Failed", id="failed"),
    ],
)
async def test_pod_without_running_containers_has_no_grace_period(server: Harness, node: str, phase: str) -> None:
    await running(server, node=node, phase=phase)
    await server.delete(POD, "a", DeleteOptions(grace_seconds=30))
    assert await gone(server, POD)


async def test_a_very_long_grace_can_be_shortened(server: Harness) -> None:
    """The moment goes by a bound, and so does what is taken off it."""
    await server.create(POD, altered(pod_body(name="a", node="n1"), ("spec.terminationGracePeriodSeconds", 1 << 62)))
    assert (await server.delete(POD, "a"))["metadata"]["deletionGracePeriodSeconds"] == 1 << 62
    server.clock.seconds = 5
    metadata = (await server.delete(POD, "a", DeleteOptions(grace_seconds=10)))["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["deletionTimestamp"]) == (10, "2026-01-02T03:04:15Z")


@pytest.mark.parametrize(
    ("asked", "grace", "moment"),
    [
        pytest.param(10, 10, "2026-01-02T03:04:15Z", id="shorter counts, from the first deletion on"),
        pytest.param(60, 30, "2026-01-02T03:04:35Z", id="longer does not"),
        pytest.param(None, 30, "2026-01-02T03:04:35Z", id="nothing said"),
    ],
)
async def test_a_second_deletion(server: Harness, asked: int | None, grace: int, moment: str) -> None:
    await running(server)
    await server.delete(POD, "a")
    server.clock.seconds = 5
    metadata = (await server.delete(POD, "a", DeleteOptions(grace_seconds=asked)))["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["deletionTimestamp"]) == (grace, moment)
    assert metadata["generation"] == 2


async def test_a_pod_waits_for_its_grace_and_for_its_finalizers(server: Harness) -> None:
    await running(server, finalizers=("a.io/x",))
    await server.delete(POD, "a")
    without = MergePatch({"metadata": {"finalizers": None}})
    await server.patch(POD, "a", without)
    assert not await gone(server, POD), "its grace still runs"
    await server.delete(POD, "a", DeleteOptions(grace_seconds=0))
    assert await gone(server, POD)


async def test_pod_after_its_grace_period_waits_for_finalizers(server: Harness) -> None:
    await running(server, finalizers=("a.io/x",))
    await server.delete(POD, "a", DeleteOptions(grace_seconds=0))
    assert not await gone(server, POD)
    await server.patch(POD, "a", MergePatch({"metadata": {"finalizers": None}}))
    assert await gone(server, POD)


async def test_kinds_without_grace_do_not_wait_for_it(server: Harness) -> None:
    await server.create(CONFIG_MAP, config())
    await server.delete(CONFIG_MAP, "a", DeleteOptions(grace_seconds=30))
    assert await gone(server, CONFIG_MAP)


@pytest.mark.parametrize(
    ("held", "policy", "left"),
    [
        pytest.param((), "Foreground", ["foregroundDeletion"], id="dependents first"),
        pytest.param((), "Orphan", ["orphan"], id="dependents stay"),
        pytest.param(("a.io/x",), "Orphan", ["a.io/x", "orphan"], id="beside another finalizer"),
        pytest.param(("a.io/x", "orphan"), "Foreground", ["a.io/x", "foregroundDeletion"], id="a change of mind"),
        pytest.param(("a.io/x", "orphan"), "Background", ["a.io/x"], id="dependents later"),
        pytest.param(("orphan",), "", ["orphan"], id="nothing said"),
    ],
)
async def test_the_policy_is_left_to_the_garbage_collector(
    server: Harness, held: tuple[str, ...], policy: str, left: list[str]
) -> None:
    created = await server.create(STATEFUL_SET, STATEFUL | {"metadata": {"name": "a", "finalizers": list(held)}})
    marked = await server.delete(STATEFUL_SET, "a", DeleteOptions(propagation=policy))
    assert marked["metadata"]["finalizers"] == left
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["generation"] == created["metadata"]["generation"] + 1


@pytest.mark.parametrize("policy", ["", "Background"])
async def test_background_is_the_default(server: Harness, policy: str) -> None:
    await server.create(STATEFUL_SET, STATEFUL)
    answer = await server.delete(STATEFUL_SET, "a", DeleteOptions(propagation=policy))
    assert answer["details"]["group"] == "apps"
    assert await gone(server, STATEFUL_SET)


async def test_there_are_three_policies(server: Harness) -> None:
    await server.create(CONFIG_MAP, config())
    with pytest.raises(Invalid, match=r'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value'):
        await server.delete(CONFIG_MAP, "a", DeleteOptions(propagation="Foo"))


async def test_preconditions_that_hold(server: Harness) -> None:
    metadata = (await server.create(CONFIG_MAP, config()))["metadata"]
    options = DeleteOptions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    await server.delete(CONFIG_MAP, "a", options)
    assert await gone(server, CONFIG_MAP)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        pytest.param(
            DeleteOptions(uid="other"),
            "the UID in the precondition (other) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated",
            id="uid",
        ),
        pytest.param(
            DeleteOptions(resource_version="1"),
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (3). "
            "The object might have been modified",
            id="version",
        ),
    ],
)
async def test_preconditions_that_do_not_hold(server: Harness, options: DeleteOptions, why: str) -> None:
    uid = (await server.create(CONFIG_MAP, config()))["metadata"]["uid"]
    with pytest.raises(Conflict) as refusal:
        await server.delete(CONFIG_MAP, "a", options)
    assert refusal.value.message == f'Operation cannot be fulfilled on ConfigMap "a": {why.format(uid=uid)}'
    assert not await gone(server, CONFIG_MAP)


@pytest.mark.parametrize("finalizers", [(), ("a.io/x",)], ids=["free", "held"])
async def test_a_dry_run_reports_and_deletes_nothing(server: Harness, finalizers: tuple[str, ...]) -> None:
    obj = await server.create(CONFIG_MAP, config("a", *finalizers))
    answer = await server.delete(CONFIG_MAP, "a", DeleteOptions(dry_run=True))
    assert answer["kind"] == ("ConfigMap" if finalizers else "Status")
    assert await server.get(CONFIG_MAP, "a") == obj


async def test_delete_retries_after_a_conflict() -> None:
    server = await Harness(BusyStore()).start()
    await server.create(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"x": ""}})
    server.store.interruptions = 4  # type: ignore[attr-defined]
    await server.delete(CONFIG_MAP, "a")
    assert await gone(server, CONFIG_MAP)


async def test_a_deletion_of_one_version_loses_to_a_newer_one() -> None:
    server = await Harness(BusyStore()).start()
    obj = await server.create(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"x": ""}})
    server.store.interruptions = 1  # type: ignore[attr-defined]
    with pytest.raises(Conflict, match="The object might have been modified"):
        await server.delete(CONFIG_MAP, "a", DeleteOptions(resource_version=obj["metadata"]["resourceVersion"]))


async def test_a_collection_is_deleted_as_far_as_it_is_selected(server: Harness) -> None:
    for body in (config("a", app="x"), config("b", "b.io/x", app="x"), config("c", app="y")):
        await server.create(CONFIG_MAP, body)
    await server.create(CONFIG_MAP, config("a", app="x"), namespace="other")
    before = await server.listed(CONFIG_MAP, ListOptions(labels="app=x"))
    assert await server.delete_all(CONFIG_MAP, ListOptions(labels="app=x")) == before
    left = await server.listed(CONFIG_MAP, namespace="")
    assert [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in left] == [
        ("default", "b"),
        ("default", "c"),
        ("other", "a"),
    ]
    assert "deletionTimestamp" in left[0]["metadata"]


async def test_a_collection_is_deleted_as_far_as_the_limit_goes(server: Harness) -> None:
    for name in "abc":
        await server.create(CONFIG_MAP, config(name))
    deleted = await server.delete_all(CONFIG_MAP, ListOptions(limit=2))
    assert [obj["metadata"]["name"] for obj in deleted] == ["a", "b"]
    assert [obj["metadata"]["name"] for obj in await server.listed(CONFIG_MAP)] == ["c"]


async def test_the_options_hold_for_every_object_of_a_collection(server: Harness) -> None:
    await server.create(CONFIG_MAP, config())
    await server.delete_all(CONFIG_MAP, options=DeleteOptions(dry_run=True))
    assert not await gone(server, CONFIG_MAP)
    with pytest.raises(Invalid):
        await server.delete_all(EVENT, options=DeleteOptions(propagation="Foo"))


async def test_namespaces_have_no_deletecollection(server: Harness) -> None:
    with pytest.raises(MethodNotAllowed):
        await server.delete_all(NAMESPACE)


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


async def test_evicted_pod_has_grace_period_and_condition(server: Harness) -> None:
    await server.create(POD, pod_body(name="a", node="n1"))
    written = await server.evict("a", eviction())
    assert (written.code, decoded(written.body)["status"]) == (201, "Success")
    pod = await server.get(POD, "a")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:35Z"
    assert pod["status"]["conditions"] == [DISRUPTED]


async def test_eviction_may_set_the_grace_period(server: Harness) -> None:
    await server.create(POD, pod_body(name="a", node="n1"))
    await server.evict("a", eviction(gracePeriodSeconds=7))
    assert (await server.get(POD, "a"))["metadata"]["deletionGracePeriodSeconds"] == 7
    await server.evict("a", eviction(gracePeriodSeconds=0))
    with pytest.raises(NotFound):
        await server.get(POD, "a")


async def test_condition_is_written_before_the_deletion(server: Harness) -> None:
    pod = await server.create(POD, pod_body(name="a"))
    await server.evict("a", eviction())
    after = WatchOptions(resource_version=pod["metadata"]["resourceVersion"])
    async with aclosing(await server.watch(POD, after)) as stream:
        events = [await anext(stream), await anext(stream)]
    assert [(event.type, decoded(event.body)["status"]["conditions"]) for event in events if event] == [
        ("MODIFIED", [DISRUPTED]),
        ("DELETED", [DISRUPTED]),
    ]


async def test_second_eviction_changes_nothing(server: Harness) -> None:
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
async def test_eviction_preconditions(server: Harness, precondition: Body) -> None:
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
async def test_valid_evictions_are_accepted(server: Harness, body: Body) -> None:
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
async def test_invalid_evictions_are_rejected(server: Harness, body: Body, error: type[ApiError], message: str) -> None:
    pod = await server.create(POD, pod_body(name="a"))
    with pytest.raises(error) as refusal:
        await server.evict("a", body)
    assert message in refusal.value.message
    assert await server.get(POD, "a") == pod


async def test_unknown_fields_of_an_eviction(server: Harness) -> None:
    await server.create(POD, pod_body(name="a"))
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "x"'):
        await server.evict("a", eviction() | {"x": 1}, WriteOptions(field_validation="Strict"))
    assert (await server.evict("a", eviction() | {"x": 1})).warnings == ('unknown field "x"',)


async def test_there_must_be_a_pod(server: Harness) -> None:
    with pytest.raises(NotFound, match=r'^pods "a" not found$'):
        await server.evict("a", eviction())
