"""Clusters that give pods all of their volumes or none: how that is known, and what difference it makes."""

from collections.abc import Mapping

import pytest

from mooring.api import well_known
from mooring.control.component_info import COMPONENTS, GATES_SET, LABEL, VERSION
from mooring.control.feature_gates import CLAIM_ROLLBACK, PROVISIONING_ROLLBACK, Gate
from mooring.volumes.claim_rollback import CLEAN
from mooring.volumes.holds import objects as marks
from mooring.whatif.drivers import notes, rollback_of
from mooring.whatif.question import WhatIfQuestion
from mooring.whatif.results import SimulationResult
from mooring.whatif.run import answer
from support.builders import Body, claim_body, claim_ref, class_body, driver_body, pod_body, volume_body
from support.whatif.questions import DRIVER, FAST, inventory, nodes, pending, placed, pool, replica_set, running

HOLD = {PROVISIONING_ROLLBACK: True}
UNBIND = {CLAIM_ROLLBACK: True}


#: Gates, as a scheduler announces them.
BOTH = "ProvisioningRollback=true,ClaimRollback=true"


def lease(name: str, *, at: str = "10:00:00", namespace: str = "mooring-system", **announced: str) -> Body:
    labels = {LABEL: "true"} if announced else {}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": announced},
        "spec": {"holderIdentity": "holder", "renewTime": f"2026-01-02T{at}.000000Z"},
    }


def announced(components: str, gates: str) -> Body:
    return lease("x-announcement", **{VERSION: "1", COMPONENTS: components, GATES_SET: gates})


def held_volume() -> Body:
    reference = claim_ref(name="hold-a-uid", namespace="elsewhere")
    return volume_body(
        name="held",
        uid="held-uid",
        node="n1",
        claim_ref=reference,
        annotations={marks.CLAIM: "default/a", marks.NODE: "n1"},
    )


COORDINATOR = lease(well_known.COORDINATOR_LEASE)


@pytest.mark.parametrize(
    ("bodies", "overrides", "coordinator", "holds", "unbinds", "namespace"),
    [
        pytest.param([], {}, False, True, False, "kube-system", id="nothing is told"),
        pytest.param([COORDINATOR], {}, True, True, False, "mooring-system", id="a coordinator"),
        pytest.param(
            [lease(well_known.COORDINATOR_LEASE, at="09:00:00"), lease("node-1")],
            {},
            False,
            True,
            False,
            "kube-system",
            id="a coordinator that is long gone",
        ),
        pytest.param([held_volume()], {}, True, True, False, "elsewhere", id="a volume that is held"),
        pytest.param(
            [COORDINATOR, announced("mooring-coordinator", "ProvisioningRollback=false")],
            {},
            True,
            False,
            False,
            "mooring-system",
            id="a coordinator that is to hold nothing more",
        ),
        pytest.param(
            [announced("scheduler", BOTH)],
            {},
            False,
            True,
            True,
            "kube-system",
            id="claims are unbound",
        ),
        pytest.param(
            [announced("scheduler", BOTH), announced("persistentvolume-controller", "ProvisioningRollback=true")],
            {},
            False,
            True,
            False,
            "kube-system",
            id="claims are unbound once all instances announce it",
        ),
        pytest.param(
            [announced("other", "ClaimRollback=true")],
            {},
            False,
            True,
            False,
            "kube-system",
            id="an unrelated component",
        ),
        pytest.param([], HOLD, True, True, False, "kube-system", id="as people wish: holds"),
        pytest.param(
            [COORDINATOR], {PROVISIONING_ROLLBACK: False}, True, False, False, "mooring-system", id="no holds"
        ),
        pytest.param([], UNBIND, False, True, True, "kube-system", id="as people wish: claims"),
    ],
)
def test_rollback_settings_follow_from_leases_and_holds(
    bodies: list[Body],
    overrides: Mapping[Gate, bool],
    coordinator: bool,
    holds: bool,
    unbinds: bool,
    namespace: str,
) -> None:
    found = rollback_of(inventory(bodies), overrides)
    assert found.coordinator is coordinator
    assert found.gates.enabled(PROVISIONING_ROLLBACK) is holds
    assert found.gates.enabled(CLAIM_ROLLBACK) is unbinds
    assert found.namespace == namespace


def test_leases_are_no_objects_that_were_left_out() -> None:
    seen = inventory([COORDINATOR, lease("node-1")])
    assert not seen.skipped
    assert len(seen.leases) == 2


def ask(*documents: Body, gates: Mapping[Gate, bool] | None = None, seed: int = 0) -> SimulationResult:
    return answer(WhatIfQuestion(inventory(documents), gates=gates or {}, seed=seed))


def two_claims() -> list[Body]:
    """A pod that likes n1, where only one of its volumes can be made, and n2, where both can. The driver
    reports no capacity, so that the scheduler has to find out."""
    likes = {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": well_known.HOSTNAME, "operator": "In", "values": ["n1"]}]},
    }
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [likes]}}
    return [
        *nodes(2),
        driver_body(name=DRIVER, tracks_capacity=False),
        class_body(name=FAST, provisioner=DRIVER),
        pool("n1", "3Gi"),
        pool("n2", "5Gi"),
        claim_body(name="a", size="2Gi", storage_class=FAST),
        claim_body(name="b", size="2Gi", storage_class=FAST),
        pod_body(name="pair", claims=["a", "b"], affinity=affinity),
    ]


def test_without_a_coordinator_a_volume_stays_where_the_other_has_no_capacity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It would be tried for ever.
    monkeypatch.setattr("mooring.whatif.run.MAX_SIMULATED_SECONDS", 600.0)
    result = ask(*two_claims())
    assert "pair" in pending(result)
    assert not any("coordinator" in note for note in result.notes)


@pytest.mark.parametrize(
    ("more", "gates"), [pytest.param([], HOLD, id="asked for"), pytest.param([COORDINATOR], {}, id="found")]
)
def test_with_a_coordinator_the_pod_gets_the_node_with_capacity_for_both_volumes(
    more: list[Body], gates: Mapping[Gate, bool]
) -> None:
    result = ask(*two_claims(), *more, gates=gates)
    assert placed(result) == {"pair": "n2"}
    assert result.ok
    assert [(each.segment[well_known.HOSTNAME], each.after) for each in result.capacity] == [
        ("n1", "3Gi"),
        ("n2", "1Gi"),
    ]
    messages = ("pods get all of their volumes or none, because the cluster has a coordinator",)
    assert result.notes == (messages if more else ())


def test_the_same_question_has_the_same_answer() -> None:
    assert ask(*two_claims(), gates=HOLD) == ask(*two_claims(), gates=HOLD)


def clean_claim() -> list[Body]:
    """A claim that was bound on a node that its pod cannot use, and that no pod has used yet."""
    claim = claim_body(name="a", uid="a-uid", volume="disk", bound=True, phase="Bound", storage_class="local")
    claim["metadata"]["annotations"] |= {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
    claim["status"] |= {"conditions": [{"type": CLEAN, "status": "True"}]}
    bound = volume_body(
        name="disk", uid="disk-uid", node="n1", claim_ref=claim_ref(name="a", uid="a-uid"), phase="Bound"
    )
    bound["metadata"]["annotations"] = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
    return [
        *nodes(2),
        class_body(),
        claim,
        bound,
        volume_body(name="other", uid="other-uid", node="n2"),
        pod_body(name="web", claims=["a"], node_selector={well_known.HOSTNAME: "n2"}),
    ]


def test_an_unused_claim_is_unbound_for_its_pod_where_that_is_on() -> None:
    assert "web" in pending(ask(*clean_claim()))
    result = ask(*clean_claim(), gates=UNBIND)
    assert placed(result) == {"web": "n2"}


def test_what_a_pod_uses_is_not_unbound_for_another() -> None:
    """A claim that no pod used goes with its pod; one that a running pod has does not."""
    pod = replica_set(replicas=1)
    template = pod["spec"]["template"]["spec"]
    template["volumes"] = [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]
    bodies = [body for body in clean_claim() if body["kind"] != "Pod"]
    first = ask(*bodies, pod, gates=UNBIND)
    assert list(placed(first).values()) == ["n1"], "where its volume is"
    drained = answer(WhatIfQuestion(inventory([*bodies, pod]), gates=UNBIND, drain=["n1"]))
    assert list(placed(drained).values()) == ["n2"], "no pod had used it yet"
    used = running("web-a", node="n1", claims=["a"])
    assert "web" not in placed(
        ask(*bodies, used, *[body for body in clean_claim() if body["kind"] == "Pod"], gates=UNBIND)
    )


def test_notes_leave_out_gates_set_by_the_user() -> None:
    found = rollback_of(inventory([COORDINATOR, announced("scheduler", BOTH)]), {})
    assert len(notes(found, ())) == 2
    assert not notes(found, (PROVISIONING_ROLLBACK, CLAIM_ROLLBACK))


def test_what_was_held_when_the_cluster_was_listed_is_settled() -> None:
    """Its pod wants it on n1, and nothing else is missing: the hold is complete."""
    claim = claim_body(name="a", uid="a-uid", size="5Gi", storage_class="local")
    pod = pod_body(name="web", uid="web-uid", claims=["a"])
    result = ask(*nodes(1), class_body(), claim, held_volume(), pod)
    assert result.seconds < 3600
    assert placed(result) == {"web": "n1"}
