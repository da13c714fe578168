"""Validation of new pods, and the cache of valid pod specs."""

from typing import Any

import pytest

from mooring.api.errors import Invalid
from mooring.api.kinds import POD
from mooring.server.kinds.pod_spec import MAX_CACHED_BYTES, ValidPodSpecCache, validate_pod
from support.builders import Body, pod_body
from support.server.harness import Harness, altered, begins, problems

POD_BODY = pod_body(name="a", claims=["c"], requests={"cpu": "1"})
CONTAINER = POD_BODY["spec"]["containers"][0]
NODE_TERMS = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
)


def term(operator: str, *values: str, key: str = "zone") -> list[Body]:
    return [{"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param("spec.containers", [], ["spec.containers: Required value"], id="no container"),
        pytest.param(
            "spec.containers",
            [CONTAINER, CONTAINER],
            ['spec.containers[1].name: Duplicate value: "main"'],
            id="two containers of one name",
        ),
        pytest.param(
            "spec.initContainers",
            [CONTAINER],
            ['spec.initContainers[0].name: Duplicate value: "main"'],
            id="an init container of that name",
        ),
        pytest.param("spec.containers.0.name", "", ["spec.containers[0].name: Required value"], id="no name"),
        pytest.param("spec.containers.0.image", "", ["spec.containers[0].image: Required value"], id="no image"),
        pytest.param(
            "spec.containers.0.imagePullPolicy",
            "Sometimes",
            [
                'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": '
                'supported values: "Always", "IfNotPresent", "Never"'
            ],
            id="no such pull policy",
        ),
        pytest.param(
            "spec.containers.0.ports",
            [{"containerPort": 70000, "protocol": "ICMP"}],
            [
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535",
                'spec.containers[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP"',
            ],
            id="no such port",
        ),
        pytest.param(
            "spec.containers.0.volumeMounts",
            [{"name": "data-0", "mountPath": "/a"}, {"name": "gone", "mountPath": "/a"}, {"name": "data-0"}],
            [
                'spec.containers[0].volumeMounts[1].name: Not found: "gone"',
                'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique',
                "spec.containers[0].volumeMounts[2].mountPath: Required value",
            ],
            id="mounts of nothing, in one place, in no place",
        ),
        pytest.param(
            "spec.containers.0.resources.limits",
            {"cpu": "500m"},
            [
                'spec.containers[0].resources.requests: Invalid value: "1": '
                "must be less than or equal to cpu limit of 500m"
            ],
            id="asks for more than its limit",
        ),
        pytest.param(
            "spec.containers.0.resources.requests",
            {"cpu": "-1", "foo": "1", "example.com/gpu": "1"},
            [
                'spec.containers[0].resources.requests: Invalid value: "foo": '
                "must be a standard resource type or fully qualified",
                'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
                "spec.containers[0].resources.limits: Required value: "
                "Limit must be set for non overcommitable resources",
            ],
            id="amounts that are none",
        ),
        pytest.param(
            "spec.containers.0.resources",
            {"limits": {"example.com/gpu": "1500m"}},
            [
                f'spec.containers[0].resources.{which}[example.com/gpu]: Invalid value: "1500m": must be an integer'
                for which in ("limits", "requests")
            ],
            id="half a device",
        ),
        pytest.param(
            "spec.resources",
            {"requests": {"cpu": "500m", "example.com/gpu": "1", "memory": "-1"}, "limits": {"cpu": "200m"}},
            [
                'spec.resources.requests[example.com/gpu]: Unsupported value: "example.com/gpu": '
                'supported values: "cpu", "hugepages-", "memory"',
                'spec.resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0',
                'spec.resources.requests: Invalid value: "500m": must be less than or equal to cpu limit of 200m',
                "spec.resources.limits: Required value: Limit must be set for non overcommitable resources",
                'spec.resources.requests[cpu]: Invalid value: "500m": '
                "must be greater than or equal to aggregate container requests of 1",
            ],
            id="amounts that a whole pod cannot have",
        ),
        pytest.param(
            "spec",
            {
                "containers": [CONTAINER | {"resources": {"limits": {"cpu": "2"}}}],
                "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "1"}},
            },
            [
                'spec.resources.requests: Invalid value: "4": must be less than or equal to cpu limit of 1',
                'spec.resources.containers[0][cpu].limits: Invalid value: "2": '
                "must be less than or equal to pod limits of 1",
            ],
            id="a container with more than the whole pod",
        ),
        *(
            pytest.param("spec.volumes.0", {"name": "data-0", source: what}, [f"spec.volumes[0].{problem}"], id=id_)
            for source, what, problem, id_ in (
                ("hostPath", {"path": "../x"}, "hostPath.path: Invalid value", "a host path that leads out"),
                ("csi", {"driver": "../x"}, "csi.driver: Invalid value", "a driver elsewhere"),
                (
                    "secret",
                    {"secretName": "s", "items": [{"key": "k", "path": "/etc/x"}]},
                    'secret.items[0].path: Invalid value: "/etc/x": must be a relative path',
                    "a file outside of its volume",
                ),
                (
                    "projected",
                    {"sources": [{"configMap": {"name": "c", "items": [{"key": "k", "path": "..x"}]}}]},
                    "projected.sources[0].configMap.items[0].path: Invalid value: \"..x\": must not start with '..'",
                    "a reserved file",
                ),
            )
        ),
        pytest.param(
            "spec.containers.0.volumeMounts",
            [{"name": "data-0", "mountPath": "/x", "subPath": "../../etc"}],
            ["spec.containers[0].volumeMounts.subPath: Invalid value: \"../../etc\": must not contain '..'"],
            id="a mount that leads out of its volume",
        ),
        pytest.param(
            "spec.volumes.0",
            {"name": "data-0", "persistentVolumeClaim": {}},
            ["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
            id="no claim",
        ),
        pytest.param(
            "spec.volumes.0.hostPath",
            {"path": "/x"},
            ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
            id="two sources",
        ),
        pytest.param(
            "spec.volumes.0",
            {"name": "data-0", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
            ["spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value"],
            id="an ephemeral claim of no size",
        ),
        pytest.param(
            "spec.volumes.0",
            {"name": "data-0", "ephemeral": {}},
            ["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"],
            id="an ephemeral volume without a template",
        ),
        pytest.param(
            "spec.restartPolicy",
            "Perhaps",
            ['spec.restartPolicy: Unsupported value: "Perhaps": supported values: "Always", "OnFailure", "Never"'],
            id="no such restart policy",
        ),
        pytest.param(
            "spec.activeDeadlineSeconds",
            0,
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
            id="no time at all",
        ),
        pytest.param(
            "spec.ephemeralContainers",
            [{"name": "debug"}],
            ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
            id="debugging something new",
        ),
        pytest.param(
            "spec.nodeSelector",
            {"zone": "a b"},
            ["spec.nodeSelector: Invalid value"],
            id="a node label that cannot be",
        ),
        pytest.param(
            NODE_TERMS[0],
            [],
            [f"{NODE_TERMS[0]}: Required value: must have at least one node selector term"],
            id="no term",
        ),
        pytest.param(
            NODE_TERMS[0],
            term("Like", "a"),
            [f'{NODE_TERMS[0]}[0].matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator'],
            id="no such operator",
        ),
        pytest.param(
            NODE_TERMS[0],
            term("In"),
            [
                f"{NODE_TERMS[0]}[0].matchExpressions[0].values: Required value: "
                "must be specified when `operator` is 'In' or 'NotIn'"
            ],
            id="in nothing",
        ),
        pytest.param(
            NODE_TERMS[0],
            term("Exists", "a"),
            [
                f"{NODE_TERMS[0]}[0].matchExpressions[0].values: Forbidden: "
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            ],
            id="exists as something",
        ),
        pytest.param(
            NODE_TERMS[0],
            term("Gt", "1", "2"),
            [
                f"{NODE_TERMS[0]}[0].matchExpressions[0].values: Required value: "
                "must be specified single value when `operator` is 'Lt' or 'Gt'"
            ],
            id="more than two numbers",
        ),
        pytest.param(
            NODE_TERMS[0], term("Gt", "x"), [f"{NODE_TERMS[0]}[0].matchExpressions[0].values[0]"], id="more than x"
        ),
        pytest.param(
            NODE_TERMS[0],
            [{"matchFields": [{"key": "spec.foo", "operator": "Exists"}]}],
            [f"{NODE_TERMS[0]}[0].matchFields[0].operator", f"{NODE_TERMS[0]}[0].matchFields[0].key"],
            id="a field nodes do not offer",
        ),
        pytest.param(
            NODE_TERMS[1],
            [{"weight": 101, "preference": term("In")[0]}],
            [
                f"{NODE_TERMS[1]}[0].weight: Invalid value: 101: must be in the range 1-100",
                f"{NODE_TERMS[1]}[0].preference.matchExpressions[0].values: Required value",
            ],
            id="too heavy a preference",
        ),
        pytest.param(
            NODE_TERMS[2],
            [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}],
            [
                f"{NODE_TERMS[2]}[0].labelSelector.matchExpressions[0].operator: Invalid value: "
                '"Gt": not a valid selector operator',
                f"{NODE_TERMS[2]}[0].topologyKey: Required value: can not be empty",
            ],
            id="apart from pods in no topology",
        ),
        pytest.param(
            "spec.tolerations",
            [{"key": "a", "operator": "Exists", "value": "b"}],
            ["spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"],
            id="exists with a value",
        ),
        pytest.param(
            "spec.tolerations",
            [{"effect": "NoSchedule", "tolerationSeconds": 5}],
            [
                'spec.tolerations[0].operator: Invalid value: "": operator must be Exists when `key` is empty, '
                'which means "match all values and all keys"',
                'spec.tolerations[0].effect: Invalid value: "NoSchedule": '
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ],
            id="everything, for five seconds",
        ),
        pytest.param(
            "spec.tolerations",
            [{"key": "a", "effect": "Never"}],
            [
                'spec.tolerations[0].effect: Unsupported value: "Never": '
                'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
            ],
            id="no such effect",
        ),
        pytest.param(
            "spec.topologySpreadConstraints",
            [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "Cry"}],
            [
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Cry"',
            ],
            id="spread by nothing",
        ),
        pytest.param(
            "spec.schedulingGates",
            [{"name": "a.io/x"}, {"name": "a.io/x"}],
            ['spec.schedulingGates[1].name: Duplicate value: "a.io/x"'],
            id="one gate twice",
        ),
    ],
)
async def test_invalid_pods_are_rejected(server: Harness, path: str, value: object, expected: list[str]) -> None:
    found = await problems(server.create(POD, altered(POD_BODY, (path, value))))
    assert begins(found, expected), found


async def test_gated_pod_cannot_have_a_node(server: Harness) -> None:
    with pytest.raises(Invalid, match="cannot be set until all schedulingGates have been cleared"):
        await server.create(POD, pod_body(name="a", node="n", gates=["a.io/x"]))


GPU = {"example.com/gpu": "1"}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([(NODE_TERMS[0], [{}])], id="a term that matches nothing"),
        pytest.param([(NODE_TERMS[0], term("Lt", "-5"))], id="less than a number"),
        pytest.param(
            [(NODE_TERMS[0], [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}])],
            id="a node by name",
        ),
        pytest.param([("spec.tolerations", [{"operator": "Exists"}])], id="tolerates everything"),
        pytest.param([("spec.containers.0.resources", {"requests": GPU, "limits": GPU})], id="a device"),
        pytest.param([("spec.containers.0.resources.limits", {"hugepages-2Mi": "4Mi", "cpu": "1"})], id="huge pages"),
        pytest.param(
            [
                (
                    "spec.topologySpreadConstraints",
                    [{"maxSkew": 1, "topologyKey": "zone"}, {"maxSkew": 1, "topologyKey": "rack"}],
                )
            ],
            id="spread twice",
        ),
        pytest.param([("spec.volumes.0", {"name": "data-0"})], id="no source is an empty directory"),
    ],
)
async def test_valid_pods_are_accepted(server: Harness, changes: list[tuple[str, object]]) -> None:
    assert await problems(server.create(POD, altered(POD_BODY, *changes))) == []


def a_pod(**spec: object) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "app",
        "imagePullPolicy": "Always",
        "terminationMessagePolicy": "File",
    }
    return {
        "metadata": {"name": "a"},
        "spec": {"containers": [container], "restartPolicy": "Always", "dnsPolicy": "Default", **spec},
    }


def test_valid_spec_is_cached_and_changed_spec_is_validated() -> None:
    assert [*validate_pod(a_pod())] == []
    assert [*validate_pod(a_pod())] == []
    assert [cause.field for cause in validate_pod(a_pod(restartPolicy="Perhaps"))] == ["spec.restartPolicy"]


def test_invalid_spec_is_not_cached() -> None:
    first = [*validate_pod(a_pod(dnsPolicy="Nowhere"))]
    assert first
    assert [*validate_pod(a_pod(dnsPolicy="Nowhere"))] == first


def test_spec_cache_evicts_the_oldest() -> None:
    specs = ValidPodSpecCache(size=2)
    keys = [specs.key({"nodeName": name}) for name in "abc"]
    for key in keys:
        specs.add(key)
    assert [key in specs for key in keys] == [False, True, True]


@pytest.mark.parametrize(
    ("size", "kept"), [pytest.param(10, True, id="short"), pytest.param(MAX_CACHED_BYTES, False, id="long")]
)
def test_spec_cache_skips_large_specs(size: int, kept: bool) -> None:
    specs = ValidPodSpecCache()
    key = specs.key({"nodeName": "x" * size})
    specs.add(key)
    assert (key in specs) is kept
