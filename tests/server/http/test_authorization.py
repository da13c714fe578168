"""Who may do what, and upstream's words for "you may not"."""

import pytest

from mooring.api import kinds
from mooring.api.errors import Details, Forbidden
from mooring.server.contract import Target, User
from mooring.server.http.authorization import authorize, authorize_path
from mooring.server.http.routing import Verb

ALICE = User("alice", ("dev", "system:authenticated"))
ADMIN = User("admin", ("system:masters",))


@pytest.mark.parametrize(
    ("verb", "target", "want"),
    [
        pytest.param(
            Verb.LIST,
            Target(kinds.POD, "default"),
            'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"',
            id="collection in a namespace",
        ),
        pytest.param(
            Verb.WATCH,
            Target(kinds.POD),
            'pods is forbidden: User "alice" cannot watch resource "pods" in API group "" at the cluster scope',
            id="collection everywhere",
        ),
        pytest.param(
            Verb.GET,
            Target(kinds.STATEFUL_SET, "d", "web"),
            'statefulsets.apps "web" is forbidden: User "alice" cannot get resource "statefulsets" '
            'in API group "apps" in the namespace "d"',
            id="object in a group",
        ),
        pytest.param(
            Verb.PATCH,
            Target(kinds.NODE, "", "n", "status"),
            'nodes "n" is forbidden: User "alice" cannot patch resource "nodes/status" '
            'in API group "" at the cluster scope',
            id="subresource",
        ),
    ],
)
def test_ordinary_users_may_do_nothing(verb: Verb, target: Target, want: str) -> None:
    with pytest.raises(Forbidden) as refused:
        authorize(ALICE, verb, target)
    assert refused.value.message == want
    assert refused.value.details == Details(name=target.name, group=target.kind.group, kind=target.kind.plural)


def test_masters_may_do_everything() -> None:
    authorize(ADMIN, Verb.DELETE_COLLECTION, Target(kinds.SECRET, "kube-system"))
    authorize_path(ADMIN, "GET", "/metrics")


def test_other_paths_are_forbidden_too() -> None:
    with pytest.raises(Forbidden, match=r'^forbidden: User "alice" cannot get path "/metrics"$'):
        authorize_path(ALICE, "GET", "/metrics")
