"""Validation of metadata, StatefulSets, nodes and small kinds."""

import pytest

from mooring.api.kinds import CONFIG_MAP, CSI_NODE, EVENT, LEASE, NODE, SECRET, SERVICE, STATEFUL_SET, Kind
from mooring.api.patches.contract import MergePatch
from server.verbs.test_write import STATEFUL
from support.builders import Body, node_body
from support.server.harness import ABSENT, Harness, altered, begins, problems

Change = tuple[str, object]
CONFIG: Body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
CSI_BODY: Body = {
    "metadata": {"name": "a"},
    "spec": {"drivers": [{"name": "d.io", "nodeID": "n", "topologyKeys": ["z"]}]},
}
PORTS = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
SERVICE_BODY: Body = {"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "ports": PORTS}}
EVENT_BODY: Body = {"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "namespace": "default"}}
LEASE_BODY: Body = {"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 15}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            ("metadata.labels", {"ok": "c d"}),
            ['metadata.labels: Invalid value: "c d": a valid label must be an empty string or consist of'],
            id="label value",
        ),
        pytest.param(("metadata.labels", {"a/b/c": ""}), ['metadata.labels: Invalid value: "a/b/c"'], id="label key"),
        pytest.param(
            ("metadata.annotations", {"A.io/x y": ""}), ["metadata.annotations: Invalid"], id="annotation key"
        ),
        pytest.param(("metadata.annotations", {"UPPER.io/x": "any text"}), [], id="annotations are lenient"),
        pytest.param(
            ("metadata.annotations", {"a": "x" * 262144}),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="too many annotations",
        ),
        pytest.param(
            ("metadata.finalizers", ["x"]),
            ['metadata.finalizers: Invalid value: "x": name is neither a standard finalizer name nor is it'],
            id="finalizer without domain",
        ),
        pytest.param(("metadata.finalizers", ["a.io/x", "kubernetes"]), [], id="valid finalizers"),
        pytest.param(
            ("metadata.finalizers", ["orphan", "foregroundDeletion"]),
            ['metadata.finalizers: Invalid value: "orphan, foregroundDeletion": finalizer orphan and'],
            id="orphan and foreground",
        ),
        pytest.param(("metadata.ownerReferences", [OWNER]), [], id="an owner"),
        pytest.param(
            ("metadata.ownerReferences", [{}]),
            [
                'metadata.ownerReferences[0].apiVersion: Invalid value: "": version must not be empty',
                'metadata.ownerReferences[0].kind: Invalid value: "": kind must not be empty',
                'metadata.ownerReferences[0].name: Invalid value: "": name must not be empty',
                'metadata.ownerReferences[0].uid: Invalid value: "": uid must not be empty',
            ],
            id="empty owner",
        ),
        pytest.param(
            ("metadata.ownerReferences", [OWNER, OWNER | {"name": "q"}]),
            [
                'metadata.ownerReferences: Invalid value: "Pod/p, Pod/q": Only one reference can have Controller '
                'set to true. Found "true" in references for Pod/p and Pod/q'
            ],
            id="two controllers",
        ),
        pytest.param(("data", {"a b": ""}), ['data[a b]: Invalid value: "a b": a valid config key'], id="data key"),
        pytest.param(
            ("data", {"a": "x" * (1 << 20 | 1)}), [": Too long: may not be more than 1048576"], id="much data"
        ),
    ],
)
async def test_metadata_and_data(server: Harness, change: Change, expected: list[str]) -> None:
    found = await problems(server.create(CONFIG_MAP, altered(CONFIG, change)))
    assert begins(found, expected), found


IMMUTABLE = "field is immutable"


@pytest.mark.parametrize(
    ("kind", "body", "change", "expected"),
    [
        pytest.param(
            STATEFUL_SET,
            STATEFUL,
            ("spec.selector", ABSENT),
            ["spec.selector: Required value", "spec.template.metadata.labels: Invalid value"],
            id="set without selector",
        ),
        pytest.param(
            STATEFUL_SET,
            STATEFUL,
            ("spec.selector", {}),
            ["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"],
            id="set with empty selector",
        ),
        pytest.param(
            STATEFUL_SET,
            STATEFUL,
            ("spec.selector.matchLabels", {"app": "b"}),
            ['spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`'],
            id="set of other pods",
        ),
        pytest.param(
            STATEFUL_SET,
            STATEFUL,
            ("spec.podManagementPolicy", "Wild"),
            ["spec.podManagementPolicy: Invalid value: \"Wild\": must be 'OrderedReady' or 'Parallel'"],
            id="set in no order",
        ),
        pytest.param(
            STATEFUL_SET,
            STATEFUL,
            ("spec.updateStrategy", {"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            ["spec.updateStrategy.rollingUpdate: Invalid value: \"\": only allowed for updateStrategy 'RollingUpdate'"],
            id="set that does not roll",
        ),
        pytest.param(
            STATEFUL_SET,
            STATEFUL,
            ("spec.replicas", -1),
            ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
            id="set with negative replicas",
        ),
        pytest.param(
            STATEFUL_SET,
            STATEFUL,
            ("spec.template.spec.restartPolicy", "Never"),
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
            id="set of pods that end",
        ),
        pytest.param(
            STATEFUL_SET,
            STATEFUL,
            ("spec.template.spec.containers.0.volumeMounts", [{"name": "data", "mountPath": "/data"}]),
            ['spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"'],
            id="set that mounts what it does not claim",
        ),
        pytest.param(
            NODE,
            node_body(name="a"),
            ("spec.taints", [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoSchedule"}]),
            ['spec.taints[1]: Duplicate value: "k:NoSchedule"'],
            id="one taint twice",
        ),
        pytest.param(
            NODE, node_body(name="a"), ("spec.taints", [{"key": "k"}]), ["spec.taints[0].effect: Required"], id="taint"
        ),
        pytest.param(
            NODE,
            node_body(name="a"),
            ("status.capacity", {"example.com/gpu": "500m", "cpu": "-1"}),
            [
                'status.capacity[example.com/gpu]: Invalid value: "500m": must be an integer',
                'status.capacity[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            ],
            id="fractional device",
        ),
        pytest.param(
            CSI_NODE,
            CSI_BODY,
            ("spec.drivers", [{"name": "d.io"}, {"name": "d.io", "nodeID": "n"}]),
            ['spec.drivers[1].name: Duplicate value: "d.io"', "spec.drivers[0].nodeID: Required value"],
            id="driver twice, and without a node",
        ),
        pytest.param(
            SERVICE,
            SERVICE_BODY,
            ("metadata.name", "a.b"),
            ['metadata.name: Invalid value: "a.b": must not contain dots'],
            id="service with a dot",
        ),
        pytest.param(
            SERVICE,
            SERVICE_BODY,
            ("spec", {"type": "Magic", "ports": [{"port": 0}, {"port": 80}]}),
            [
                'spec.type: Unsupported value: "Magic"',
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535",
                "spec.ports[0].name: Required value",
                "spec.ports[1].name: Required value",
            ],
            id="service of a strange type",
        ),
        pytest.param(SERVICE, SERVICE_BODY, ("spec", {}), ["spec.ports: Required value"], id="service without ports"),
        pytest.param(
            EVENT,
            EVENT_BODY,
            ("involvedObject.namespace", "other"),
            ['involvedObject.namespace: Invalid value: "other": does not match event.namespace'],
            id="event about something elsewhere",
        ),
        pytest.param(
            LEASE,
            LEASE_BODY,
            ("spec", {"leaseDurationSeconds": 0, "leaseTransitions": -1}),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ],
            id="lease for no time",
        ),
    ],
)
async def test_invalid_objects_are_rejected(
    server: Harness, kind: Kind, body: Body, change: Change, expected: list[str]
) -> None:
    found = await problems(server.create(kind, altered(body, change)))
    assert begins(found, expected), found


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(EVENT, altered(EVENT_BODY, ("involvedObject.namespace", "")), id="event about a node"),
        pytest.param(
            STATEFUL_SET,
            altered(
                STATEFUL,
                ("spec.volumeClaimTemplates", [{"metadata": {"name": "data"}}]),
                ("spec.template.spec.containers.0.volumeMounts", [{"name": "data", "mountPath": "/data"}]),
            ),
            id="set that mounts what it claims",
        ),
        pytest.param(SERVICE, {"metadata": {"name": "a"}, "spec": {"type": "ExternalName"}}, id="name of elsewhere"),
    ],
)
async def test_valid_objects_are_accepted(server: Harness, kind: Kind, body: Body) -> None:
    assert await problems(server.create(kind, body)) == []


@pytest.mark.parametrize(
    ("kind", "body", "change", "expected"),
    [
        pytest.param(STATEFUL_SET, STATEFUL, ("spec.replicas", 5), [], id="a set scales"),
        pytest.param(STATEFUL_SET, STATEFUL, ("spec.template.spec.containers.0.image", "x"), [], id="a set rolls"),
        pytest.param(
            STATEFUL_SET,
            STATEFUL,
            ("spec.serviceName", "x"),
            [f'spec.serviceName: Invalid value: "x": {IMMUTABLE}'],
            id="a set keeps its service",
        ),
        pytest.param(
            STATEFUL_SET,
            STATEFUL,
            ("spec.selector.matchExpressions", [{"key": "app", "operator": "Exists"}]),
            ["spec.selector: Invalid value: "],
            id="a set keeps its selector",
        ),
        pytest.param(NODE, node_body(name="a"), ("spec.providerID", "x"), [], id="provider id set"),
        pytest.param(
            NODE,
            altered(node_body(name="a"), ("spec.providerID", "x")),
            ("spec.providerID", "y"),
            ["spec.providerID: Invalid value: null: field cannot be modified once set"],
            id="provider id changed",
        ),
        pytest.param(CSI_NODE, CSI_BODY, ("spec.drivers", []), [], id="driver removed"),
        pytest.param(
            CSI_NODE, CSI_BODY, ("spec.drivers.0.allocatable", {"count": 5}), [], id="driver allocatable changed"
        ),
        pytest.param(
            CSI_NODE, CSI_BODY, ("spec.drivers.0.nodeID", "x"), ["spec.drivers[0]: Invalid value"], id="driver changed"
        ),
        pytest.param(
            CONFIG_MAP,
            CONFIG | {"immutable": True},
            ("data.k", "w"),
            ["data: Forbidden: field is immutable when `immutable` is set"],
            id="a fixed config",
        ),
        pytest.param(
            SECRET,
            CONFIG | {"data": {}},
            ("type", "x"),
            ['type: Invalid value: "x": field is immutable'],
            id="a secret",
        ),
        pytest.param(
            SERVICE,
            SERVICE_BODY,
            ("spec.clusterIP", "10.0.0.1"),
            ['spec.clusterIP: Invalid value: "10.0.0.1": field is immutable'],
            id="a headless service",
        ),
        pytest.param(EVENT, EVENT_BODY, ("count", 2), [], id="an event again"),
        pytest.param(LEASE, LEASE_BODY, ("spec.leaseDurationSeconds", -1), ["spec.leaseDurationSeconds"], id="a lease"),
    ],
)
async def test_changes(server: Harness, kind: Kind, body: Body, change: Change, expected: list[str]) -> None:
    old = await server.create(kind, body)
    found = await problems(server.update(kind, altered(old, change)))
    assert begins(found, expected), found


async def test_stateful_set_status_counts_are_validated(server: Harness) -> None:
    await server.create(STATEFUL_SET, STATEFUL)
    status = MergePatch({"status": {"replicas": 1, "readyReplicas": 2, "currentReplicas": -1}})
    assert await problems(server.patch(STATEFUL_SET, "a", status, subresource="status")) == [
        "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
    ]


async def test_node_status_amounts_are_validated(server: Harness) -> None:
    await server.create(NODE, node_body(name="a"))
    status = MergePatch({"status": {"allocatable": {"cpu": "-1"}}})
    assert await problems(server.patch(NODE, "a", status, subresource="status")) == [
        'status.allocatable[cpu]: Invalid value: "-1": must be greater than or equal to 0'
    ]
