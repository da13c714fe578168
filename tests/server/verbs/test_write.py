import asyncio

import pytest

from mooring.api.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from mooring.api.kinds import (
    CLAIM,
    CONFIG_MAP,
    CSI_NODE,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    STATEFUL_SET,
    VOLUME,
    Kind,
)
from mooring.server.contract import WriteOptions
from mooring.store.contract import Record, Revision, StoreChange
from mooring.store.watch_cache import MemoryStore
from support.builders import Body, claim_body, node_body, pod_body, volume_body
from support.server.harness import DRY_RUN, Harness, causes, fields


def config(name: str = "a", **data: str) -> Body:
    return {"metadata": {"name": name}, "data": data}


async def test_a_change_is_stored_under_a_new_version(server: Harness) -> None:
    old = await server.create(CONFIG_MAP, config(k="v"))
    written = await server.updated(CONFIG_MAP, old | {"data": {"k": "w"}})
    new = await server.get(CONFIG_MAP, "a")
    assert written.code == 200
    assert new["data"] == {"k": "w"}
    assert int(new["metadata"]["resourceVersion"]) == server.revision > int(old["metadata"]["resourceVersion"])


async def test_update_without_changes_writes_nothing(server: Harness) -> None:
    old = await server.create(POD, pod_body(name="a", requests={"cpu": "0.1"}))
    revision = server.revision
    same = old | {"spec": dict(reversed(old["spec"].items()))}
    same["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
    same["spec"]["nodeSelector"] = {}
    assert await server.update(POD, same) == old
    assert server.revision == revision


async def test_update_of_an_older_version_conflicts(server: Harness) -> None:
    old = await server.create(CONFIG_MAP, config(k="v"))
    await server.update(CONFIG_MAP, old | {"data": {"k": "w"}})
    with pytest.raises(Conflict) as refusal:
        await server.update(CONFIG_MAP, old | {"data": {"k": "x"}})
    assert refusal.value.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_without_a_version_the_newest_is_replaced(server: Harness) -> None:
    old = await server.create(CONFIG_MAP, config(k="v"))
    new = await server.update(CONFIG_MAP, config(k="w"))
    assert new["data"] == {"k": "w"}
    assert new["metadata"] == old["metadata"] | {"resourceVersion": str(server.revision)}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(LEASE, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}, id="lease"),
        pytest.param(CSI_NODE, {"metadata": {"name": "a"}, "spec": {"drivers": []}}, id="csi node"),
    ],
)
async def test_some_kinds_require_a_version(server: Harness, kind: Kind, body: Body) -> None:
    await server.create(kind, body)
    with pytest.raises(Invalid) as refusal:
        await server.update(kind, body)
    assert refusal.value.message == (
        f'{kind.plural}.{kind.group} "a" is invalid: '
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    )


async def test_a_version_is_a_number(server: Harness) -> None:
    await server.create(CONFIG_MAP, config())
    with pytest.raises(ApiError, match="invalid syntax") as refusal:
        await server.update(CONFIG_MAP, {"metadata": {"name": "a", "resourceVersion": "abc"}})
    assert refusal.value.code == 500


async def test_update_with_another_uid_conflicts(server: Harness) -> None:
    old = await server.create(CONFIG_MAP, config())
    with pytest.raises(Conflict) as refusal:
        await server.update(CONFIG_MAP, {"metadata": {"name": "a", "uid": "other"}})
    assert refusal.value.message == (
        'Operation cannot be fulfilled on configmaps "a": Precondition failed: '
        f"UID in precondition: other, UID in object meta: {old['metadata']['uid']}"
    )


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param(
            {"name": "b"}, "the name of the object (b) does not match the name on the URL (a)", id="another name"
        ),
        pytest.param(
            {}, "the name of the object (a based on URL) was undeterminable: name must be provided", id="no name"
        ),
        pytest.param(
            {"name": "a", "namespace": "other"},
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another namespace",
        ),
    ],
)
async def test_an_update_is_about_the_object_in_its_url(server: Harness, metadata: Body, message: str) -> None:
    await server.create(CONFIG_MAP, config())
    with pytest.raises(BadRequest) as refusal:
        await server.updated(CONFIG_MAP, {"metadata": metadata}, name="a")
    assert refusal.value.message == message


async def test_what_is_not_there_cannot_be_updated(server: Harness) -> None:
    with pytest.raises(NotFound, match=r'^configmaps "a" not found$'):
        await server.update(CONFIG_MAP, config())


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(LEASE, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}, id="lease"),
        pytest.param(EVENT, {"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}}, id="event"),
    ],
)
async def test_some_kinds_are_created_by_an_update(server: Harness, kind: Kind, body: Body) -> None:
    written = await server.updated(kind, body)
    assert written.code == 201
    assert (await server.get(kind, "a"))["metadata"]["uid"]


@pytest.mark.parametrize("seen", [{"resourceVersion": "5"}, {"uid": "u"}], ids=["version", "uid"])
async def test_update_with_version_does_not_create(server: Harness, seen: Body) -> None:
    with pytest.raises(Conflict):
        await server.update(LEASE, {"metadata": {"name": "a"} | seen, "spec": {}})
    assert await server.listed(LEASE) == []


@pytest.mark.parametrize(
    "field",
    [
        pytest.param({"uid": ""}, id="no uid"),
        pytest.param({"creationTimestamp": None}, id="no creation time"),
        pytest.param({"creationTimestamp": "2020-01-01T00:00:00Z"}, id="another creation time"),
        pytest.param({"generation": 77}, id="another generation"),
        pytest.param({"managedFields": [{"manager": "me"}]}, id="managed fields"),
        pytest.param({"selfLink": "/x"}, id="a self link"),
    ],
)
async def test_update_keeps_server_owned_metadata(server: Harness, field: Body) -> None:
    old = await server.create(POD, pod_body(name="a"))
    assert await server.update(POD, old | {"metadata": old["metadata"] | field}) == old


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("deletionTimestamp", "2026-01-01T00:00:00Z", id="deletion timestamp"),
        pytest.param("deletionGracePeriodSeconds", 5, id="grace period"),
    ],
)
async def test_deletion_is_not_an_update(server: Harness, field: str, value: object) -> None:
    old = await server.create(CONFIG_MAP, config())
    with pytest.raises(Invalid) as refusal:
        await server.update(CONFIG_MAP, old | {"metadata": old["metadata"] | {field: value}})
    assert [(c.field, c.message.partition(": ")[2]) for c in causes(refusal.value)] == [
        (f"metadata.{field}", f'"{value}": field is immutable' if isinstance(value, str) else "5: field is immutable")
    ]


STATEFUL: Body = {
    "metadata": {"name": "a"},
    "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


STUCK: Body = {"type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain"}


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        pytest.param(POD, pod_body(name="a"), {"phase": "Running", "qosClass": "BestEffort"}, id="pod"),
        pytest.param(CLAIM, claim_body(name="a"), {"phase": "Bound", "capacity": {"storage": "5Gi"}}, id="claim"),
        pytest.param(NODE, node_body(name="a"), {"capacity": {"cpu": "8"}}, id="node"),
        pytest.param(STATEFUL_SET, STATEFUL, {"replicas": 1, "availableReplicas": 1}, id="stateful set"),
        pytest.param(
            NAMESPACE, {"metadata": {"name": "a"}}, {"phase": "Active", "conditions": [STUCK]}, id="namespace"
        ),
    ],
)
async def test_spec_and_status_are_written_apart(server: Harness, kind: Kind, body: Body, status: Body) -> None:
    old = await server.create(kind, body)
    label = {"metadata": old["metadata"] | {"labels": old["metadata"].get("labels", {}) | {"seen": "yes"}}}
    ignored = await server.update(kind, old | {"status": status})
    assert ignored == old
    reported = await server.update(kind, old | {"status": status, "spec": {}} | label, subresource="status")
    assert reported["status"] == status
    assert reported["spec"] == old["spec"]
    assert reported["metadata"]["labels"]["seen"] == "yes"
    assert reported["metadata"].get("generation") == old["metadata"].get("generation")


async def test_pod_status_update_keeps_owner_references(server: Harness) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u"}
    old = await server.create(POD, pod_body(name="a", owners=[owner]))
    damaged = old | {"metadata": old["metadata"] | {"ownerReferences": []}, "status": {"phase": "Running"}}
    new = await server.update(POD, damaged, subresource="status")
    assert new["metadata"]["ownerReferences"] == [owner]


async def test_pod_status_update_keeps_qos_class(server: Harness) -> None:
    old = await server.create(POD, pod_body(name="a", requests={"cpu": "1"}))
    new = await server.update(POD, old | {"status": {"phase": "Running"}}, subresource="status")
    assert new["status"] == {"phase": "Running", "qosClass": "Burstable"}


async def test_volume_phase_change_sets_transition_time(server: Harness) -> None:
    old = await server.create(VOLUME, volume_body(name="a", node="n"))
    server.clock.seconds = 60
    status = old["status"] | {"phase": "Available"}
    new = await server.update(VOLUME, old | {"status": status}, subresource="status")
    assert new["status"] == {"phase": "Available", "lastPhaseTransitionTime": "2026-01-02T03:05:05Z"}


async def test_a_kind_without_status_has_no_such_endpoint(server: Harness) -> None:
    await server.create(CONFIG_MAP, config())
    with pytest.raises(NotFound):
        await server.update(CONFIG_MAP, config(), subresource="status")


async def test_generation_counts_changes_of_the_spec(server: Harness) -> None:
    old = await server.create(STATEFUL_SET, STATEFUL)
    labelled = await server.update(
        STATEFUL_SET, old | {"metadata": old["metadata"] | {"labels": {"a": "b"}, "generation": 9}}
    )
    scaled = await server.update(STATEFUL_SET, labelled | {"spec": old["spec"] | {"replicas": 3}})
    assert [o["metadata"]["generation"] for o in (old, labelled, scaled)] == [1, 1, 2]


async def test_a_dry_run_shows_the_change_and_stores_nothing(server: Harness) -> None:
    old = await server.create(CONFIG_MAP, config(k="v"))
    shown = await server.update(CONFIG_MAP, old | {"data": {"k": "w"}}, DRY_RUN)
    assert shown == old | {"data": {"k": "w"}}
    assert await server.get(CONFIG_MAP, "a") == old


async def test_unknown_fields_in_an_update(server: Harness) -> None:
    await server.create(CONFIG_MAP, config(k="v"))
    stray = config(k="w") | {"foo": 1}
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "foo"'):
        await server.update(CONFIG_MAP, stray, WriteOptions(field_validation="Strict"))
    assert (await server.updated(CONFIG_MAP, stray)).warnings == ('unknown field "foo"',)


async def test_all_causes_are_reported_at_once(server: Harness) -> None:
    old = await server.create(CONFIG_MAP, config(k="v"))
    bad = old["metadata"] | {"labels": {"a b": "c d"}, "finalizers": ["x"], "deletionGracePeriodSeconds": 1}
    with pytest.raises(Invalid) as refusal:
        await server.update(CONFIG_MAP, {"metadata": bad, "data": {"?": ""}})
    assert fields(refusal.value) == [
        "metadata.deletionGracePeriodSeconds",
        "metadata.labels",
        "metadata.labels",
        "metadata.finalizers",
        "data[?]",
    ]
    assert refusal.value.message.startswith('ConfigMap "a" is invalid: [metadata.deletionGracePeriodSeconds: ')


class BusyStore(MemoryStore):
    """Another writer is first, a given number of times."""

    def __init__(self) -> None:
        super().__init__()
        self.interruptions = 0

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        current = await self.get(key)
        if self.interruptions and current is not None:
            self.interruptions -= 1
            counted = current.value.replace(b'"x":"', b'"x":"i')
            await super().write(key, counted, expect=current.revision)
        return await super().write(key, value, expect=expect, precondition=precondition)


@pytest.fixture
async def busy() -> Harness:
    server = await Harness(BusyStore()).start()
    await server.create(CONFIG_MAP, config(x="", y="1"))
    return server


async def test_update_with_version_conflicts_after_a_race(busy: Harness) -> None:
    old = await busy.get(CONFIG_MAP, "a")
    busy.store.interruptions = 1  # type: ignore[attr-defined]
    with pytest.raises(Conflict, match="the object has been modified"):
        await busy.update(CONFIG_MAP, old | {"data": {"y": "2"}})
    assert (await busy.get(CONFIG_MAP, "a"))["data"] == {"x": "i", "y": "1"}


async def test_update_without_version_is_retried(busy: Harness) -> None:
    busy.store.interruptions = 4  # type: ignore[attr-defined]
    assert (await busy.update(CONFIG_MAP, config(y="2")))["data"] == {"y": "2"}


async def test_retries_are_bounded(busy: Harness) -> None:
    busy.store.interruptions = 100  # type: ignore[attr-defined]
    with pytest.raises(Conflict, match="the object has been modified"):
        await busy.update(CONFIG_MAP, config(y="2"))
    assert busy.store.interruptions == 95  # type: ignore[attr-defined]


class YieldingStore(MemoryStore):
    """Other requests get their turn between a read and the write that follows it."""

    async def get(self, key: str) -> Record | None:
        found = await super().get(key)
        await asyncio.sleep(0)
        return found


async def test_concurrent_creating_updates_succeed() -> None:
    """The slower ones find that the object exists by the time they write, and change it."""
    server = await Harness(YieldingStore()).start()
    about = {"involvedObject": {"namespace": "default"}}
    bodies = [{"metadata": {"name": "a", "labels": {"by": str(number)}}} | about for number in range(5)]
    written = await asyncio.gather(*(server.updated(EVENT, body) for body in bodies))
    assert sorted(each.code for each in written) == [200, 200, 200, 200, 201]
