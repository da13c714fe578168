"""The rights of processes that people install: those of the components in them, written shorter."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.generate_deploy.installation import CONTROLLERS as INSTALLED
from tools.generate_deploy.installation import NAMESPACE, PROCESSES, merged

from mooring.api.views.core import PolicyRule
from mooring.cluster.control_plane import CONTROLLERS
from mooring.cluster.identities import identity_of
from mooring.server.auth.policy import rule
from mooring.server.auth.rbac import ResourceRequest, allows_resource

WORDS = {
    "verbs": ("get", "list", "patch"),
    "groups": ("", "apps"),
    "resources": ("pods", "leases"),
    "names": ("a", "b"),
}


def some(words: tuple[str, ...], *, least: int = 1) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(words), min_size=least, max_size=2, unique=True).map(tuple)


RULES = st.lists(
    st.builds(
        PolicyRule,
        some(WORDS["verbs"]),
        some(WORDS["groups"]),
        some(WORDS["resources"]),
        st.sampled_from([(), ("a",), ("b",)]),
    ),
    max_size=6,
)


def granted(rules: list[PolicyRule]) -> set[tuple[str, str, str, str]]:
    """All that may be done, of all there is."""
    everything = product(WORDS["verbs"], WORDS["groups"], WORDS["resources"], WORDS["names"])
    return {
        (verb, group, resource, name)
        for verb, group, resource, name in everything
        if any(allows_resource(each, ResourceRequest(verb, group, resource, name=name)) for each in rules)
    }


@given(RULES)
def test_fewer_rules_grant_the_same(rules: list[PolicyRule]) -> None:
    assert granted(merged(rules)) == granted(rules)


def test_rules_are_put_together() -> None:
    rules = [
        rule("get", "pods nodes"),
        rule("list", "pods"),
        rule("get list", "claims"),
        rule("get", "pods", names="a"),
    ]
    assert merged(rules) == [
        PolicyRule(("get",), ("",), ("nodes",)),
        PolicyRule(("get",), ("",), ("pods",), ("a",)),
        PolicyRule(("get", "list"), ("",), ("claims", "pods")),
    ]


@pytest.mark.req("T32.installed")
@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_a_process_has_the_rights_of_its_components(name: str) -> None:
    process = PROCESSES[name]
    roles = [body for body in process.manifests() if body["kind"] in ("ClusterRole", "Role")]
    given_ = [
        PolicyRule(*(tuple(one.get(field, ())) for field in ("verbs", "apiGroups", "resources", "resourceNames")))
        for body in roles
        for one in body["rules"]
    ]
    for component in process.components:
        identity = identity_of(component)
        needed_here = (one for local in identity.local.values() for one in local if one.resources != ("leases",))
        for needed in (*identity.rules, *needed_here):
            for group, resource, verb in product(needed.api_groups, needed.resources, needed.verbs):
                names = needed.resource_names or ("",)
                for wanted in names:
                    request = ResourceRequest(verb, group, resource, name=wanted)
                    assert any(allows_resource(each, request) for each in given_), (component, request)


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_leases_are_read_and_renewed_by_name(name: str) -> None:
    roles = [body for body in PROCESSES[name].manifests() if body["kind"] == "Role"]
    assert all(role["metadata"]["namespace"] == NAMESPACE and role["rules"] for role in roles)
    for one in (each for role in roles for each in role["rules"]):
        if one["resources"] == ["leases"] and {"get", "patch"} & set(one["verbs"]):
            assert one["resourceNames"]


def test_installed_controllers_are_controllers() -> None:
    sources = {controller.name: controller.source for controller in CONTROLLERS}
    assert INSTALLED.items() <= sources.items()
