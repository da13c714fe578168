"""Cost of a simulation: 5,000 nodes with 50,000 running pods, and 1,000 new ones with an unbound claim each.

    python -m bench.what_if [--nodes N] [--running N] [--new N] [--new-cpu CPU] [--yaml] [--profile] [-- FLAG …]

Writes the cluster as `kubectl get -o json`, or `-o yaml`, would print it, then runs `mooring simulate` on it in
another process, as a user does, with the flags after `--`: `--new 1 --new-cpu 12 -- --rebalance-for new-0` asks for
moves. Prints the processor and wall seconds of that process, its memory, and the verdict;
with --profile where the time of the simulation goes, taken inside this process.
"""

import argparse
import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

DRIVER: Final = "disks.example.com"
PODS_OF_SET: Final = 50
ZONES: Final = 3

Body = dict[str, Any]


def nodes(count: int) -> Iterator[Body]:
    offered = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    for number in range(count):
        name = f"node-{number}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % ZONES}"}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-01T00:00:00Z"}
        yield _listed("v1", "Node", name, labels=labels) | {
            "spec": {"providerID": f"cloud://{name}"},
            "status": {"capacity": offered, "allocatable": offered, "conditions": [ready]},
        }
        yield _listed("storage.k8s.io/v1", "CSINode", name) | {
            "spec": {"drivers": [{"name": DRIVER, "nodeID": name, "topologyKeys": ["kubernetes.io/hostname"]}]}
        }
        yield _listed("storage.k8s.io/v1", "CSIStorageCapacity", f"csisc-{number}", namespace="storage") | {
            "storageClassName": "fast",
            "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}},
            "capacity": "100Gi",
            "maximumVolumeSize": "100Gi",
        }


def storage() -> Iterator[Body]:
    yield _listed("storage.k8s.io/v1", "CSIDriver", DRIVER) | {
        "spec": {"attachRequired": False, "storageCapacity": True}
    }
    yield _listed("storage.k8s.io/v1", "StorageClass", "fast") | {
        "provisioner": DRIVER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def running(count: int, spread: int) -> Iterator[Body]:
    """Pods of ReplicaSets, round the nodes."""
    for number in range(-(-count // PODS_OF_SET)):
        app = f"app-{number}"
        size = min(PODS_OF_SET, count - number * PODS_OF_SET)
        owned = {"labels": {"app": app}}
        yield _listed("apps/v1", "ReplicaSet", app, **owned) | {
            "spec": {"replicas": size, "selector": {"matchLabels": {"app": app}}, "template": _template(app)},
            "status": {"replicas": size, "readyReplicas": size, "availableReplicas": size, "observedGeneration": 1},
        }
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"ReplicaSet {app}"}
        for each in range(size):
            place = number * PODS_OF_SET + each
            pod = _listed("v1", "Pod", f"{app}-{each}", **owned)
            pod["metadata"]["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
            spec = _template(app)["spec"] | {"nodeName": f"node-{place % spread}", "schedulerName": "default-scheduler"}
            yield pod | {"spec": spec, "status": _running()}


def new(count: int, cpu: str) -> Iterator[Body]:
    for number in range(count):
        name = f"new-{number}"
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "10Gi"}},
        }
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim}
        spec = _template("new")["spec"] | {"volumes": [volume]}
        spec["containers"][0]["resources"]["requests"]["cpu"] = cpu
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "new"}}, "spec": spec}


def _listed(version: str, kind: str, name: str, *, namespace: str = "default", **metadata: object) -> Body:
    """As a server lists it: with uid, dates and who wrote which field."""
    managed = {"manager": "kube-controller-manager", "operation": "Update", "time": "2026-05-01T00:00:00Z"}
    fields = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": {}}}
    common = {"name": name, "uid": f"{kind} {name}", "resourceVersion": "1", "generation": 1}
    if kind in ("Pod", "ReplicaSet", "CSIStorageCapacity"):
        common["namespace"] = namespace
    common |= {"creationTimestamp": "2026-05-01T00:00:00Z", "managedFields": [managed | {"fieldsV1": fields}]}
    return {"apiVersion": version, "kind": kind, "metadata": common | metadata}


def _template(app: str) -> Body:
    resources = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}
    container = {"name": "main", "image": f"registry.example.com/{app}:1", "resources": resources}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], "restartPolicy": "Always"}}


def _running() -> Body:
    since = "2026-05-01T00:00:10Z"
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    state = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": since}}}
    return {
        "phase": "Running",
        "startTime": since,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": since} for kind in kinds],
        "containerStatuses": [state],
    }


def profiled(state: Path, added: Path) -> None:
    from mooring.cli import runtime
    from mooring.cli.sources import documents
    from mooring.whatif.inventory import Inventory
    from mooring.whatif.question import WhatIfQuestion
    from mooring.whatif.run import answer

    runtime.configure_logging("error")
    began = time.process_time()
    inventory = Inventory()
    for _, document in documents([str(state), str(added)]):
        inventory.add(document)
    print(f"reading      {time.process_time() - began:6.1f} s of processor time")
    profile = cProfile.Profile()
    began = time.process_time()
    profile.enable()
    result = answer(WhatIfQuestion(inventory))
    profile.disable()
    print(f"simulating   {time.process_time() - began:6.1f} s of processor time, profiled: {result.verdict}")
    pstats.Stats(profile).sort_stats("tottime").print_stats(35)


def asked(state: Path, added: Path, flags: list[str]) -> None:
    began = time.monotonic()
    command = [sys.executable, "-m", "mooring", "simulate", "-f", str(state), "-f", str(added), *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    wall = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout.partition("\n")[0])
    print(f"processor {used.ru_utime + used.ru_stime:.1f} s, wall {wall:.1f} s, memory {used.ru_maxrss / 1024:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--running", type=int, default=50_000)
    parser.add_argument("--new", type=int, default=1_000)
    parser.add_argument("--new-cpu", default="500m")
    parser.add_argument("--yaml", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("flags", nargs="*")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        form = "yaml" if wanted.yaml else "json"
        state, added = Path(folder) / f"state.{form}", Path(folder) / "new.json"
        there = [*storage(), *nodes(wanted.nodes), *running(wanted.running, wanted.nodes)]
        listed = {"apiVersion": "v1", "kind": "List", "items": there}
        state.write_text(yaml.dump(listed, Dumper=yaml.CSafeDumper) if wanted.yaml else json.dumps(listed))
        added.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*new(wanted.new, wanted.new_cpu)]}))
        size = os.path.getsize(state) >> 20
        print(f"{wanted.nodes} nodes, {wanted.running} pods, {wanted.new} new; {size} MB of {form}")
        profiled(state, added) if wanted.profile else asked(state, added, wanted.flags)


if __name__ == "__main__":
    main()
