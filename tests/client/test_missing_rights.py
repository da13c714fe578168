"""What a refusal says about the rule to add."""

import pytest

from mooring.api.errors import Forbidden
from mooring.client.missing_rights import MissingRight, missing_right
from mooring.server.authorization.attributes import Decision, ResourceRequest
from mooring.server.authorization.refusals import refusal
from mooring.server.contract import User

WHO = "system:serviceaccount:mooring-system:mooring-scheduler"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        pytest.param(
            f'pods is forbidden: User "{WHO}" cannot list resource "pods" in API group "" at the cluster scope',
            MissingRight(WHO, ("list", "watch"), "pods", ""),
            id="of an informer",
        ),
        pytest.param(
            f'csistoragecapacities.storage.k8s.io is forbidden: User "{WHO}" cannot watch resource '
            '"csistoragecapacities" in API group "storage.k8s.io" at the cluster scope',
            MissingRight(WHO, ("list", "watch"), "csistoragecapacities", "storage.k8s.io"),
            id="the other half of one",
        ),
        pytest.param(
            f'leases.coordination.k8s.io "l" is forbidden: User "{WHO}" cannot patch resource "leases" in API group '
            '"coordination.k8s.io" in the namespace "mooring-system"',
            MissingRight(WHO, ("patch",), "leases", "coordination.k8s.io", "mooring-system"),
            id="in a namespace",
        ),
        pytest.param(
            f'pods "p" is forbidden: User "{WHO}" cannot create resource "pods/binding" in API group "" '
            'in the namespace "default": RBAC: clusterrole.rbac.authorization.k8s.io "x" not found',
            MissingRight(WHO, ("create",), "pods/binding", "", "default"),
            id="of a subresource, with a reason",
        ),
        pytest.param('pods "p" is forbidden: exceeded quota: few, requested: pods=1', None, id="a quota"),
        pytest.param("", None, id="nothing said"),
    ],
)
def test_the_right_is_read_off(text: str, right: MissingRight | None) -> None:
    assert missing_right(Forbidden(text)) == right


@pytest.mark.req("T32.message")
def test_the_message_names_the_rule_and_for_whom() -> None:
    cluster = MissingRight(WHO, ("list", "watch"), "csistoragecapacities", "storage.k8s.io")
    assert str(cluster) == (
        f"{WHO} lacks a right: add the rule "
        '{apiGroups: ["storage.k8s.io"], resources: ["csistoragecapacities"], verbs: [list, watch]} '
        "to a ClusterRole that is bound to it"
    )
    local = MissingRight(WHO, ("patch",), "leases", "coordination.k8s.io", "mooring-system")
    assert str(local).endswith("to a Role in namespace mooring-system that is bound to it")


def test_our_own_servers_refusals_are_understood() -> None:
    request = ResourceRequest("delete", "apps", "statefulsets", namespace="default", name="db")
    said = refusal(User("u"), request, Decision(False))
    assert isinstance(said, Forbidden)
    assert missing_right(said) == MissingRight("u", ("delete",), "statefulsets", "apps", "default")
