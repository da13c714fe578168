"""What a refusal says about the rule to add."""

import pytest

from mooring.api.errors import Forbidden
from mooring.client.responses import MissingPermission, missing_permission
from mooring.server.auth.access import refusal
from mooring.server.auth.rbac import AuthorizationDecision, ResourceRequest
from mooring.server.contract import User

SUBJECT = "system:serviceaccount:mooring-system:mooring-scheduler"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        pytest.param(
            f'pods is forbidden: User "{SUBJECT}" cannot list resource "pods" in API group "" at the cluster scope',
            MissingPermission(SUBJECT, ("list", "watch"), "pods", ""),
            id="of an informer",
        ),
        pytest.param(
            f'csistoragecapacities.storage.k8s.io is forbidden: User "{SUBJECT}" cannot watch resource '
            '"csistoragecapacities" in API group "storage.k8s.io" at the cluster scope',
            MissingPermission(SUBJECT, ("list", "watch"), "csistoragecapacities", "storage.k8s.io"),
            id="the other half of one",
        ),
        pytest.param(
            f'leases.coordination.k8s.io "l" is forbidden: User "{SUBJECT}" cannot patch resource "leases" in API '
            'group "coordination.k8s.io" in the namespace "mooring-system"',
            MissingPermission(SUBJECT, ("patch",), "leases", "coordination.k8s.io", "mooring-system"),
            id="in a namespace",
        ),
        pytest.param(
            f'pods "p" is forbidden: User "{SUBJECT}" cannot create resource "pods/binding" in API group "" '
            'in the namespace "default": RBAC: clusterrole.rbac.authorization.k8s.io "x" not found',
            MissingPermission(SUBJECT, ("create",), "pods/binding", "", "default"),
            id="of a subresource, with a reason",
        ),
        pytest.param('pods "p" is forbidden: exceeded quota: few, requested: pods=1', None, id="a quota"),
        pytest.param("", None, id="nothing said"),
    ],
)
def test_the_right_is_read_off(text: str, right: MissingPermission | None) -> None:
    assert missing_permission(Forbidden(text)) == right


@pytest.mark.req("T32.message")
def test_the_message_names_the_rule_and_its_subject() -> None:
    cluster = MissingPermission(SUBJECT, ("list", "watch"), "csistoragecapacities", "storage.k8s.io")
    assert str(cluster) == (
        f"{SUBJECT} lacks a permission: add the rule "
        '{apiGroups: ["storage.k8s.io"], resources: ["csistoragecapacities"], verbs: [list, watch]} '
        "to a ClusterRole that is bound to it"
    )
    local = MissingPermission(SUBJECT, ("patch",), "leases", "coordination.k8s.io", "mooring-system")
    assert str(local).endswith("to a Role in namespace mooring-system that is bound to it")


def test_our_own_servers_refusals_are_understood() -> None:
    request = ResourceRequest("delete", "apps", "statefulsets", namespace="default", name="db")
    said = refusal(User("u"), request, AuthorizationDecision(False))
    assert isinstance(said, Forbidden)
    assert missing_permission(said) == MissingPermission("u", ("delete",), "statefulsets", "apps", "default")
