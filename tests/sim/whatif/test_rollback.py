"""Clusters that give pods all of their volumes or none: how that is known, and what difference it makes."""

from collections.abc import Mapping

import pytest

from builders import Body, claim_body, claim_ref, class_body, driver_body, pod_body, volume_body
from mooring.api import keys
from mooring.control.announcements import COMPONENTS, GATES_SET, LABEL, VERSION
from mooring.control.feature_gates import CLAIM_ROLLBACK, PROVISIONING_ROLLBACK, Gate
from mooring.sim.whatif.answer import answer
from mooring.sim.whatif.outcome import Outcome
from mooring.sim.whatif.question import Question
from mooring.sim.whatif.rollback import notes, rollback_of
from mooring.volumes.clean_claims import CLEAN
from mooring.volumes.holds import objects as marks
from sim.whatif.questions import DRIVER, FAST, inventory, nodes, pending, placed, pool, replica_set, running

HOLD = {PROVISIONING_ROLLBACK: True}
UNBIND = {CLAIM_ROLLBACK: True}


def lease(name: str, *, at: str = "10:00:00", namespace: str = "mooring-system", **announced: str) -> Body:
    labels = {LABEL: "true"} if announced else {}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": announced},
        "spec": {"holderIdentity": "somebody", "renewTime": f"2026-01-02T{at}.000000Z"},
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


COORDINATOR = lease(keys.COORDINATOR_LEASE)


@pytest.mark.parametrize(
    ("bodies", "wanted", "coordinator", "holds", "unbinds", "namespace"),
    [
        pytest.param([], {}, False, True, False, "kube-system", id="nothing is told"),
        pytest.param([COORDINATOR], {}, True, True, False, "mooring-system", id="a coordinator"),
        pytest.param(
            [lease(keys.COORDINATOR_LEASE, at="09:00:00"), lease("node-1")],
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
            [announced("scheduler", "ClaimRollback=true")],
            {},
            False,
            True,
            True,
            "kube-system",
            id="claims are unbound",
        ),
        pytest.param(
            [announced("other", "ClaimRollback=true")], {}, False, True, False, "kube-system", id="nobody it concerns"
        ),
        pytest.param([], HOLD, True, True, False, "kube-system", id="as people wish: holds"),
        pytest.param(
            [COORDINATOR], {PROVISIONING_ROLLBACK: False}, True, False, False, "mooring-system", id="no holds"
        ),
        pytest.param([], UNBIND, False, True, True, "kube-system", id="as people wish: claims"),
    ],
)
def test_how_a_cluster_works_is_told_by_its_leases_and_holds(
    bodies: list[Body],
    wanted: Mapping[Gate, bool],
    coordinator: bool,
    holds: bool,
    unbinds: bool,
    namespace: str,
) -> None:
    found = rollback_of(inventory(bodies), wanted)
    assert found.coordinator is coordinator
    assert found.gates.enabled(PROVISIONING_ROLLBACK) is holds
    assert found.gates.enabled(CLAIM_ROLLBACK) is unbinds
    assert found.namespace == namespace


def test_leases_are_no_objects_that_were_left_out() -> None:
    seen = inventory([COORDINATOR, lease("node-1")])
    assert not seen.skipped
    assert len(seen.leases) == 2


def ask(*documents: Body, gates: Mapping[Gate, bool] | None = None, seed: int = 0) -> Outcome:
    return answer(Question(inventory(documents), gates=gates or {}, seed=seed))


def two_claims() -> list[Body]:
    """A pod that likes n1, where only one of its volumes can be made, and n2, where both can. Nobody tells the
    scheduler of room, so that it has to find out."""
    likes = {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": keys.HOSTNAME, "operator": "In", "values": ["n1"]}]},
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


def test_without_a_coordinator_half_a_pod_stays_where_the_other_half_has_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It would be tried for ever.
    monkeypatch.setattr("mooring.sim.whatif.answer.LONGEST", 600.0)
    outcome = ask(*two_claims())
    assert "pair" in pending(outcome)
    assert not any("coordinator" in note for note in outcome.notes)


@pytest.mark.parametrize(
    ("more", "gates"), [pytest.param([], HOLD, id="asked for"), pytest.param([COORDINATOR], {}, id="found")]
)
def test_with_one_the_pod_finds_the_node_that_has_room_for_all(more: list[Body], gates: Mapping[Gate, bool]) -> None:
    outcome = ask(*two_claims(), *more, gates=gates)
    assert placed(outcome) == {"pair": "n2"}
    assert outcome.ok
    assert [(each.segment[keys.HOSTNAME], each.after) for each in outcome.capacity] == [("n1", "3Gi"), ("n2", "1Gi")]
    told = ("pods get all of their volumes or none, since the cluster has a coordinator",)
    assert outcome.notes == (told if more else ())


def test_the_same_question_has_the_same_answer() -> None:
    assert ask(*two_claims(), gates=HOLD) == ask(*two_claims(), gates=HOLD)


def clean_claim() -> list[Body]:
    """A claim that was bound on a node that its pod cannot use, and that nobody has used yet."""
    claim = claim_body(name="a", uid="a-uid", volume="disk", bound=True, phase="Bound", storage_class="local")
    claim["metadata"]["annotations"] |= {keys.BOUND_BY_CONTROLLER: keys.YES}
    claim["status"] |= {"conditions": [{"type": CLEAN, "status": "True"}]}
    bound = volume_body(
        name="disk", uid="disk-uid", node="n1", claim_ref=claim_ref(name="a", uid="a-uid"), phase="Bound"
    )
    bound["metadata"]["annotations"] = {keys.BOUND_BY_CONTROLLER: keys.YES}
    return [
        *nodes(2),
        class_body(),
        claim,
        bound,
        volume_body(name="other", uid="other-uid", node="n2"),
        pod_body(name="web", claims=["a"], node_selector={keys.HOSTNAME: "n2"}),
    ]


def test_an_unused_claim_is_unbound_for_its_pod_where_that_is_on() -> None:
    assert "web" in pending(ask(*clean_claim()))
    outcome = ask(*clean_claim(), gates=UNBIND)
    assert placed(outcome) == {"web": "n2"}


def test_what_a_pod_uses_is_not_unbound_for_another() -> None:
    """A claim that nobody used goes with its pod; one that a running pod has does not."""
    pod = replica_set(replicas=1)
    template = pod["spec"]["template"]["spec"]
    template["volumes"] = [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]
    bodies = [body for body in clean_claim() if body["kind"] != "Pod"]
    first = ask(*bodies, pod, gates=UNBIND)
    assert list(placed(first).values()) == ["n1"], "where its volume is"
    drained = answer(Question(inventory([*bodies, pod]), gates=UNBIND, drain=["n1"]))
    assert list(placed(drained).values()) == ["n2"], "nobody had used it yet"
    used = running("web-a", node="n1", claims=["a"])
    assert "web" not in placed(
        ask(*bodies, used, *[body for body in clean_claim() if body["kind"] == "Pod"], gates=UNBIND)
    )


def test_people_are_told_only_what_they_did_not_say() -> None:
    found = rollback_of(inventory([COORDINATOR, announced("scheduler", "ClaimRollback=true")]), {})
    assert len(notes(found, ())) == 2
    assert not notes(found, (PROVISIONING_ROLLBACK, CLAIM_ROLLBACK))


def test_what_was_held_when_the_cluster_was_listed_is_settled() -> None:
    """Its pod wants it on n1, and nothing else is missing: the hold is complete."""
    claim = claim_body(name="a", uid="a-uid", size="5Gi", storage_class="local")
    pod = pod_body(name="web", uid="web-uid", claims=["a"])
    outcome = ask(*nodes(1), class_body(), claim, held_volume(), pod)
    assert outcome.seconds < 3600
    assert placed(outcome) == {"web": "n1"}
