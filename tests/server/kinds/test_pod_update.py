"""Which changes of a pod are allowed."""

import pytest

from mooring.api.kinds import POD
from support.builders import Body, pod_body
from support.server.harness import ABSENT, Harness, altered, begins, problems

IMMUTABLE = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
EXTRA = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture
async def pod(server: Harness) -> Body:
    body = pod_body(name="a", gates=["a.io/x", "a.io/y"], tolerations=[{"key": "k", "operator": "Exists"}])
    return await server.create(POD, altered(body, ("spec.activeDeadlineSeconds", 100)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("spec.containers.0.image", "example.com/main:2", id="image"),
        pytest.param("spec.activeDeadlineSeconds", 50, id="an earlier deadline"),
        pytest.param("spec.schedulingGates", [{"name": "a.io/y"}], id="a gate opens"),
        pytest.param("spec.schedulingGates", ABSENT, id="all gates open"),
    ],
)
async def test_changes_that_are_accepted(server: Harness, pod: Body, path: str, value: object) -> None:
    new = await server.update(POD, altered(pod, (path, value)))
    assert new["metadata"]["generation"] == 2
    assert new["spec"] == altered(pod, (path, value))["spec"]


async def test_tolerations_can_be_added_and_extended(server: Harness, pod: Body) -> None:
    tolerations = [t | {"tolerationSeconds": 7} if "tolerationSeconds" in t else t for t in pod["spec"]["tolerations"]]
    new = await server.update(POD, altered(pod, ("spec.tolerations", [*tolerations, EXTRA])))
    assert new["spec"]["tolerations"] == [*tolerations, EXTRA]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param("spec.containers.0.name", "other", [IMMUTABLE], id="a container's name"),
        pytest.param("spec.nodeName", "n1", ["spec.nodeName: Forbidden", IMMUTABLE], id="the node, which is bound"),
        pytest.param("spec.nodeSelector", {"a": "b"}, [IMMUTABLE], id="where it may run"),
        pytest.param("spec.terminationGracePeriodSeconds", 5, [IMMUTABLE], id="its grace"),
        pytest.param(
            "spec.containers",
            [{"name": "b", "image": "i"}, {"name": "c", "image": "i"}],
            ["spec.containers: Forbidden: pod updates may not add or remove containers"],
            id="one container more",
        ),
        pytest.param(
            "spec.tolerations",
            [EXTRA],
            ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"],
            id="a toleration less",
        ),
        pytest.param(
            "spec.activeDeadlineSeconds",
            500,
            ["spec.activeDeadlineSeconds: Invalid value: 500: must be less than or equal to previous value"],
            id="a later deadline",
        ),
        pytest.param(
            "spec.activeDeadlineSeconds",
            ABSENT,
            ['spec.activeDeadlineSeconds: Invalid value: "": must not update from a positive integer to nil value'],
            id="no deadline any more",
        ),
        pytest.param(
            "spec.schedulingGates",
            [{"name": "a.io/z"}],
            ["spec.schedulingGates[0]: Forbidden: only deletion is allowed, but found new scheduling gate 'a.io/z'"],
            id="a new gate",
        ),
        pytest.param("spec.containers.0.image", "", ["spec.containers[0].image: Required value"], id="no image"),
    ],
)
async def test_changes_that_are_refused(
    server: Harness, pod: Body, path: str, value: object, expected: list[str]
) -> None:
    found = await problems(server.update(POD, altered(pod, (path, value))))
    assert begins(found, expected), found


async def test_metadata_may_change(server: Harness, pod: Body) -> None:
    new = await server.update(POD, altered(pod, ("metadata.labels", {"a": "b"})))
    assert new["metadata"]["generation"] == 1


async def test_update_may_omit_fields_set_by_admission(server: Harness, pod: Body) -> None:
    spare = altered(
        pod,
        ("spec.priority", ABSENT),
        ("spec.preemptionPolicy", ABSENT),
        ("spec.serviceAccountName", ABSENT),
        ("spec.serviceAccount", ABSENT),
    )
    assert await server.update(POD, spare) == pod
