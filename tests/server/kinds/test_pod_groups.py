"""PodGroups and Workloads: defaults, validation, admission, status, columns and the two served versions.

`tests/conformance/api/test_api_differential.py` compares the same with kube-apiserver.
"""

import pytest

from mooring.api.errors import Forbidden
from mooring.api.kinds import POD, POD_GROUP, POD_GROUP_ALPHA, PRIORITY_CLASS, WORKLOAD, WORKLOAD_ALPHA, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.well_known import POD_GROUP_PROTECTION
from support.builders import Body, pod_body
from support.builders.groups import member_body, pod_group_body
from support.server.harness import ABSENT, Harness, altered, begins, problems
from support.server.table_rows import row

Change = tuple[str, object]

GANG: Body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
TEMPLATE: Body = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 3}}}
TEMPLATES: Body = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [TEMPLATE]}}
POLICY = "spec.schedulingPolicy"
FIXED = "Invalid value: null: field is immutable"


@pytest.mark.parametrize("kind", [POD_GROUP, POD_GROUP_ALPHA], ids=lambda kind: kind.version)
async def test_pod_group_is_completed_and_protected(server: Harness, kind: Kind) -> None:
    made = await server.create(kind, GANG)
    assert made["spec"] == GANG["spec"] | {"disruptionMode": {"single": {}}, "priority": 0}
    assert made["metadata"]["finalizers"] == [POD_GROUP_PROTECTION]
    assert "generation" not in made["metadata"]


@pytest.mark.parametrize(
    ("first", "second"), [(POD_GROUP, POD_GROUP_ALPHA), (WORKLOAD, WORKLOAD_ALPHA)], ids=lambda kind: kind.kind
)
async def test_both_versions_are_the_same_objects(server: Harness, first: Kind, second: Kind) -> None:
    body = GANG if first is POD_GROUP else TEMPLATES
    made = await server.create(second, body)
    read = await server.get(first, body["metadata"]["name"])
    assert (made["apiVersion"], read["apiVersion"]) == ("scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1")
    assert made["spec"] == read["spec"]
    assert made["metadata"]["uid"] == read["metadata"]["uid"]
    [listed] = await server.listed(second)
    assert listed["metadata"]["uid"] == made["metadata"]["uid"]


async def test_fields_of_disabled_gates_are_dropped(server: Harness) -> None:
    more = {"preemptionPolicy": "Never", "resourceClaims": [{"name": "r"}], "parentCompositePodGroupName": "p"}
    made = await server.create(POD_GROUP, GANG | {"spec": GANG["spec"] | more})
    assert more.keys().isdisjoint(made["spec"])
    changed = await server.patch(POD_GROUP, "g", MergePatch({"spec": more}))
    assert changed["spec"] == made["spec"]
    templates = TEMPLATES | {"spec": {"podGroupTemplates": [TEMPLATE | more], "compositePodGroupTemplates": [TEMPLATE]}}
    made = await server.create(WORKLOAD, templates)
    assert made["spec"].keys() == {"podGroupTemplates"}
    assert more.keys().isdisjoint(made["spec"]["podGroupTemplates"][0])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            ("spec.schedulingPolicy", ABSENT),
            [f'{POLICY}: Invalid value: "": must specify one of: `basic`, `gang`'],
            id="no policy",
        ),
        pytest.param(
            ("spec.schedulingPolicy.basic", {}),
            [f'{POLICY}: Invalid value: "{{basic, gang}}": must specify exactly one of: `basic`, `gang`'],
            id="two policies",
        ),
        pytest.param(
            ("spec.schedulingPolicy.gang", {}), [f"{POLICY}.gang.minCount: Required value"], id="a gang of no size"
        ),
        pytest.param(
            ("spec.schedulingPolicy.gang.minCount", -1),
            [f"{POLICY}.gang.minCount: Invalid value: -1: must be greater than or equal to 1"],
            id="a gang of less than none",
        ),
        pytest.param(
            ("spec.schedulingConstraints", {"topology": [{"key": "a"}, {"key": "b"}]}),
            ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
            id="two topologies",
        ),
        pytest.param(
            ("spec.schedulingConstraints", {"topology": [{}]}),
            ["spec.schedulingConstraints.topology[0].key: Required value"],
            id="a topology without a key",
        ),
        pytest.param(
            ("spec.disruptionMode", {"all": {}, "single": {}}),
            ['spec.disruptionMode: Invalid value: "{single, all}": must specify exactly one of: `single`, `all`'],
            id="two disruption modes",
        ),
        pytest.param(
            ("spec.workloadRef", {"workloadName": "W w"}),
            [
                'spec.workloadRef.workloadName: Invalid value: "W w": a lowercase RFC 1123 subdomain',
                "spec.workloadRef.templateName: Required value",
            ],
            id="an invalid reference",
        ),
    ],
)
async def test_invalid_pod_groups_are_rejected(server: Harness, change: Change, expected: list[str]) -> None:
    found = await problems(server.create(POD_GROUP, altered(GANG, change)))
    assert begins(found, expected), found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"schedulingPolicy": {"gang": {"minCount": 2}}}, [], id="a smaller quorum"),
        pytest.param(
            {"schedulingPolicy": {"gang": None, "basic": {}}},
            [f"{POLICY}.basic: {FIXED}", f"{POLICY}.gang: Invalid value: null: field cannot be cleared once set"],
            id="a gang that becomes basic",
        ),
        pytest.param(
            {"schedulingConstraints": {"topology": [{"key": "a"}]}},
            [f"spec.schedulingConstraints: {FIXED}"],
            id="a topology",
        ),
        pytest.param(
            {"disruptionMode": {"single": None, "all": {}}}, [f"spec.disruptionMode: {FIXED}"], id="a disruption mode"
        ),
        pytest.param({"priority": 4}, [f"spec.priority: {FIXED}"], id="a priority"),
        pytest.param({"priorityClassName": "x"}, [f"spec.priorityClassName: {FIXED}"], id="a priority class"),
        pytest.param(
            {"workloadRef": {"workloadName": "w", "templateName": "t"}},
            [f"spec.workloadRef: {FIXED}"],
            id="a reference to a Workload",
        ),
    ],
)
async def test_only_the_quorum_of_a_pod_group_changes(server: Harness, change: Body, expected: list[str]) -> None:
    await server.create(POD_GROUP, GANG)
    found = await problems(server.patch(POD_GROUP, "g", MergePatch({"spec": change})))
    assert found == expected


@pytest.mark.parametrize(
    ("templates", "expected"),
    [
        pytest.param(
            [],
            ['spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`'],
            id="none",
        ),
        pytest.param(
            [TEMPLATE | {"name": f"t{n}"} for n in range(9)],
            ["spec.podGroupTemplates: Too many: 9: must have at most 8 items"],
            id="too many",
        ),
        pytest.param([TEMPLATE, TEMPLATE], ["spec.podGroupTemplates[1]: Duplicate value: {"], id="one name twice"),
        pytest.param(
            [TEMPLATE, TEMPLATE | {"name": "b", "priority": 1}],
            ["spec: Invalid value: null: detected multiple priority configurations"],
            id="two priorities",
        ),
        pytest.param(
            [{"name": "t"}], ['spec.podGroupTemplates[0].schedulingPolicy: Invalid value: ""'], id="no policy"
        ),
    ],
)
async def test_invalid_templates_are_rejected(server: Harness, templates: list[Body], expected: list[str]) -> None:
    body = TEMPLATES | {"spec": {"podGroupTemplates": templates}}
    found = await problems(server.create(WORKLOAD, body))
    assert begins(found, expected), found


@pytest.mark.parametrize(
    ("templates", "expected"),
    [
        pytest.param([TEMPLATE | {"schedulingPolicy": {"gang": {"minCount": 1}}}], [], id="another quorum"),
        pytest.param(
            [TEMPLATE, TEMPLATE | {"name": "b"}],
            ["spec.podGroupTemplates[1]: Forbidden: item may not be added"],
            id="one more",
        ),
        pytest.param(
            [TEMPLATE | {"name": "b"}],
            [
                "spec.podGroupTemplates[0]: Forbidden: item may not be added",
                "spec.podGroupTemplates: Forbidden: item may not be removed",
            ],
            id="another name",
        ),
        pytest.param(
            [TEMPLATE | {"priority": 1}], [f"spec.podGroupTemplates[0].priority: {FIXED}"], id="another priority"
        ),
    ],
)
async def test_templates_stay_as_created_but_for_their_quorum(
    server: Harness, templates: list[Body], expected: list[str]
) -> None:
    await server.create(WORKLOAD, TEMPLATES)
    change = MergePatch({"spec": {"podGroupTemplates": templates}})
    assert await problems(server.patch(WORKLOAD, "w", change)) == expected


async def test_priority_of_a_pod_group_comes_from_its_class(server: Harness) -> None:
    await server.create(PRIORITY_CLASS, {"metadata": {"name": "gold"}, "value": 7})
    made = await server.create(POD_GROUP, altered(GANG, ("spec.priorityClassName", "gold")))
    assert made["spec"]["priority"] == 7
    wrong = r"priority set in the pod group \(5\) must match the priority computed \(0\) based on the priority class"
    with pytest.raises(Forbidden, match=wrong):
        await server.create(POD_GROUP, altered(GANG, ("metadata.name", "h"), ("spec.priority", 5)))
    with pytest.raises(Forbidden, match="no PriorityClass with name lead was found"):
        await server.create(POD_GROUP, altered(GANG, ("metadata.name", "h"), ("spec.priorityClassName", "lead")))


CONDITION: Body = {
    "type": "PodGroupInitiallyScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}


async def test_status_changes_through_its_own_endpoint_alone(server: Harness) -> None:
    await server.create(POD_GROUP, GANG | {"status": {"conditions": [CONDITION]}})
    assert "conditions" not in (await server.get(POD_GROUP, "g")).get("status", {})
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {"priority": 4}, "status": {"conditions": [CONDITION]}}
    told = await server.patch(POD_GROUP, "g", MergePatch(change), subresource="status")
    assert told["status"]["conditions"] == [CONDITION]
    assert (told["spec"]["priority"], "labels" in told["metadata"]) == (0, False)
    twice = MergePatch({"status": {"conditions": [CONDITION, CONDITION | {"reason": "a b", "status": "Odd"}]}})
    found = await problems(server.patch(POD_GROUP, "g", twice, subresource="status"))
    expected = [
        'status.conditions[1]: Duplicate value: "PodGroupInitiallyScheduled"',
        'status.conditions[1].status: Unsupported value: "Odd": supported values: "False", "True", "Unknown"',
        'status.conditions[1].reason: Invalid value: "a b": a condition reason must start with alphabetic character',
    ]
    assert begins(found, expected), found


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        pytest.param([], "Pending", id="no scheduler has decided"),
        pytest.param([CONDITION], "Unschedulable", id="rejected"),
        pytest.param([CONDITION | {"status": "True"}], "Scheduled", id="scheduled"),
        pytest.param(
            [CONDITION, {"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}],
            "PreemptionByScheduler",
            id="preempted",
        ),
    ],
)
def test_columns_show_policy_workload_and_status(conditions: list[Body], status: str) -> None:
    reference = {"workloadRef": {"workloadName": "training", "templateName": "workers"}}
    shown = row(POD_GROUP, pod_group_body(conditions=conditions, more_spec=reference))
    assert {name: shown[name] for name in ("Name", "Policy", "Workload", "Status")} == {
        "Name": "g",
        "Policy": "Gang",
        "Workload": "training",
        "Status": status,
    }
    basic = row(POD_GROUP, pod_group_body(basic=True))
    assert (basic["Policy"], basic["Workload"]) == ("Basic", "<none>")


async def test_group_of_a_pod_is_checked_and_never_changes(server: Harness) -> None:
    made = await server.create(POD, member_body(name="g-0"))
    assert made["spec"]["schedulingGroup"] == {"podGroupName": "g"}
    found = await problems(server.patch(POD, "g-0", MergePatch({"spec": {"schedulingGroup": {"podGroupName": "h"}}})))
    assert begins(found, ["spec: Forbidden: pod updates may not change fields other than"]), found
    path = "spec.schedulingGroup.podGroupName"
    found = await problems(server.create(POD, altered(pod_body(name="x"), ("spec.schedulingGroup", {}))))
    assert found == [f"{path}: Invalid value: null: must specify one of: `podGroupName`"]
    found = await problems(server.create(POD, member_body(name="x", group="G g")))
    assert begins(found, [f'{path}: Invalid value: "G g": a lowercase RFC 1123 subdomain']), found
