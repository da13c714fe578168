"""A gang with a shared dataset and scratch volumes, through the command line and kubectl."""

from collections.abc import Callable
from pathlib import Path

from support.e2e.cluster import Cluster
from support.e2e.transcript import commands, run

ROOT = Path(__file__).parents[3]
#: minCount 4, and capacity for three.
EXAMPLE = "training.yaml"
STEPS = f"""
```console
$ kubectl apply -f examples/gangs/{EXAMPLE}
$ kubectl wait --for=condition=PodGroupInitiallyScheduled=false podgroup/training --timeout=60s
$ kubectl get pv
dataset ... Available
$ kubectl get pods
worker-0 ... Pending
worker-3 ... Pending
$ mooring explain podgroup/training
default/training does not fit: 4 members are needed, and at most 3 fit together (minCount 4, 0 bound).
$ kubectl delete podgroup training --wait=false
$ kubectl get podgroup training
training Gang
$ kubectl delete pod worker-0 worker-1 worker-2 worker-3
$ kubectl wait --for=delete podgroup/training --timeout=60s
```
"""


def test_g24_refused_gang_binds_no_volume_and_its_group_outlives_its_pods(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster("--in-memory")
    for command in commands(STEPS):
        run(command, kubeconfig=cluster.kubeconfig, folder=ROOT)
