import pytest

from builders import Body
from mooring.api.errors import BadRequest, Conflict, Invalid, NotFound
from mooring.api.kinds import CONFIG_MAP, STATEFUL_SET
from mooring.api.patches.contract import JsonPatch, MergePatch, Patch, StrategicPatch
from server.harness import DRY_RUN, Harness

LABELS = {"app": "db"}


@pytest.fixture
async def three(server: Harness) -> Harness:
    """A server with a StatefulSet of three."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "db", "image": "db"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": LABELS}, "serviceName": "db", "template": template}
    await server.create(STATEFUL_SET, {"metadata": {"name": "db"}, "spec": spec})
    return server


def replicas(obj: Body) -> int:
    count = obj["spec"]["replicas"]
    assert isinstance(count, int)
    return count


async def test_a_scale_shows_what_all_workloads_share(three: Harness) -> None:
    scale = await three.get(STATEFUL_SET, "db", subresource="scale")
    whole = await three.get(STATEFUL_SET, "db")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]
    assert (replicas(scale), scale["status"]) == (3, {"replicas": 0, "selector": "app=db"})


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(MergePatch({"spec": {"replicas": 5}}), id="merge"),
        pytest.param(StrategicPatch({"spec": {"replicas": 5}}), id="strategic"),
        pytest.param(JsonPatch([{"op": "replace", "path": "/spec/replicas", "value": 5}]), id="json"),
    ],
)
async def test_patching_it_changes_the_replicas_and_counts_as_a_change_of_the_spec(
    three: Harness, patch: Patch
) -> None:
    before = await three.get(STATEFUL_SET, "db")
    assert replicas(await three.patch(STATEFUL_SET, "db", patch, subresource="scale")) == 5
    after = await three.get(STATEFUL_SET, "db")
    assert replicas(after) == 5
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert after["spec"] == before["spec"] | {"replicas": 5}


async def test_replacing_it_changes_the_replicas_and_nothing_else(three: Harness) -> None:
    scale = await three.get(STATEFUL_SET, "db", subresource="scale")
    scale["spec"]["replicas"] = 1
    scale["metadata"]["labels"] = {"not": "taken"}
    assert replicas(await three.update(STATEFUL_SET, scale, subresource="scale")) == 1
    after = await three.get(STATEFUL_SET, "db")
    assert replicas(after) == 1
    assert "labels" not in after["metadata"]


async def test_leaving_the_replicas_out_means_none(three: Harness) -> None:
    await three.update(STATEFUL_SET, {"metadata": {"name": "db"}, "spec": {}}, subresource="scale")
    assert replicas(await three.get(STATEFUL_SET, "db")) == 0


async def test_an_old_version_is_a_conflict(three: Harness) -> None:
    scale = await three.get(STATEFUL_SET, "db", subresource="scale")
    await three.patch(STATEFUL_SET, "db", MergePatch({"spec": {"replicas": 4}}), subresource="scale")
    with pytest.raises(Conflict):
        await three.update(STATEFUL_SET, scale, subresource="scale")
    assert replicas(await three.get(STATEFUL_SET, "db")) == 4


async def test_a_dry_run_only_shows_it(three: Harness) -> None:
    patch = MergePatch({"spec": {"replicas": 5}})
    assert replicas(await three.patch(STATEFUL_SET, "db", patch, DRY_RUN, subresource="scale")) == 5
    assert replicas(await three.get(STATEFUL_SET, "db")) == 3


async def test_fewer_than_none_is_refused(three: Harness) -> None:
    with pytest.raises(Invalid, match="must be greater than or equal to 0"):
        await three.patch(STATEFUL_SET, "db", MergePatch({"spec": {"replicas": -1}}), subresource="scale")
    with pytest.raises(BadRequest):
        await three.updated(STATEFUL_SET, {"metadata": {"name": "other"}, "spec": {}}, name="db", subresource="scale")
    with pytest.raises(BadRequest):
        await three.updated(
            STATEFUL_SET, {"metadata": {"name": "db"}, "spec": {"replicas": "many"}}, name="db", subresource="scale"
        )


async def test_what_has_no_replicas_has_no_scale(three: Harness) -> None:
    await three.create(CONFIG_MAP, {"metadata": {"name": "a"}})
    with pytest.raises(NotFound):
        await three.get(CONFIG_MAP, "a", subresource="scale")
    with pytest.raises(NotFound):
        await three.get(STATEFUL_SET, "nobody", subresource="scale")
