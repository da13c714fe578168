import pytest

from mooring.api.views.storage import Claim
from mooring.scheduler.extender.evaluator import MAX_CACHED_CLAIMS, FailedProvisioning
from support.builders import a_claim, a_pod

POD = a_pod(claims=["c", "d"])


def observed(*stages: Claim | None) -> FailedProvisioning:
    memory = FailedProvisioning()
    before: Claim | None = None
    for after in stages:
        memory.observe(before, after)
        before = after
    return memory


def on(node: str | None, *, volume: str = "", uid: str = "") -> Claim:
    return a_claim(name="c", selected_node=node, volume=volume, uid=uid)


@pytest.mark.req("T17.extender")
@pytest.mark.parametrize(
    ("stages", "counted"),
    [
        pytest.param((on(None),), {}, id="never sent anywhere"),
        pytest.param((on(None), on("n1")), {}, id="on its way"),
        pytest.param((on("n1"), on(None)), {"n1": 1}, id="came back"),
        pytest.param((on("n1"), on("n2")), {"n1": 1}, id="sent elsewhere at once"),
        pytest.param((on("n1"), on(None), on("n1"), on(None), on("n2"), on(None)), {"n1": 2, "n2": 1}, id="often"),
        pytest.param((on("n1"), on(None), on("n2"), on("n2", volume="v")), {}, id="has its volume"),
        pytest.param((on("n1"), on(None), None), {}, id="gone"),
        pytest.param((on("n1"), on(None), on(None, uid="another")), {}, id="another of its name"),
    ],
)
def test_where_a_claim_came_back_from(stages: tuple[Claim | None, ...], counted: dict[str, int]) -> None:
    assert observed(*stages).of(POD) == counted


def test_all_claims_of_a_pod_count_and_no_others() -> None:
    memory = FailedProvisioning()
    for name in ("c", "d", "e"):
        memory.observe(a_claim(name=name, selected_node="n1"), a_claim(name=name))
    assert memory.of(POD) == {"n1": 2}
    assert memory.of(a_pod()) == {}


def test_only_so_many_are_remembered() -> None:
    memory = FailedProvisioning()
    for number in range(MAX_CACHED_CLAIMS + 1):
        memory.observe(a_claim(name=f"c{number}", selected_node="n1"), a_claim(name=f"c{number}"))
    assert memory.of(a_pod(claims=["c0"])) == {}
    assert memory.of(a_pod(claims=["c1"])) == {"n1": 1}
