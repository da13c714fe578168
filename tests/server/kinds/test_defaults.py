"""Defaults of pods, storage kinds, StatefulSets, Secrets and Services."""

import pytest

from mooring.api.kinds import CLAIM, POD, SECRET, SERVICE, STATEFUL_SET, STORAGE_CLASS, VOLUME, Kind
from server.verbs.test_write import STATEFUL
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.server.harness import ABSENT, Harness, altered

BARE = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}


async def test_a_bare_pod(server: Harness) -> None:
    spec = (await server.create(POD, BARE))["spec"]
    assert {key: value for key, value in spec.items() if key != "tolerations"} == {
        "containers": [
            {
                "name": "c",
                "image": "i:1",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "enableServiceLinks": True,
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0123", "IfNotPresent"),
    ],
)
async def test_image_pull_policy_defaults(server: Harness, image: str, policy: str) -> None:
    pod = await server.create(POD, altered(BARE, ("spec.containers.0.image", image)))
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("change", "path", "found"),
    [
        pytest.param(
            ("ports", [{"containerPort": 80}]), "ports", [{"containerPort": 80, "protocol": "TCP"}], id="port"
        ),
        pytest.param(
            ("resources", {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0.5"}}),
            "resources",
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
            id="requests from limits",
        ),
        pytest.param(
            ("livenessProbe", {"httpGet": {"port": 80}}),
            "livenessProbe",
            {
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                "timeoutSeconds": 1,
                "periodSeconds": 10,
                "successThreshold": 1,
                "failureThreshold": 3,
            },
            id="probe",
        ),
        pytest.param(
            ("env", [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            "env",
            [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}}],
            id="environment",
        ),
        pytest.param(
            ("lifecycle", {"preStop": {"httpGet": {"port": 80}}, "stopSignal": "SIGTERM"}),
            "lifecycle",
            {"preStop": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}}, "stopSignal": "SIGTERM"},
            id="hook",
        ),
    ],
)
async def test_containers(server: Harness, change: tuple[str, object], path: str, found: object) -> None:
    pod = await server.create(POD, altered(BARE, (f"spec.containers.0.{change[0]}", change[1])))
    assert pod["spec"]["containers"][0][path] == found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param({}, {"emptyDir": {}}, id="no source"),
        pytest.param({"configMap": {"name": "c"}}, {"configMap": {"name": "c", "defaultMode": 420}}, id="config"),
        pytest.param({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}, id="host path"),
        pytest.param(
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
            id="token",
        ),
    ],
)
async def test_volumes_of_pods(server: Harness, given: Body, found: Body) -> None:
    pod = await server.create(POD, altered(BARE, ("spec.volumes", [{"name": "v"} | given])))
    assert pod["spec"]["volumes"] == [{"name": "v"} | found]


async def test_host_network_sets_host_ports(server: Harness) -> None:
    body = altered(BARE, ("spec.hostNetwork", True), ("spec.containers.0.ports", [{"containerPort": 80}]))
    assert (await server.create(POD, body))["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


async def test_negative_grace_period_becomes_one_second(server: Harness) -> None:
    pod = await server.create(POD, altered(BARE, ("spec.terminationGracePeriodSeconds", -5)))
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1


CPU, BOTH = {"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        pytest.param([{}], "BestEffort", id="nothing asked"),
        pytest.param([{"requests": CPU}], "Burstable", id="something asked"),
        pytest.param([{"limits": BOTH}], "Guaranteed", id="everything limited"),
        pytest.param([{"limits": BOTH, "requests": {"cpu": "0.5"}}], "Burstable", id="less asked than the limit"),
        pytest.param([{"limits": BOTH}, {}], "Burstable", id="one of two limited"),
        pytest.param([{"limits": CPU}], "Burstable", id="one resource limited"),
        pytest.param([{"requests": {"cpu": "0"}}], "BestEffort", id="none asked"),
    ],
)
async def test_quality_of_service(server: Harness, resources: list[Body], found: str) -> None:
    containers = [{"name": f"c{i}", "image": "i", "resources": r} for i, r in enumerate(resources)]
    assert (await server.create(POD, pod_body(name="a", containers=containers)))["status"]["qosClass"] == found


@pytest.mark.parametrize(
    ("whole", "requests", "found"),
    [
        pytest.param({"requests": CPU}, CPU | {"memory": "67072Ki"}, "Burstable", id="beside requests of the pod"),
        pytest.param({"limits": CPU}, {"cpu": "600m", "memory": "67072Ki"}, "Burstable", id="what containers ask for"),
        pytest.param(
            {"limits": BOTH, "requests": BOTH}, BOTH, "Guaranteed", id="everything limited, whatever containers say"
        ),
        pytest.param(
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"cpu": "600m", "memory": "67072Ki", "hugepages-2Mi": "4Mi"},
            "Burstable",
            id="the limit of what no container asks for",
        ),
    ],
)
async def test_pod_level_requests_defaults(server: Harness, whole: Body, requests: Body, found: str) -> None:
    asks = [{"cpu": "100m", "memory": "64Mi"}, {"cpu": "0.5", "memory": "1536Ki"}]
    containers = [{"name": f"c{i}", "image": "i", "resources": {"requests": r}} for i, r in enumerate(asks)]
    pod = await server.create(POD, altered(pod_body(name="a", containers=containers), ("spec.resources", whole)))
    assert (pod["spec"]["resources"]["requests"], pod["status"]["qosClass"]) == (requests, found)


@pytest.mark.parametrize(
    ("requests", "limits"),
    [
        pytest.param({"cpu": "1"}, {"cpu": "3", "memory": "1Gi"}, id="those of the containers"),
        pytest.param({"cpu": "4"}, {"cpu": "4", "memory": "1Gi"}, id="not below the request"),
    ],
)
async def test_pod_level_limits_are_those_of_the_containers(server: Harness, requests: Body, limits: Body) -> None:
    asks = [{"cpu": "1", "memory": "512Mi"}, {"cpu": "2", "memory": "512Mi"}]
    containers = [
        {"name": f"c{i}", "image": "i", "resources": {"limits": r, "requests": {"cpu": "100m"}}}
        for i, r in enumerate(asks)
    ]
    body = altered(pod_body(name="a", containers=containers), ("spec.resources", {"requests": requests}))
    assert (await server.create(POD, body))["spec"]["resources"]["limits"] == limits


async def test_gated_pod_has_scheduling_gated_condition(server: Harness) -> None:
    pod = await server.create(POD, pod_body(name="a", gates=["a.io/x"]))
    assert [(c["type"], c["status"], c["reason"]) for c in pod["status"]["conditions"]] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]


async def test_storage_kinds(server: Harness) -> None:
    storage_class = altered(class_body(name="a", binding_mode=None), ("reclaimPolicy", ABSENT))
    volume = altered(
        volume_body(name="a", node="n"),
        ("spec.persistentVolumeReclaimPolicy", ABSENT),
        ("spec.volumeMode", ABSENT),
    )
    claim = altered(claim_body(name="a"), ("spec.volumeMode", ABSENT))
    made = await server.create(STORAGE_CLASS, storage_class)
    assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")
    made = await server.create(VOLUME, volume)
    assert (made["spec"]["persistentVolumeReclaimPolicy"], made["spec"]["volumeMode"]) == ("Retain", "Filesystem")
    made = await server.create(CLAIM, claim)
    assert (made["spec"]["volumeMode"], made["status"]) == ("Filesystem", {"phase": "Pending"})


@pytest.mark.parametrize("field", ["dataSource", "dataSourceRef"])
async def test_data_source_and_data_source_ref_defaults(server: Harness, field: str) -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "other"}
    spec = (await server.create(CLAIM, altered(claim_body(name="a"), (f"spec.{field}", source))))["spec"]
    assert spec["dataSource"] == spec["dataSourceRef"] == source


async def test_a_stateful_set(server: Harness) -> None:
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    spec = (await server.create(STATEFUL_SET, altered(STATEFUL, ("spec.volumeClaimTemplates", [template]))))["spec"]
    assert spec["template"]["spec"].pop("containers")[0]["terminationMessagePolicy"] == "File"
    assert spec == {
        "selector": {"matchLabels": {"app": "a"}},
        "serviceName": "",
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "schedulerName": "default-scheduler",
                "securityContext": {},
            },
        },
        "volumeClaimTemplates": [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            }
        ],
    }


async def test_secret_string_data_is_encoded(server: Harness) -> None:
    body = {"metadata": {"name": "a"}, "data": {"x": "eA==", "y": "eQ=="}, "stringData": {"y": "new"}}
    secret = await server.create(SECRET, body)
    assert secret["data"] == {"x": "eA==", "y": "bmV3"}
    assert secret["type"] == "Opaque"
    assert "stringData" not in secret


async def test_a_service(server: Harness) -> None:
    service = await server.create(SERVICE, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})
    assert service["spec"] == {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    }


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(POD, BARE, id="pod"),
        pytest.param(CLAIM, claim_body(name="a"), id="claim"),
        pytest.param(VOLUME, volume_body(name="a", node="n"), id="volume"),
        pytest.param(STATEFUL_SET, STATEFUL, id="stateful set"),
        pytest.param(STORAGE_CLASS, class_body(name="a"), id="storage class"),
        pytest.param(SERVICE, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}, id="service"),
        pytest.param(SECRET, {"metadata": {"name": "a"}, "stringData": {"a": "b"}}, id="secret"),
    ],
)
async def test_defaulting_is_idempotent(server: Harness, kind: Kind, body: Body) -> None:
    """Sending back what was answered changes nothing: defaults and normal form agree."""
    made = await server.create(kind, body)
    assert await server.update(kind, made) == made
