"""What a pod's claims mean for it before any node is looked at."""

import pytest

from builders import a_claim, a_class, a_pod, owned_by, pod_body
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.volumes.pod_claims import PodClaims, sort_claims

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
    return sort_claims(pod, {claim.key: claim for claim in claims}.get, CLASSES)


@pytest.mark.req("T9")
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
            'persistentvolumeclaim "data" cannot be understood: "Near" is not a valid label selector operator',
            id="broken selector",
        ),
    ],
)
def test_refusals(claims: list[Claim], want: str) -> None:
    assert sorted_claims(a_pod(claims=["data"]), *claims) == want


def test_an_unreadable_size_is_a_refusal() -> None:
    refused = sorted_claims(a_pod(claims=["data"]), a_claim(name="data", size="much"))

    assert isinstance(refused, str)
    assert refused.startswith('persistentvolumeclaim "data" cannot be understood: quantity "much"')


POD = a_pod(name="web", ephemeral=["scratch"])
MINE = [owned_by(pod_body(name="web"), uid="web-uid")]
NOT_OWNER = "PVC default/web-scratch was not created for pod default/web (pod is not owner)"


@pytest.mark.req("T9")
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
    assert [needs.claim for needs in found.selected] == [selected]
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
