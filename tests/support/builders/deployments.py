"""Deployments and ReplicaSets for tests: bodies as users write them, views as watches deliver them."""

from collections.abc import Mapping

from mooring.api import kinds
from mooring.controllers.workloads.deployment import DESIRED, HASH_LABEL, MAXIMUM, REVISION
from support.builders import Body, metadata, owned_by, viewed

#: Pods of these tests have a node name: scheduling is not tested here.
ON_NODE: Body = {"nodeName": "node-1"}


def template(image: str = "example.com/web:1", *, labels: Mapping[str, str] | None = None) -> Body:
    spec: Body = {"containers": [{"name": "main", "image": image}], **ON_NODE}
    return {"metadata": {"labels": {"app": "web", **(labels or {})}}, "spec": spec}


def deployment_body(
    *,
    name: str = "web",
    replicas: int = 3,
    image: str = "example.com/web:1",
    strategy: str = "RollingUpdate",
    surge: int | str = 1,
    unavailable: int | str = 0,
    paused: bool = False,
    history: int = 10,
    deadline: int = 600,
    min_ready: int = 0,
    annotations: Mapping[str, str] | None = None,
    status: Body | None = None,
) -> Body:
    how: Body = {"type": strategy}
    if strategy == "RollingUpdate":
        how["rollingUpdate"] = {"maxSurge": surge, "maxUnavailable": unavailable}
    body: Body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name=name, namespace="default", annotations=annotations),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            "strategy": how,
            "paused": paused,
            "revisionHistoryLimit": history,
            "progressDeadlineSeconds": deadline,
            "minReadySeconds": min_ready,
        },
    }
    return body | ({"status": status} if status is not None else {})


def set_body(
    *,
    name: str = "web-1",
    replicas: int = 3,
    image: str = "example.com/web:1",
    available: int = 0,
    desired: int | None = None,
    maximum: int = 4,
    revision: int = 1,
    owner: str = "web",
    min_ready: int = 0,
) -> Body:
    """A ReplicaSet; `owner` is a Deployment whose uid is its name's, "" for none."""
    own = {HASH_LABEL: name} if owner else {}
    notes = {DESIRED: str(replicas if desired is None else desired), MAXIMUM: str(maximum), REVISION: str(revision)}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": owner}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": metadata(
            name=name,
            namespace="default",
            annotations=notes if owner else {},
            owners=[owned_by(deployment, uid=f"{owner}-uid")] if owner else (),
        ),
        "spec": {
            "replicas": replicas,
            "minReadySeconds": min_ready,
            "selector": {"matchLabels": {"app": "web", **own}},
            "template": template(image, labels=own),
        },
        "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available},
    }


a_deployment = viewed(kinds.DEPLOYMENT, deployment_body)
a_replica_set = viewed(kinds.REPLICA_SET, set_body)
