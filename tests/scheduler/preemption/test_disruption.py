import msgspec
import pytest

from mooring.api.kinds import DISRUPTION_BUDGET
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import DisruptionBudget
from mooring.scheduler.preemption.nominator import DisruptionBudgets
from support.builders import Body, a_pod, metadata

pytestmark = pytest.mark.req("T22.budgets")


def a_budget(
    *, allowed: int, selector: Body | None, name: str = "budget", namespace: str = "default", **status: object
) -> DisruptionBudget:
    body = {
        "metadata": metadata(name=name, namespace=namespace, uid="u", version="1"),
        "spec": {"selector": selector} if selector is not None else {},
        "status": {"disruptionsAllowed": allowed} | status,
    }
    return DISRUPTION_BUDGET.decode(msgspec.json.encode(body))


WEB: Body = {"matchLabels": {"app": "web"}}


def web(name: str, **more: object) -> Pod:
    return a_pod(name=name, labels={"app": "web"}, **more)


@pytest.mark.parametrize(
    ("budgets", "want"),
    [
        pytest.param([], [], id="no budget"),
        pytest.param([a_budget(allowed=0, selector=WEB)], ["a", "b", "c"], id="none may go"),
        pytest.param([a_budget(allowed=1, selector=WEB)], ["b", "c"], id="one may go"),
        pytest.param([a_budget(allowed=5, selector=WEB)], [], id="all may go"),
        pytest.param([a_budget(allowed=0, selector=WEB, namespace="other")], [], id="in another namespace"),
        pytest.param([a_budget(allowed=0, selector={"matchLabels": {"app": "db"}})], [], id="of other pods"),
        pytest.param([a_budget(allowed=0, selector={})], [], id="an empty selector"),
        pytest.param([a_budget(allowed=0, selector=None)], [], id="no selector"),
        pytest.param(
            [a_budget(allowed=0, selector=WEB, disruptedPods={"b": "2026-01-01T00:00:00Z"})],
            ["a", "c"],
            id="one whose going was granted",
        ),
        pytest.param(
            [a_budget(allowed=1, selector=WEB), a_budget(name="second", allowed=0, selector=WEB)],
            ["a", "b", "c"],
            id="of two budgets both count",
        ),
    ],
)
def test_budgets_protect_matching_pods(budgets: list[DisruptionBudget], want: list[str]) -> None:
    kept = DisruptionBudgets()
    for budget in budgets:
        assert kept.observe(None, budget) == ""
    pods = [web("a"), web("b"), web("c")]
    assert [pod.name for pod, protected in zip(pods, kept.overdrawn(pods), strict=True) if protected] == want


def test_pods_without_labels_are_not_protected() -> None:
    kept = DisruptionBudgets()
    kept.observe(None, a_budget(allowed=0, selector={"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}))
    assert kept.overdrawn([a_pod()]) == [False]


def test_budgets_change_and_go() -> None:
    kept = DisruptionBudgets()
    none, one = a_budget(allowed=0, selector=WEB), a_budget(allowed=1, selector=WEB)
    kept.observe(None, none)
    kept.observe(none, one)
    assert kept.overdrawn([web("a")]) == [False]
    kept.observe(one, None)
    assert kept.overdrawn([web("a"), web("b")]) == [False, False]


def test_invalid_selector_is_reported() -> None:
    assert DisruptionBudgets().observe(None, a_budget(allowed=0, selector={"matchLabels": {"a b": "c"}}))
