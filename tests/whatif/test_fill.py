"""How many more pods of a workload fit, and what runs out."""

import pytest

from mooring.whatif.fill import FillResult, fill, fill_result, fill_target
from mooring.whatif.inventory import BadQuestion
from mooring.whatif.question import WhatIfQuestion
from mooring.whatif.run import answer
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.whatif.questions import inventory, nodes, pool, provisioned_class, replica_set, running, stateful_set


def filled(*documents: Body, target: str, most: int = 100) -> FillResult:
    there = inventory(documents)
    wanted = fill_target(target, namespace="default")
    tried = fill(there, wanted, most=most)
    return fill_result(wanted, tried, answer(WhatIfQuestion(there)))


def new_pod(**more: object) -> Body:
    body = pod_body(name="web", **more)  # type: ignore[arg-type]  # fields of the builder
    return {field: value for field, value in body.items() if field != "status"}


def test_cpu_runs_out_on_every_node() -> None:
    found = filled(*nodes(2), stateful_set(replicas=0, volumeClaimTemplates=[]), target="sts/db")
    assert (found.fits, found.tried, found.nodes) == (8, 9, {"n1": 4, "n2": 4})
    assert [(each.what, each.nodes) for each in found.limits] == [("cpu", ("n1", "n2"))]
    assert found.verdict == "8 more pods of statefulset/default/db fit; then cpu runs out on n1, n2."
    assert found.ok


def test_storage_runs_out_before_cpu() -> None:
    pools = [pool("n1", "2Gi"), pool("n2", "1Gi")]
    found = filled(*nodes(2), *provisioned_class(), *pools, stateful_set(replicas=0), target="sts/db")
    assert (found.fits, found.nodes) == (3, {"n1": 2, "n2": 1})
    assert [(each.what, each.nodes) for each in found.limits] == [("storage capacity", ("n1", "n2"))]


def test_running_pods_count_and_are_not_counted() -> None:
    owner = replica_set(replicas=1, uid="web-uid")
    found = filled(*nodes(1), owner, running("web-a", node="n1", owner=owner), target="rs/web")
    assert (found.fits, found.tried) == (3, 4)


def test_pod_is_copied_with_its_claims() -> None:
    there = [*nodes(2), *provisioned_class(), pool("n1", "2Gi"), pool("n2", "1Gi")]
    claim = claim_body(name="data", storage_class="fast", size="1Gi")
    del claim["status"]
    # The pod and its claim are new as well, and take one of the three places.
    found = filled(*there, claim, new_pod(claims=["data"]), target="pod/web")
    assert found.fits == 2
    assert found.limits[0].what == "storage capacity"


def test_existing_local_volumes_run_out() -> None:
    local = stateful_set(replicas=0, storage_class="local")
    found = filled(*nodes(2), class_body(), volume_body(name="a", node="n1"), local, target="sts/db")
    assert found.fits == 1
    assert found.limits[0].what == "free volumes"


def test_fill_is_not_ok_when_no_pod_fits() -> None:
    found = filled(*nodes(1), new_pod(requests={"cpu": "100"}), target="pod/web")
    assert (found.ok, found.fits) == (False, 0)
    assert found.verdict == "No more pods of pod/default/web fit: cpu is used up on n1."


def test_verdict_names_the_limit_of_tried_pods() -> None:
    found = filled(*nodes(1), new_pod(), target="pod/web", most=3)
    assert found.verdict == "At least 3 more pods of pod/default/web fit."


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        pytest.param("web", "does not say what to fill with", id="no kind"),
        pytest.param("ds/web", "does not say what to fill with", id="no replicas"),
        pytest.param("sts/none", "StatefulSet default/none to fill with not found", id="not found"),
    ],
)
def test_wrong_targets_are_refused(target: str, problem: str) -> None:
    with pytest.raises(BadQuestion, match=problem):
        filled(*nodes(1), target=target)
