"""Validation of roles and bindings."""

from typing import Any

import pytest

from mooring.api.errors import Invalid
from mooring.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Kind
from mooring.api.patches.contract import MergePatch
from support.server.harness import Harness, problems

RBAC = "rbac.authorization.k8s.io"
PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


def role(*rules: dict[str, Any], name: str = "r", **more: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)} | more


def binding(*subjects: dict[str, Any], **ref: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"} | ref,
        "subjects": list(subjects),
    }


@pytest.mark.parametrize(
    ("kind", "body", "want"),
    [
        pytest.param(ROLE, role(PODS), [], id="a role"),
        pytest.param(ROLE, role(), [], id="a role without rules"),
        pytest.param(CLUSTER_ROLE, role(name="system:a:b_C"), [], id="a name with colons"),
        pytest.param(
            CLUSTER_ROLE, role(name="a/b"), ["metadata.name: Invalid value: \"a/b\": may not contain '/'"], id="a slash"
        ),
        pytest.param(
            ROLE,
            role(PODS | {"verbs": []}),
            ["rules[0].verbs: Required value"],
            id="no verbs",
        ),
        pytest.param(
            ROLE,
            role(PODS, {"verbs": ["get"]}),
            [
                "rules[1].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[1].resources: Required value: resource rules must supply at least one resource",
            ],
            id="about nothing",
        ),
        pytest.param(CLUSTER_ROLE, role({"verbs": ["get"], "nonResourceURLs": ["/x"]}), [], id="paths"),
        pytest.param(
            ROLE,
            role({"verbs": ["get"], "nonResourceURLs": ["/x"]}),
            [
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs'
            ],
            id="paths in a namespace",
        ),
        pytest.param(
            CLUSTER_ROLE,
            role(PODS | {"nonResourceURLs": ["/x"]}),
            [
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and '
                "non-resource URLs"
            ],
            id="paths and resources",
        ),
        pytest.param(
            CLUSTER_ROLE,
            role(aggregationRule={}),
            [
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if "
                "aggregationRule is non-nil"
            ],
            id="made of nothing",
        ),
        pytest.param(
            CLUSTER_ROLE,
            role(aggregationRule={"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}),
            ['aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "Near": '
             "not a valid selector operator"],
            id="a selector that is none",
        ),
        pytest.param(ROLE_BINDING, binding({"kind": "User", "name": "a"}), [], id="a binding"),
        pytest.param(ROLE_BINDING, binding(kind="Role"), [], id="role without subjects"),
        pytest.param(
            ROLE_BINDING,
            binding({"kind": "User", "apiGroup": "zz"}, kind="Foo", apiGroup="x", name=""),
            [
                f'roleRef.apiGroup: Unsupported value: "x": supported values: "{RBAC}"',
                'roleRef.kind: Unsupported value: "Foo": supported values: "Role", "ClusterRole"',
                f'subjects[0].apiGroup: Unsupported value: "zz": supported values: "{RBAC}"',
                "subjects[0].name: Required value",
                "roleRef.name: Required value",
            ],
            id="everything wrong",
        ),
        pytest.param(
            CLUSTER_ROLE_BINDING,
            binding(kind="Role"),
            ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
            id="a role of a namespace, everywhere",
        ),
        pytest.param(
            ROLE_BINDING,
            binding({"kind": "ServiceAccount", "name": "a", "apiGroup": "f"}, {"kind": "Other", "name": "q"}),
            [
                'subjects[0].apiGroup: Unsupported value: "f": supported values: ""',
                'subjects[1].kind: Unsupported value: "Other": supported values: "ServiceAccount", "User", "Group"',
            ],
            id="subjects of odd kinds",
        ),
        pytest.param(
            CLUSTER_ROLE_BINDING,
            binding({"kind": "ServiceAccount", "name": "a"}),
            ["subjects[0].namespace: Required value"],
            id="an account of no namespace",
        ),
    ],
)  # fmt: skip
async def test_new_ones(server: Harness, kind: Kind[Any], body: dict[str, Any], want: list[str]) -> None:
    assert await problems(server.create(kind, body)) == want


async def test_names_of_accounts(server: Harness) -> None:
    [problem] = await problems(server.create(ROLE_BINDING, binding({"kind": "ServiceAccount", "name": "A_B"})))
    assert problem.startswith('subjects[0].name: Invalid value: "A_B": a lowercase RFC 1123 subdomain')


async def test_groups_are_filled_in(server: Harness) -> None:
    subjects = [{"kind": "User", "name": "a"}, {"kind": "Group", "name": "b"}]
    account = {"kind": "ServiceAccount", "name": "s", "namespace": "d"}
    made = await server.create(ROLE_BINDING, binding(*subjects, account))
    assert made["roleRef"] == {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"}
    assert made["subjects"] == [subject | {"apiGroup": RBAC} for subject in subjects] + [account]


async def test_a_binding_keeps_its_role(server: Harness) -> None:
    await server.create(ROLE_BINDING, binding())
    with pytest.raises(Invalid) as refused:
        await server.patch(ROLE_BINDING, "b", MergePatch({"roleRef": {"name": "y"}}))
    assert refused.value.message == (
        f'RoleBinding.{RBAC} "b" is invalid: roleRef: Invalid value: '
        f'{{"APIGroup":"{RBAC}","Kind":"ClusterRole","Name":"y"}}: field is immutable'
    )
    changed = await server.patch(ROLE_BINDING, "b", MergePatch({"subjects": [{"kind": "User", "name": "u"}]}))
    assert changed["subjects"][0]["name"] == "u"


async def test_role_update_is_validated(server: Harness) -> None:
    await server.create(ROLE, role(PODS))
    assert await problems(server.patch(ROLE, "r", MergePatch({"rules": [{"verbs": ["get"]}]})))
