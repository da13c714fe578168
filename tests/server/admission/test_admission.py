"""Admission steps. Namespaces are in the tests of create, expansion in those of claims."""

import msgspec
import pytest

from mooring.api.errors import Forbidden
from mooring.api.kinds import (
    CLAIM,
    LIMIT_RANGE,
    NODE,
    PASSIVE,
    POD,
    PRIORITY_CLASS,
    SERVICE,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import StorageClass, default_class
from support.builders import Body, claim_body, class_body, node_body, pod_body, volume_body
from support.server.harness import Harness, altered

NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
UNREACHABLE = NOT_READY | {"key": "node.kubernetes.io/unreachable"}
NOT_SCHEDULED = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param({}, (0, "PreemptLowerPriority"), id="no class"),
        pytest.param({"priority": 0}, (0, "PreemptLowerPriority"), id="no class, and its number"),
        pytest.param({"priorityClassName": "system-node-critical"}, (2000001000, "PreemptLowerPriority"), id="node"),
        pytest.param(
            {"priorityClassName": "system-cluster-critical"}, (2000000000, "PreemptLowerPriority"), id="cluster"
        ),
    ],
)
async def test_a_class_becomes_a_number(server: Harness, given: Body, found: tuple[int, str]) -> None:
    spec = (await server.create(POD, altered(pod_body(name="a"), *((f"spec.{k}", v) for k, v in given.items()))))[
        "spec"
    ]
    assert (spec["priority"], spec["preemptionPolicy"]) == found


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param({"priorityClassName": "gold"}, "no PriorityClass with name gold was found", id="no such class"),
        pytest.param(
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; "
            "priority admission controller computed 0 from the given PriorityClass name",
            id="a number of one's own",
        ),
        pytest.param(
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
            id="a policy of one's own",
        ),
    ],
)
async def test_priority_without_class_is_rejected(server: Harness, given: Body, why: str) -> None:
    with pytest.raises(Forbidden) as refusal:
        await server.create(POD, altered(pod_body(name="a"), *((f"spec.{k}", v) for k, v in given.items())))
    assert refusal.value.message == f'pods "a" is forbidden: {why}'


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param([], [NOT_READY, UNREACHABLE], id="nothing said"),
        pytest.param(
            [NOT_READY | {"tolerationSeconds": 5}], [NOT_READY | {"tolerationSeconds": 5}, UNREACHABLE], id="one said"
        ),
        pytest.param([{"operator": "Exists"}], [{"operator": "Exists"}], id="everything tolerated"),
        pytest.param(
            [{"key": "gpu", "operator": "Exists"}],
            [{"key": "gpu", "operator": "Exists"}, NOT_READY, UNREACHABLE],
            id="something else said",
        ),
        pytest.param([NOT_SCHEDULED], [NOT_SCHEDULED, NOT_READY, UNREACHABLE], id="said of another effect"),
    ],
)
async def test_pods_get_default_tolerations(server: Harness, given: list[Body], found: list[Body]) -> None:
    pod = await server.create(POD, pod_body(name="a", tolerations=given))
    assert pod["spec"]["tolerations"] == found


@pytest.mark.parametrize("named", ["", "robot"])
async def test_pod_gets_a_service_account(server: Harness, named: str) -> None:
    spec = (await server.create(POD, altered(pod_body(name="a"), ("spec.serviceAccountName", named))))["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == (named or "default")


async def test_pod_with_node_gets_topology_labels(server: Harness) -> None:
    await server.create(NODE, node_body(name="n1", zone="z1"))
    placed = await server.create(POD, pod_body(name="a", node="n1"))
    lost = await server.create(POD, pod_body(name="b", node="n2"))
    assert placed["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z1"}
    assert "labels" not in lost["metadata"]


@pytest.mark.parametrize(
    ("kind", "body", "finalizer"),
    [
        pytest.param(CLAIM, claim_body(name="a", finalizers=["a.io/x"]), "kubernetes.io/pvc-protection", id="claim"),
        pytest.param(
            VOLUME, volume_body(name="a", node="n", finalizers=["a.io/x"]), "kubernetes.io/pv-protection", id="volume"
        ),
    ],
)
async def test_claims_and_volumes_get_protection_finalizers(
    server: Harness, kind: Kind, body: Body, finalizer: str
) -> None:
    first = await server.create(kind, body)
    assert first["metadata"]["finalizers"] == ["a.io/x", finalizer]
    again = altered(body, ("metadata.finalizers", [finalizer]), ("metadata.name", "b"))
    assert (await server.create(kind, again))["metadata"]["finalizers"] == [finalizer]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param(claim_body(name="a", storage_class=None), "standard", id="none named"),
        pytest.param(claim_body(name="a", storage_class="fast"), "fast", id="one named"),
        pytest.param(claim_body(name="a", storage_class=""), "", id="the empty one named"),
        pytest.param(
            claim_body(name="a", storage_class=None, annotations={"volume.beta.kubernetes.io/storage-class": "old"}),
            None,
            id="one named the old way",
        ),
    ],
)
async def test_a_claim_that_names_no_class_gets_the_default(server: Harness, given: Body, found: str | None) -> None:
    await server.create(STORAGE_CLASS, class_body(name="fast"))
    await server.create(STORAGE_CLASS, class_body(name="standard", default=True))
    assert (await server.create(CLAIM, given))["spec"].get("storageClassName") == found


async def test_without_a_default_a_claim_stays_without_a_class(server: Harness) -> None:
    await server.create(STORAGE_CLASS, class_body(name="fast"))
    assert "storageClassName" not in (await server.create(CLAIM, claim_body(name="a", storage_class=None)))["spec"]


@pytest.mark.parametrize(("size", "warned"), [("1500m", True), ("0.5Gi", False), ("1e3", False)])
async def test_fractional_bytes_are_warned(server: Harness, size: str, warned: bool) -> None:
    written = await server.created(CLAIM, claim_body(name="a", size=size))
    assert any("fractional byte value" in warning for warning in written.warnings) is warned


def class_of(day: int, name: str, value: str = "true", *, key: str = "storageclass.kubernetes.io") -> StorageClass:
    body = class_body(name=name, annotations={f"{key}/is-default-class": value})
    dated = altered(body, ("metadata.creationTimestamp", f"2026-01-{day:02}T00:00:00Z"))
    return STORAGE_CLASS.decode(msgspec.json.encode(dated))


@pytest.mark.parametrize(
    ("classes", "found"),
    [
        pytest.param([], "", id="none"),
        pytest.param([class_of(1, "a"), class_of(2, "b")], "b", id="the newest"),
        pytest.param([class_of(1, "b"), class_of(1, "a")], "a", id="by name where equally old"),
        pytest.param([class_of(1, "a"), class_of(2, "b", "false")], "a", id="not one that was demoted"),
        pytest.param([class_of(1, "a", key="storageclass.beta.kubernetes.io")], "a", id="the old annotation"),
    ],
)
def test_which_class_is_the_default(classes: list[StorageClass], found: str) -> None:
    assert default_class(classes) == found


@pytest.mark.parametrize(
    ("spec", "warned"),
    [
        pytest.param({"ports": [{"port": 80}]}, True, id="an address wanted"),
        pytest.param({"ports": [{"port": 80}], "clusterIP": "None"}, False, id="headless"),
        pytest.param({"type": "ExternalName", "externalName": "x.org"}, False, id="elsewhere"),
    ],
)
async def test_service_without_cluster_ip_is_warned(server: Harness, spec: Body, warned: bool) -> None:
    written = await server.created(SERVICE, {"metadata": {"name": "a"}, "spec": spec})
    assert any("assigns no addresses" in warning for warning in written.warnings) is warned


@pytest.mark.parametrize("allowed", [True, False, None])
async def test_claim_expansion_is_rejected_or_warned(server: Harness, allowed: bool | None) -> None:
    expansion = {} if allowed is None else {"allowVolumeExpansion": allowed}
    await server.create(STORAGE_CLASS, class_body(name="local") | expansion)
    await server.create(CLAIM, claim_body(name="a"))
    status = {"phase": "Bound", "capacity": {"storage": "5Gi"}}
    old = await server.patch(CLAIM, "a", MergePatch({"status": status}), subresource="status")
    more = altered(old, ("spec.resources.requests.storage", "6Gi"))
    if allowed:
        [warning] = (await server.updated(CLAIM, more)).warnings
        assert "this server resizes no volumes" in warning
    else:
        with pytest.raises(Forbidden, match="the storageclass that provisions the pvc must support resize"):
            await server.update(CLAIM, more)


def priority_class(name: str, value: int, **fields: object) -> Body:
    return {"metadata": {"name": name}, "value": value, **fields}


async def test_a_class_is_looked_up_when_the_pod_is_made(server: Harness) -> None:
    await server.create(PRIORITY_CLASS, priority_class("gold", 7, preemptionPolicy="Never"))
    spec = (await server.create(POD, altered(pod_body(name="a"), ("spec.priorityClassName", "gold"))))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")


async def test_a_pod_that_names_no_class_gets_the_default(server: Harness) -> None:
    await server.create(PRIORITY_CLASS, priority_class("usual", 3, globalDefault=True))
    spec = (await server.create(POD, pod_body(name="a")))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 3)


async def test_there_is_one_default_class(server: Harness) -> None:
    first = await server.create(PRIORITY_CLASS, priority_class("first", 1, globalDefault=True))
    with pytest.raises(Forbidden, match="PriorityClass first is already marked as default"):
        await server.create(PRIORITY_CLASS, priority_class("second", 2, globalDefault=True))
    await server.update(PRIORITY_CLASS, altered(first, ("description", "still the one")))
    second = await server.create(PRIORITY_CLASS, priority_class("second", 2))
    with pytest.raises(Forbidden, match="already marked as default"):
        await server.update(PRIORITY_CLASS, altered(second, ("globalDefault", True)))


async def test_passive_kinds_are_warned(server: Harness) -> None:
    assert LIMIT_RANGE in PASSIVE
    warnings = (await server.created(LIMIT_RANGE, {"metadata": {"name": "a"}})).warnings
    assert warnings == ("limitranges: this server keeps them as data only; no component of it acts on them",)


async def test_a_pod_that_names_no_account_runs_as_the_default_one(server: Harness) -> None:
    spec = (await server.create(POD, pod_body(name="p")))["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")


async def test_the_account_need_not_exist_and_no_token_is_mounted(server: Harness) -> None:
    body = pod_body(name="p")
    body["spec"]["serviceAccountName"] = "missing"
    spec = (await server.create(POD, body))["spec"]
    assert spec["serviceAccountName"] == "missing"
    assert "volumes" not in spec
