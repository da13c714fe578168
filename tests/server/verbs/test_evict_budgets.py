"""Evictions of pods with a PodDisruptionBudget."""

import pytest

from mooring.api.errors import ApiError, Forbidden, NotFound, TooManyRequests
from mooring.api.kinds import DISRUPTION_BUDGET, POD
from mooring.api.patches.contract import MergePatch
from server.verbs.test_delete import eviction
from support.builders import Body, pod_body
from support.server.harness import DRY_RUN, Harness, altered

SELECTED = {"app": "a"}


async def running(server: Harness, *, ready: bool = True, phase: str = "Running") -> None:
    await server.create(POD, altered(pod_body(name="a", node="n1"), ("metadata.labels", SELECTED)))
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = MergePatch({"status": {"phase": phase, "conditions": conditions}})
    await server.patch(POD, "a", status, subresource="status")


async def budget(server: Harness, name: str = "b", *, spec: Body | None = None, **status: object) -> None:
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": SELECTED}, **(spec or {})}}
    await server.create(DISRUPTION_BUDGET, body)
    patch = MergePatch({"status": {"observedGeneration": 1, "disruptionsAllowed": 0, **status}})
    await server.patch(DISRUPTION_BUDGET, name, patch, subresource="status")


async def test_eviction_is_counted_in_the_budget(server: Harness) -> None:
    await running(server)
    await budget(server, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    assert (await server.evict("a", eviction())).code == 201
    assert "deletionTimestamp" in (await server.get(POD, "a"))["metadata"]
    status = (await server.get(DISRUPTION_BUDGET, "b"))["status"]
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"a": "2026-01-02T03:04:05Z"}
    assert [(row["status"], row["reason"]) for row in status["conditions"]] == [("False", "InsufficientPods")]


async def test_dry_run_eviction_is_not_counted(server: Harness) -> None:
    await running(server)
    await budget(server, disruptionsAllowed=1)
    before = await server.get(DISRUPTION_BUDGET, "b")
    await server.evict("a", eviction(), DRY_RUN)
    assert await server.get(DISRUPTION_BUDGET, "b") == before


@pytest.mark.parametrize(
    ("status", "why", "retry"),
    [
        pytest.param(
            {"currentHealthy": 1, "desiredHealthy": 1},
            "The disruption budget b needs 1 healthy pods and has 1 currently",
            0,
            id="none to spare",
        ),
        pytest.param(
            {"observedGeneration": 0},
            "The disruption budget b is still being processed by the server.",
            10,
            id="not looked at yet",
        ),
        pytest.param(
            {
                "currentHealthy": 2,
                "desiredHealthy": 1,
                "conditions": [
                    {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}
                ],
            },
            "The disruption budget b does not allow evicting pods currently because it failed sync: no scale",
            0,
            id="not understood",
        ),
        pytest.param(
            {
                "currentHealthy": 2,
                "desiredHealthy": 1,
                "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "Mood", "message": "bad"}],
            },
            "The disruption budget b does not allow evicting pods currently (Mood): bad",
            0,
            id="for a reason",
        ),
        pytest.param(
            {"currentHealthy": 2, "desiredHealthy": 1},
            "The disruption budget b does not allow evicting pods currently",
            0,
            id="for no reason",
        ),
    ],
)
async def test_refusals(server: Harness, status: Body, why: str, retry: int) -> None:
    await running(server)
    await budget(server, **status)
    pod = await server.get(POD, "a")
    with pytest.raises(TooManyRequests) as refusal:
        await server.evict("a", eviction())
    assert refusal.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
    details = refusal.value.details
    assert details is not None
    assert [(cause.reason, cause.message) for cause in details.causes] == [("DisruptionBudget", why)]
    assert details.retry_after_seconds == retry
    assert await server.get(POD, "a") == pod


async def test_too_many_unconfirmed(server: Harness) -> None:
    await running(server)
    many = {f"p{i}": "2026-01-02T03:04:05Z" for i in range(2001)}
    await budget(server, disruptionsAllowed=1, disruptedPods=many)
    with pytest.raises(Forbidden, match="too many evictions not confirmed"):
        await server.evict("a", eviction())


async def test_pod_with_two_budgets_is_not_evicted(server: Harness) -> None:
    await running(server)
    for name in ("b", "c"):
        await budget(server, name, disruptionsAllowed=1)
    with pytest.raises(ApiError, match="more than one PodDisruptionBudget") as refusal:
        await server.evict("a", eviction())
    assert refusal.value.code == 500


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        pytest.param({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, {}, id="always"),
        pytest.param({}, {"currentHealthy": 1, "desiredHealthy": 1}, id="where the others suffice"),
    ],
)
async def test_unhealthy_pod_is_evicted(server: Harness, spec: Body, status: Body) -> None:
    await running(server, ready=False)
    await budget(server, spec=spec, **status)
    assert (await server.evict("a", eviction())).code == 201


async def test_unhealthy_pod_stays_below_desired_healthy(server: Harness) -> None:
    await running(server, ready=False)
    await budget(server, currentHealthy=0, desiredHealthy=1)
    with pytest.raises(TooManyRequests):
        await server.evict("a", eviction())


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_non_running_pod_is_evicted_without_pdb_check(server: Harness, phase: str) -> None:
    await running(server, phase=phase)
    await budget(server)
    assert (await server.evict("a", eviction())).code == 201


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param({"matchLabels": {"app": "other"}}, id="other pods"),
        pytest.param(None, id="without selector"),
    ],
)
async def test_budget_applies_to_selected_pods_only(server: Harness, selector: Body | None) -> None:
    await running(server)
    await budget(server, spec={"selector": selector})
    assert (await server.evict("a", eviction(gracePeriodSeconds=0))).code == 201
    with pytest.raises(NotFound):
        await server.get(POD, "a")
