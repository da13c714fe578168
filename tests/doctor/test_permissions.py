"""Findings about RBAC."""

import pytest

from mooring.api.kinds import CLUSTER_ROLE
from mooring.cluster.identities import identity_of
from mooring.doctor.components import KUBE_SCHEDULER, VOLUME_SCHEDULER
from mooring.doctor.findings import Severity
from mooring.server.auth.policy import account, binding, role, rule
from support.builders import Body, node_body
from support.doctor import announcement, codes, examined, only

ERROR, WARNING, INFO = Severity
MISSING = {(ERROR, "PermissionMissing")}

ROLES = [
    role(KUBE_SCHEDULER, rule("create", "pods/binding")).body(),
    role(VOLUME_SCHEDULER, rule("get list patch update watch", "persistentvolumes persistentvolumeclaims")).body(),
]
SECOND = account("second", "kube-system")


def bound(name: str, *, to: str) -> Body:
    return binding(name, SECOND, role=to).body()


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([bound("pods", to=KUBE_SCHEDULER)], MISSING, id="may not bind volumes"),
        pytest.param(
            [bound("pods", to=KUBE_SCHEDULER), bound("volumes", to=VOLUME_SCHEDULER)], set(), id="has both roles"
        ),
        pytest.param(
            [bound("pods", to=KUBE_SCHEDULER), bound("all", to="all"), role("all", rule("*", "*", "*")).body()],
            set(),
            id="has all rights",
        ),
        pytest.param([bound("volumes", to=VOLUME_SCHEDULER)], set(), id="is no scheduler"),
    ],
)
def test_second_scheduler_needs_volume_rights(bodies: list[Body], expected: set[tuple[Severity, str]]) -> None:
    assert codes(node_body(name="n1"), *ROLES, *bodies) == expected


def installed(*, without: str = "") -> list[Body]:
    rules = [one for one in identity_of("default-scheduler").rules if without not in one.resources]
    user = account("mooring-scheduler", "mooring-system")
    return [role("mooring-scheduler", *rules).body(), binding("mooring-scheduler", user).body()]


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([announcement("mooring-scheduler"), *installed()], set(), id="all rights"),
        pytest.param(
            [announcement("mooring-scheduler"), *installed(without="pods/binding")], MISSING, id="one is missing"
        ),
        pytest.param(installed(without="pods/binding"), set(), id="does not run"),
        pytest.param([announcement("mooring-scheduler")], set(), id="its account is not known"),
    ],
)
def test_component_needs_the_rights_of_its_version(bodies: list[Body], expected: set[tuple[Severity, str]]) -> None:
    assert codes(node_body(name="n1"), *bodies) == expected


def test_missing_rights_are_listed_with_the_command_that_grants_them() -> None:
    found = only("PermissionMissing", node_body(name="n1"), *ROLES, bound("pods", to=KUBE_SCHEDULER))
    assert found.affected == 10
    assert found.fix == (
        "kubectl create clusterrolebinding second-volumes --clusterrole=system:volume-scheduler "
        "--serviceaccount=kube-system:second"
    )


def test_missing_role_is_named() -> None:
    found = only(
        "PermissionMissing", node_body(name="n1"), *ROLES, bound("a", to=KUBE_SCHEDULER), bound("b", to="none")
    )
    assert found.evidence[0] == "ClusterRole none, to which it is bound, does not exist"


def test_rights_are_not_judged_when_roles_may_not_be_listed() -> None:
    found = examined(
        node_body(name="n1"), *ROLES, bound("pods", to=KUBE_SCHEDULER), unlisted={CLUSTER_ROLE: "forbidden"}
    )
    assert [one.code for one in found.findings] == []
    assert [(one.code, one.reason) for one in found.skipped] == [("PermissionMissing", "clusterroles: forbidden")]
