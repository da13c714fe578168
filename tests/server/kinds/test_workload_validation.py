"""Defaults and validation of workloads, PodDisruptionBudgets, PriorityClasses and ControllerRevisions."""

import pytest

from mooring.api.kinds import (
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    POD_TEMPLATE,
    PRIORITY_CLASS,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    VOLUME_ATTRIBUTES_CLASS,
    Kind,
)
from mooring.api.patches.contract import MergePatch
from support.builders import Body
from support.server.harness import ABSENT, Harness, altered, begins, problems

Change = tuple[str, object]

TEMPLATE: Body = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
}
WORKLOAD: Body = {
    "metadata": {"name": "a"},
    "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE},
}
CONTROLLER: Body = {"metadata": {"name": "a"}, "spec": {"template": TEMPLATE}}
BUDGET: Body = {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}
PRIORITY: Body = {"metadata": {"name": "gold"}, "value": 7}
REVISION: Body = {"metadata": {"name": "a"}, "data": {"spec": {}}, "revision": 1}
ATTRIBUTES: Body = {"metadata": {"name": "a"}, "driverName": "d.io", "parameters": {"iops": "1"}}

NO_MATCH = "`selector` does not match template `labels`"
PERCENT = "a valid percent string must be a numeric string followed by an ending '%'"


@pytest.mark.parametrize(
    ("kind", "body", "path", "found"),
    [
        pytest.param(DEPLOYMENT, WORKLOAD, "replicas", 1, id="a deployment is one pod"),
        pytest.param(DEPLOYMENT, WORKLOAD, "revisionHistoryLimit", 10, id="a deployment remembers"),
        pytest.param(DEPLOYMENT, WORKLOAD, "progressDeadlineSeconds", 600, id="a deployment is patient"),
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            "strategy",
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            id="a deployment rolls",
        ),
        pytest.param(
            DEPLOYMENT,
            altered(WORKLOAD, ("spec.strategy", {"type": "Recreate"})),
            "strategy",
            {"type": "Recreate"},
            id="or not",
        ),
        pytest.param(REPLICA_SET, WORKLOAD, "replicas", 1, id="a replica set is one pod"),
        pytest.param(
            DAEMON_SET,
            WORKLOAD,
            "updateStrategy",
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            id="a daemon set rolls one by one",
        ),
        pytest.param(REPLICATION_CONTROLLER, CONTROLLER, "selector", {"app": "a"}, id="a controller selects its own"),
    ],
)
async def test_defaults(server: Harness, kind: Kind, body: Body, path: str, found: object) -> None:
    assert (await server.create(kind, body))["spec"][path] == found


async def test_templates_are_completed_as_pods_are(server: Harness) -> None:
    for kind in (DEPLOYMENT, REPLICA_SET, DAEMON_SET):
        spec = (await server.create(kind, WORKLOAD))["spec"]["template"]["spec"]
        assert spec["restartPolicy"] == "Always"
    template = await server.create(POD_TEMPLATE, {"metadata": {"name": "a"}, "template": TEMPLATE})
    assert template["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        pytest.param(DEPLOYMENT, {}, id="a deployment"),
        pytest.param(REPLICA_SET, {"replicas": 0}, id="a replica set"),
        pytest.param(
            DAEMON_SET,
            {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0},
            id="a daemon set",
        ),
    ],
)
async def test_initial_status_of_workloads(server: Harness, kind: Kind, found: Body) -> None:
    body = WORKLOAD | {"status": {"replicas": 9, "numberReady": 9}}
    assert (await server.create(kind, body))["status"] == found


@pytest.mark.parametrize(
    ("kind", "body", "change", "expected"),
    [
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            ("spec.selector", ABSENT),
            ["spec.selector: Required value", "spec.template.metadata.labels: Invalid value"],
            id="a deployment of nothing",
        ),
        pytest.param(
            REPLICA_SET,
            WORKLOAD,
            ("spec.selector", {}),
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
            id="a replica set of everything",
        ),
        pytest.param(
            DAEMON_SET,
            WORKLOAD,
            ("spec.selector", {"matchLabels": {"app": "b"}}),
            [f'spec.template.metadata.labels: Invalid value: {{"app":"a"}}: {NO_MATCH}'],
            id="a daemon set of other pods",
        ),
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            ("spec.selector", {"matchExpressions": [{"key": "app", "operator": "Like"}]}),
            [
                'spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator',
                "spec.selector: Invalid value",
            ],
            id="a selector of no sense",
        ),
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            ("spec.replicas", -1),
            ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
            id="fewer than none",
        ),
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            ("spec.strategy", {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
            id="two ways at once",
        ),
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            ("spec.strategy", {"type": "Sideways"}),
            ["spec.strategy: Unsupported value"],
            id="unknown strategy",
        ),
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            ("spec.strategy", {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
            ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0'],
            id="no room to roll",
        ),
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            ("spec.strategy", {"rollingUpdate": {"maxSurge": "a lot", "maxUnavailable": "120%"}}),
            [
                f'spec.strategy.rollingUpdate.maxSurge: Invalid value: "a lot": {PERCENT}',
                'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "120%": must not be greater than 100%',
            ],
            id="shares of no sense",
        ),
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            ("spec.minReadySeconds", 600),
            ["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
            id="late before it is ready",
        ),
        pytest.param(
            DAEMON_SET,
            WORKLOAD,
            ("spec.updateStrategy", {"rollingUpdate": {"maxUnavailable": 0}}),
            ["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
            id="a daemon set that cannot move",
        ),
        pytest.param(
            DAEMON_SET,
            WORKLOAD,
            ("spec.updateStrategy", {"rollingUpdate": {"maxSurge": 1}}),
            ["spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable"],
            id="a daemon set that goes both ways",
        ),
        pytest.param(
            DAEMON_SET,
            WORKLOAD,
            ("spec.updateStrategy", {"type": "Sideways"}),
            ["spec.updateStrategy: Unsupported value"],
            id="a daemon set of no known way",
        ),
        pytest.param(
            REPLICA_SET,
            WORKLOAD,
            ("spec.template.spec.restartPolicy", "Never"),
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
            id="pods that end",
        ),
        pytest.param(
            DAEMON_SET,
            WORKLOAD,
            ("spec.template.spec.activeDeadlineSeconds", 5),
            [
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not "
                "Supported"
            ],
            id="pods with a deadline",
        ),
        pytest.param(
            REPLICATION_CONTROLLER,
            CONTROLLER,
            ("spec.selector", {"app": "b"}),
            [f'spec.template.metadata.labels: Invalid value: {{"app":"a"}}: {NO_MATCH}'],
            id="a controller of other pods",
        ),
        pytest.param(
            REPLICATION_CONTROLLER,
            CONTROLLER,
            ("spec.template", ABSENT),
            ["spec.selector: Required value", "spec.template: Required value"],
            id="a controller of nothing",
        ),
        pytest.param(
            POD_TEMPLATE,
            {"metadata": {"name": "a"}, "template": TEMPLATE},
            ("template.spec.containers", []),
            ["template.spec.containers: Required value"],
            id="a template without containers",
        ),
        pytest.param(
            DISRUPTION_BUDGET,
            BUDGET,
            ("spec.maxUnavailable", 1),
            ["spec: Invalid value: "],
            id="two bounds",
        ),
        pytest.param(
            DISRUPTION_BUDGET,
            BUDGET,
            ("spec.minAvailable", "101%"),
            ['spec.minAvailable: Invalid value: "101%": must not be greater than 100%'],
            id="more than all",
        ),
        pytest.param(
            DISRUPTION_BUDGET,
            BUDGET,
            ("spec.unhealthyPodEvictionPolicy", "Always"),
            [
                'spec.unhealthyPodEvictionPolicy: Unsupported value: "Always": '
                'supported values: "AlwaysAllow", "IfHealthyBudget"'
            ],
            id="unknown eviction policy",
        ),
        pytest.param(
            PRIORITY_CLASS,
            PRIORITY,
            ("value", 1_000_000_001),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
            id="as high as the system",
        ),
        pytest.param(
            PRIORITY_CLASS,
            PRIORITY,
            ("metadata.name", "system-mine"),
            [
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use "
                "only. error: system-mine is not a known system priority class"
            ],
            id="a name of the system",
        ),
        pytest.param(
            PRIORITY_CLASS,
            PRIORITY,
            ("preemptionPolicy", "Sometimes"),
            ['preemptionPolicy: Unsupported value: "Sometimes"'],
            id="unknown policy",
        ),
        pytest.param(
            CONTROLLER_REVISION,
            REVISION,
            ("data", ABSENT),
            ["data: Required value: data is mandatory"],
            id="a revision of nothing",
        ),
        pytest.param(
            CONTROLLER_REVISION,
            REVISION,
            ("data", [1]),
            ["data: Required value: data must be a valid JSON object"],
            id="a revision of a list",
        ),
        pytest.param(
            VOLUME_ATTRIBUTES_CLASS,
            ATTRIBUTES,
            ("parameters", {}),
            ["parameters: Required value: must contain at least one key/value pair"],
            id="attributes of nothing",
        ),
    ],
)
async def test_invalid_workloads_are_rejected(
    server: Harness, kind: Kind, body: Body, change: Change, expected: list[str]
) -> None:
    found = await problems(server.create(kind, altered(body, change)))
    assert begins(found, expected), found


@pytest.mark.parametrize(
    ("kind", "body", "change", "expected"),
    [
        pytest.param(DEPLOYMENT, WORKLOAD, ("spec.replicas", 3), [], id="more of them"),
        pytest.param(DEPLOYMENT, WORKLOAD, ("spec.template.spec.containers.0.image", "i:2"), [], id="another image"),
        *(
            pytest.param(
                kind,
                WORKLOAD,
                ("spec.selector.matchLabels", {"app": "a", "x": "y"}),
                ["spec"] * 2,
                id=f"the selector of a {kind.kind}",
            )
            for kind in (DEPLOYMENT, REPLICA_SET, DAEMON_SET)
        ),
        pytest.param(
            PRIORITY_CLASS, PRIORITY, ("value", 8), ["value: Forbidden: may not be changed in an update."], id="a value"
        ),
        pytest.param(
            PRIORITY_CLASS,
            PRIORITY,
            ("preemptionPolicy", "Never"),
            ['preemptionPolicy: Invalid value: "Never": field is immutable'],
            id="a preemption policy",
        ),
        pytest.param(PRIORITY_CLASS, PRIORITY, ("description", "x"), [], id="a description"),
        pytest.param(DISRUPTION_BUDGET, BUDGET, ("spec.minAvailable", 2), [], id="a bound"),
        pytest.param(
            CONTROLLER_REVISION,
            REVISION,
            ("data", {"spec": 1}),
            ['data: Invalid value: {"spec":1}: field is immutable'],
            id="the past",
        ),
        pytest.param(CONTROLLER_REVISION, REVISION, ("revision", 2), [], id="its number"),
        pytest.param(
            VOLUME_ATTRIBUTES_CLASS,
            ATTRIBUTES,
            ("parameters", {"iops": "2"}),
            ["parameters: Forbidden: updates to parameters are forbidden."],
            id="attributes",
        ),
    ],
)
async def test_changes(server: Harness, kind: Kind, body: Body, change: Change, expected: list[str]) -> None:
    old = await server.create(kind, body)
    found = await problems(server.update(kind, altered(old, change)))
    assert begins(found, expected), found


@pytest.mark.parametrize(
    ("kind", "body", "status", "expected"),
    [
        pytest.param(
            DEPLOYMENT,
            WORKLOAD,
            {"replicas": 1, "readyReplicas": 2, "availableReplicas": 1},
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
            id="a deployment",
        ),
        pytest.param(
            REPLICA_SET,
            WORKLOAD,
            {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2},
            ["status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"],
            id="a replica set",
        ),
        pytest.param(
            DAEMON_SET,
            WORKLOAD,
            {"numberReady": -1},
            ["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
            id="a daemon set",
        ),
        pytest.param(
            DISRUPTION_BUDGET,
            BUDGET,
            {"disruptionsAllowed": -1},
            ["status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0"],
            id="a budget",
        ),
    ],
)
async def test_status_counts_are_validated(
    server: Harness, kind: Kind, body: Body, status: Body, expected: list[str]
) -> None:
    await server.create(kind, body)
    patch = MergePatch({"status": status})
    assert await problems(server.patch(kind, "a", patch, subresource="status")) == expected


@pytest.mark.parametrize("kind", [DEPLOYMENT, DAEMON_SET], ids=lambda kind: kind.kind)
async def test_collision_count_cannot_decrease(server: Harness, kind: Kind) -> None:
    await server.create(kind, WORKLOAD)
    await server.patch(kind, "a", MergePatch({"status": {"collisionCount": 2}}), subresource="status")
    less = server.patch(kind, "a", MergePatch({"status": {"collisionCount": 1}}), subresource="status")
    assert await problems(less) == ["status.collisionCount: Invalid value: 1: cannot be decremented"]
