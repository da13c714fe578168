"""Objects of every served kind, for clients to read; and, run as a program, one published client that reads them all.

    python every_kind.py CLIENT ROWS

ROWS is JSON: [apiVersion, kind, plural, namespace or "", name] each. Prints, as JSON, what failed: kind to error.
In a process of its own, because some clients leave connections open behind them, which the test suite takes for an
error.
"""

import asyncio
import json
import re
import sys
from collections.abc import Callable
from typing import Any, Final

from support.builders import Body, pod_body

#: apiVersion, kind, plural, namespace, name.
Row = tuple[str, str, str, str, str]

SCRATCH: Final = {
    "name": "scratch",
    "ephemeral": {
        "volumeClaimTemplate": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        }
    },
}
DEVICES: Final = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu"}}]}}


def _object(api_version: str, kind: str, name: str = "web", **fields: object) -> Body:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def _template(app: str) -> Body:
    spec = {"containers": [{"name": "main", "image": "main"}], "volumes": [SCRATCH]}
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def _workload(kind: str, **spec: object) -> Body:
    selector = {"matchLabels": {"app": kind.lower()}}
    return _object("apps/v1", kind, spec={"selector": selector, "template": _template(kind.lower()), **spec})


#: Objects that users write, with the required fields only. Controllers create the others: pods, claims, events, ….
WRITTEN: Final = [
    _workload("Deployment"),
    _workload("DaemonSet"),
    _workload("StatefulSet"),
    _object(
        "v1", "ReplicationController", spec={"replicas": 0, "selector": {"app": "rc"}, "template": _template("rc")}
    ),
    _object(
        "policy/v1",
        "PodDisruptionBudget",
        spec={"selector": {"matchLabels": {"app": "deployment"}}, "maxUnavailable": 1},
    ),
    _object("v1", "PodTemplate", template=_template("web")),
    _object("v1", "ConfigMap"),
    _object("v1", "Secret"),
    _object("v1", "Service", spec={"ports": [{"port": 80}]}),
    _object("v1", "Endpoints"),
    _object("v1", "LimitRange", spec={"limits": []}),
    _object("v1", "ResourceQuota"),
    _object("storage.k8s.io/v1", "VolumeAttributesClass", driverName="disks.example.com", parameters={"a": "b"}),
    _object(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        spec={"attacher": "disks.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": "none"}},
    ),
    _object("resource.k8s.io/v1", "DeviceClass", name="gpu", spec={}),
    _object("resource.k8s.io/v1", "ResourceClaim", spec=DEVICES),
    _object("resource.k8s.io/v1", "ResourceClaimTemplate", spec={"spec": DEVICES}),
    _object(
        "resource.k8s.io/v1",
        "ResourceSlice",
        spec={
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    ),
    _object("resource.k8s.io/v1", "DeviceTaintRule", spec={"taint": {"key": "broken", "effect": "NoSchedule"}}),
    _object("certificates.k8s.io/v1", "ClusterTrustBundle", spec={"trustBundle": ""}),
    _object(
        "certificates.k8s.io/v1",
        "PodCertificateRequest",
        spec={
            "signerName": "example.com/signer",
            "podName": "waits",
            "podUID": "1",
            "serviceAccountName": "default",
            "serviceAccountUID": "1",
            "nodeName": "node-1",
            "nodeUID": "1",
            "stubPKCS10Request": "",
        },
    ),
    _object(
        "storagemigration.k8s.io/v1",
        "StorageVersionMigration",
        spec={"resource": {"group": "apps", "resource": "deployments"}},
    ),
    _object("rbac.authorization.k8s.io/v1", "Role"),
    _object("rbac.authorization.k8s.io/v1", "ClusterRole", name="nothing"),
    _object(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"},
    ),
    _object("scheduling.k8s.io/v1beta1", "PodGroup", spec={"schedulingPolicy": {"gang": {"minCount": 2}}}),
    _object(
        "scheduling.k8s.io/v1beta1",
        "Workload",
        spec={"podGroupTemplates": [{"name": "all", "schedulingPolicy": {"gang": {"minCount": 2}}}]},
    ),
    # It is unschedulable, and its scheduler writes an event.
    pod_body(name="waits", namespace="", node_selector={"no": "where"}),
]


def _failures(rows: list[Row], read: Callable[[Row], None]) -> dict[str, str]:
    found = {}
    for row in rows:
        try:
            read(row)
        except Exception as error:  # whatever a client raises is what the test wants to see
            found[f"{row[0]} {row[1]}"] = f"{type(error).__name__}: {error}"[:300]
    return found


def _method(verb: str, row: Row) -> str:
    """The method name in generated Kubernetes clients."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", row[1]).lower()
    return f"{verb}_{'namespaced_' if row[3] else ''}{snake}"


def _api(client: Any, api_version: str) -> Any:  # noqa: ANN401  clients have no types
    group, _, version = api_version.rpartition("/")
    words = re.split(r"[.]", group.removesuffix(".k8s.io")) if group else ["core"]
    return getattr(client, "".join(word.capitalize() for word in words) + version.capitalize() + "Api")


def kubernetes(rows: list[Row]) -> dict[str, str]:
    from kubernetes import client, config, watch

    config.load_kube_config()

    def read(row: Row) -> None:
        api = _api(client, row[0])()
        place = (row[3],) if row[3] else ()
        assert getattr(api, _method("read", row))(row[4], *place).metadata.name == row[4]
        listing = getattr(api, _method("list", row))
        assert row[4] in [item.metadata.name for item in listing(*place).items]
        seen = watch.Watch().stream(listing, *place, timeout_seconds=5)
        assert next(seen)["object"].metadata.name
        seen.close()

    return _failures(rows, read)


def kubernetes_asyncio(rows: list[Row]) -> dict[str, str]:
    from kubernetes_asyncio import client, config, watch

    async def read(connection: Any, row: Row) -> None:  # noqa: ANN401  clients have no types
        api = _api(client, row[0])(connection)
        place = (row[3],) if row[3] else ()
        assert (await getattr(api, _method("read", row))(row[4], *place)).metadata.name == row[4]
        listing = getattr(api, _method("list", row))
        assert row[4] in [item.metadata.name for item in (await listing(*place)).items]
        async with watch.Watch() as watching:
            async for seen in watching.stream(listing, *place, timeout_seconds=5):
                assert seen["object"].metadata.name
                return
        raise AssertionError("nothing seen")

    async def main() -> dict[str, str]:
        await config.load_kube_config()
        found = {}
        async with client.ApiClient() as connection:
            for row in rows:
                try:
                    await read(connection, row)
                except Exception as error:  # whatever a client raises is what the test wants to see
                    found[f"{row[0]} {row[1]}"] = f"{type(error).__name__}: {error}"[:300]
        return found

    return asyncio.run(main())


def lightkube(rows: list[Row]) -> dict[str, str]:
    from importlib import import_module

    from lightkube import Client

    client = Client()

    def read(row: Row) -> None:
        group, _, version = row[0].rpartition("/")
        module = f"{group.removesuffix('.k8s.io').replace('.', '_') or 'core'}_{version}"
        resource = getattr(import_module(f"lightkube.resources.{module}"), row[1])
        place = {"namespace": row[3]} if row[3] else {}
        assert client.get(resource, row[4], **place).metadata.name == row[4]
        assert row[4] in [item.metadata.name for item in client.list(resource, **place)]
        change, item = next(client.watch(resource, server_timeout=5, **place))
        assert (change, bool(item.metadata.name)) == ("ADDED", True)

    return _failures(rows, read)


def kr8s(rows: list[Row]) -> dict[str, str]:
    import kr8s

    api = kr8s.api()

    def read(row: Row) -> None:
        group, _, version = row[0].rpartition("/")
        kind = f"{row[2]}.{version}.{group}" if group else row[2]
        place = {"namespace": row[3]} if row[3] else {}
        [item] = api.get(kind, row[4], **place)
        assert item.name == row[4]
        assert row[4] in [item.name for item in api.get(kind, **place)]
        change, item = next(api.watch(kind, **place))
        assert (change, bool(item.name)) == ("ADDED", True)

    return _failures(rows, read)


CLIENTS: Final = {one.__name__: one for one in (kubernetes, kubernetes_asyncio, lightkube, kr8s)}

if __name__ == "__main__":
    print(json.dumps(CLIENTS[sys.argv[1]](json.loads(sys.argv[2]))))
