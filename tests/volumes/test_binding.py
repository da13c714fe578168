"""Promises over observed objects: they hold for one version, and what is observed wins.

The states a volume passes through on its way to a claim, read off its claimRef.

What a pod's claims mean for it before any node is looked at.
"""

import sys

import pytest

from mooring.api.views.meta import ObjectReference
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.binding import (
    AssumeCache,
    BindingPlan,
    HoldState,
    OutOfSync,
    PodClaims,
    Provisioning,
    StaticBinding,
    classify_claims,
    held_reference,
    hold_state,
)
from support.builders import Body, a_claim, a_class, a_pod, a_volume, claim_ref, owned_by, pod_body

CLAIM = ObjectReference(name="claim", namespace="default", uid="1")

pytestmark = [pytest.mark.level("u")]


def promised(volume: Volume) -> Volume:
    return volume.assumed_for(CLAIM, by_controller=True)


def cache_with(*volumes: Volume) -> AssumeCache[Volume]:
    cache: AssumeCache[Volume] = AssumeCache()
    for volume in volumes:
        cache.observe(volume.key, volume)
    return cache


def assumed_cache(volume: Volume) -> tuple[AssumeCache[Volume], Volume]:
    cache, promise = cache_with(volume), promised(volume)
    cache.assume(promise, instead_of=volume)
    return cache, promise


@pytest.mark.req("T14.newer-wins", "T14.restore")
def test_assumed_object_hides_the_observed_one_until_it_is_restored() -> None:
    volume = a_volume(name="v", version="5")
    cache, promise = assumed_cache(volume)

    assert cache.get("v") is promise
    assert list(cache.promised()) == [promise]
    cache.restore(promise)
    assert cache.get("v") is volume
    assert not cache.promised()


@pytest.mark.req("T14.newer-wins")
@pytest.mark.parametrize(
    ("now", "kept"),
    [
        pytest.param(a_volume(name="v", version="5"), True, id="the same version again"),
        pytest.param(a_volume(name="v", version="6"), False, id="a newer version"),
        pytest.param(a_volume(name="v", version="4"), False, id="an older version, after a restored backup"),
        pytest.param(None, False, id="the object is gone"),
    ],
)
def test_observed_updates_win_unless_they_repeat_the_version(now: Volume | None, kept: bool) -> None:
    cache, promise = assumed_cache(a_volume(name="v", version="5"))

    cache.observe("v", now)

    assert cache.get("v") == (promise if kept else now)


@pytest.mark.req("T14.newer-wins")
def test_an_object_that_comes_back_is_not_assumed() -> None:
    volume = a_volume(name="v", version="5")
    cache, _ = assumed_cache(volume)

    cache.observe("v", None)
    cache.observe("v", volume)

    assert cache.get("v") is volume


@pytest.mark.req("T14.versions")
@pytest.mark.parametrize(
    ("stored", "text"),
    [
        pytest.param([], '"v" is out of sync (not stored, assume: 5)', id="not stored"),
        pytest.param(["6"], '"v" is out of sync (stored: 6, assume: 5)', id="another version"),
    ],
)
def test_assuming_needs_the_observed_version(stored: list[str], text: str) -> None:
    volume = a_volume(name="v", version="5")
    cache = cache_with(*(a_volume(name="v", version=version) for version in stored))

    with pytest.raises(OutOfSync) as refused:
        cache.assume(promised(volume), instead_of=volume)

    assert str(refused.value) == text
    assert cache.get("v") == (a_volume(name="v", version="6") if stored else None)


@pytest.mark.req("T14.versions")
def test_a_promise_of_another_version_is_refused() -> None:
    volume = a_volume(name="v", version="5")
    cache = cache_with(volume)

    with pytest.raises(OutOfSync):
        cache.assume(promised(a_volume(name="v", version="6")), instead_of=volume)

    assert cache.get("v") == volume


@pytest.mark.req("T14.versions")
def test_assuming_needs_the_object_the_decision_was_made_on() -> None:
    volume = a_volume(name="v", version="5")
    cache, promise = assumed_cache(volume)
    other = volume.assumed_for(ObjectReference(name="other", namespace="default"), by_controller=True)

    with pytest.raises(OutOfSync, match="already assumed otherwise"):
        cache.assume(other, instead_of=volume)

    assert cache.get("v") is promise


@pytest.mark.req("T14.versions")
def test_a_promise_can_be_replaced_by_a_decision_made_on_it() -> None:
    cache, promise = assumed_cache(a_volume(name="v", version="5"))
    other = promise.assumed_for(ObjectReference(name="other", namespace="default"), by_controller=True)

    cache.assume(other, instead_of=promise)

    assert cache.get("v") is other


@pytest.mark.req("T14.restore")
def test_restoring_is_idempotent() -> None:
    volume = a_volume(name="v", version="5")
    cache, promise = assumed_cache(volume)

    cache.restore(promise)
    cache.restore(promise)

    assert cache.get("v") is volume


@pytest.mark.req("T14.restore")
def test_restoring_leaves_a_later_promise_alone() -> None:
    volume = a_volume(name="v", version="5")
    cache, first = assumed_cache(volume)
    cache.restore(first)
    second = promised(volume)
    cache.assume(second, instead_of=volume)

    cache.restore(first)

    assert cache.get("v") is second


@pytest.mark.req("T14.restore")
def test_restoring_a_written_object_keeps_the_promise_until_it_is_observed() -> None:
    cache, promise = assumed_cache(a_volume(name="v", version="5"))

    cache.restore(a_volume(name="v", version="6"))

    assert cache.get("v") is promise


@pytest.mark.req("T14.cheap")
def test_an_object_nothing_is_assumed_of_costs_its_place_in_one_dict() -> None:
    volumes = [a_volume(name=f"v{number}") for number in range(100)]
    cache = cache_with(*volumes)

    assert all(cache.get(volume.key) is volume for volume in volumes)
    owned = [value for value in vars(cache).values() if isinstance(value, dict)]
    assert sum(map(len, owned)) == len(volumes)
    assert sum(map(sys.getsizeof, owned)) < 100 * len(volumes)


OURS = "mooring-system"


@pytest.mark.parametrize(
    ("reference", "state"),
    [
        pytest.param(None, HoldState.FREE, id="unreserved"),
        pytest.param(
            claim_ref(name="hold-claim-uid", namespace=OURS), HoldState.HELD, id="reserved for a claim, unbound"
        ),
        pytest.param(
            claim_ref(name="rollback-claim-uid", namespace=OURS), HoldState.ROLLING_BACK, id="on its way to be deleted"
        ),
        pytest.param(claim_ref(name="data", uid="u"), HoldState.COMMITTED, id="a claim's"),
        pytest.param(claim_ref(name="data"), HoldState.COMMITTED, id="reserved by its user, by name"),
        pytest.param(
            claim_ref(name="hold-claim-uid", namespace="elsewhere"), HoldState.COMMITTED, id="a claim that is called so"
        ),
        pytest.param(
            claim_ref(name="hold-x", namespace=OURS, uid="u"), HoldState.COMMITTED, id="a claim in our namespace"
        ),
    ],
)
def test_the_state_is_one_field_of_one_object(reference: Body | None, state: HoldState) -> None:
    assert hold_state(a_volume(claim_ref=reference), hold_namespace=OURS) is state


def test_hold_state_by_claim_ref() -> None:
    reference = held_reference("claim-uid", hold_namespace=OURS)
    assert (reference.namespace, reference.name, reference.uid) == (OURS, "hold-claim-uid", "")


@pytest.mark.parametrize(
    ("static", "provision", "empty", "requires_hold"),
    [
        pytest.param(0, 0, True, False, id="nothing to bind"),
        pytest.param(1, 0, False, False, id="one existing volume"),
        pytest.param(0, 1, False, False, id="one new volume"),
        pytest.param(1, 1, False, True, id="one of each"),
        pytest.param(2, 0, False, True, id="two existing volumes"),
    ],
)
def test_only_a_plan_for_several_volumes_can_succeed_by_half(
    static: int, provision: int, empty: bool, requires_hold: bool
) -> None:
    plan = BindingPlan(
        "node-1",
        static=tuple(StaticBinding(a_claim(), a_volume()) for _ in range(static)),
        provision=tuple(Provisioning(a_claim()) for _ in range(provision)),
    )
    assert (plan.empty, plan.requires_hold) == (empty, requires_hold)


CLASSES = {
    storage_class.name: storage_class
    for storage_class in (
        a_class(name="local"),
        a_class(name="now", binding_mode="Immediate"),
        a_class(name="unset", binding_mode=None),
    )
}
BROKEN = {"matchExpressions": [{"key": "medium", "operator": "Near", "values": ["ssd"]}]}


def sorted_claims(pod: Pod, *claims: Claim) -> PodClaims | str:
    return classify_claims(pod, {claim.key: claim for claim in claims}.get, CLASSES)


@pytest.mark.req("T9.unusable")
@pytest.mark.level("u")
@pytest.mark.parametrize(
    ("claims", "want"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="missing"),
        pytest.param(
            [a_claim(name="data", namespace="other")], 'persistentvolumeclaim "data" not found', id="other namespace"
        ),
        pytest.param(
            [a_claim(name="data", phase="Lost", volume="v")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
            id="lost",
        ),
        pytest.param(
            [a_claim(name="data", deleting=True)], 'persistentvolumeclaim "data" is being deleted', id="being deleted"
        ),
        pytest.param(
            [a_claim(name="data", storage_class="now")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="immediate and unbound",
        ),
        pytest.param(
            [a_claim(name="data", storage_class="unknown")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="class does not exist",
        ),
        pytest.param(
            [a_claim(name="data", storage_class=None)],
            "pod has unbound immediate PersistentVolumeClaims",
            id="no class",
        ),
        pytest.param(
            [a_claim(name="data", volume="v")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="delayed but prebound by the user",
        ),
        pytest.param(
            [a_claim(name="data", storage_class="unset")],
            'VolumeBindingMode not set for StorageClass "unset"',
            id="class without a mode",
        ),
        pytest.param(
            [a_claim(name="data", selector=BROKEN)],
            'persistentvolumeclaim "data" is invalid: "Near" is not a valid label selector operator',
            id="broken selector",
        ),
    ],
)
def test_refusals(claims: list[Claim], want: str) -> None:
    assert sorted_claims(a_pod(claims=["data"]), *claims) == want


def test_an_unreadable_size_is_a_refusal() -> None:
    refused = sorted_claims(a_pod(claims=["data"]), a_claim(name="data", size="much"))

    assert isinstance(refused, str)
    assert refused.startswith('persistentvolumeclaim "data" is invalid: quantity "much"')


POD = a_pod(name="web", ephemeral=["scratch"])
MINE = [owned_by(pod_body(name="web"), uid="web-uid")]
NOT_OWNER = "PVC default/web-scratch was not created for pod default/web (pod is not owner)"


@pytest.mark.req("T9.unusable")
@pytest.mark.level("u")
@pytest.mark.parametrize(
    ("claims", "want"),
    [
        pytest.param(
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch"',
            id="not created yet",
        ),
        pytest.param([a_claim(name="web-scratch")], NOT_OWNER, id="no owner"),
        pytest.param(
            [a_claim(name="web-scratch", owners=[owned_by(pod_body(name="web"), uid="earlier")])],
            NOT_OWNER,
            id="of an earlier pod of that name",
        ),
        pytest.param(
            [a_claim(name="web-scratch", owners=[owned_by(pod_body(name="web"), uid="web-uid", controller=False)])],
            NOT_OWNER,
            id="owned, but not controlled",
        ),
    ],
)
def test_ephemeral_volumes_need_their_own_claim(claims: list[Claim], want: str) -> None:
    assert sorted_claims(POD, *claims) == want


def test_an_ephemeral_volume_with_its_own_claim() -> None:
    claim = a_claim(name="web-scratch", owners=MINE, volume="v", bound=True)

    assert sorted_claims(POD, claim) == PodClaims(bound=(claim,))


def test_claims_are_sorted_by_what_they_wait_for() -> None:
    bound = a_claim(name="bound", storage_class="now", volume="v", bound=True)
    unbound = a_claim(name="unbound")
    selected = a_claim(name="selected", selected_node="node-1")

    found = sorted_claims(a_pod(claims=["selected", "unbound", "bound"]), bound, unbound, selected)

    assert isinstance(found, PodClaims)
    assert found.bound == (bound,)
    assert [needs.claim for needs in found.unbound] == [unbound]
    assert [needs.claim for needs in found.provisioning] == [selected]
    assert not found.all_bound
    assert not found.none


def test_a_claim_mounted_twice_is_one_claim() -> None:
    found = sorted_claims(a_pod(claims=["data", "data"]), a_claim(name="data"))

    assert isinstance(found, PodClaims)
    assert len(found.unbound) == 1


def test_a_pod_without_claims() -> None:
    found = sorted_claims(a_pod(volumes=[{"name": "tmp", "emptyDir": {}}]))

    assert isinstance(found, PodClaims)
    assert found.none
    assert found.all_bound


def test_an_illegal_claim_is_named_before_one_that_has_to_wait() -> None:
    refused = sorted_claims(a_pod(claims=["now", "gone"]), a_claim(name="now", storage_class="now"))

    assert refused == 'persistentvolumeclaim "gone" not found'
