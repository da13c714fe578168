"""Every remedy that is printed helps: carried out on the cluster, with the control plane at work, the pod runs.

The control plane is the simulated one; `tests/e2e/cli/test_remedies.py` does the same in the embedded cluster.
"""

import random
from collections import Counter

import pytest

from mooring.api.kinds import POD as POD_KIND
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.pod import explain_pod
from mooring.explain.results import PodVerdict
from support.simulation.scenarios import seeds
from support.whatif.questions import asked
from support.whatif.stuck_clusters import POD, Cluster, stuck_cluster

#: Clusters in a test run, and remedies that are carried out of each.
CLUSTERS = 40
CARRIED_OUT = 3


def explained(bodies: list[dict[str, object]]) -> PodVerdict:
    objects = ClusterObjects(now=1_800_000_000.0)
    for body in bodies:
        objects.add(body)
    pod = objects.get(POD_KIND, POD)
    assert pod is not None
    first = explain_pod(pod, objects)[0]
    assert explain_pod(pod, objects)[0] == first, "trials leave nothing behind"
    return first


@pytest.mark.parametrize("seed", seeds(CLUSTERS))
def test_pod_runs_after_a_printed_remedy(seed: int) -> None:
    rng = random.Random(seed)
    bodies = stuck_cluster(rng)
    verdict = explained(bodies)
    if verdict.ok:
        return
    chosen = [(one, changes) for one in verdict.remedies for changes in (one.changes, *one.alternatives)]
    for remedy, changes in rng.sample(chosen, min(CARRIED_OUT, len(chosen))):
        cluster = Cluster(bodies)
        for change in changes:
            cluster.apply(change)
        result = asked(*cluster.bodies, seed=seed)
        waiting = {each.pod: each.reason for each in result.pending}
        assert POD not in waiting, f"{remedy.text}\n{changes}\n{waiting[POD]}\n{verdict.verdict}"


def test_seeds_draw_many_shapes() -> None:
    """Most clusters have a stuck pod, most of these a remedy, and many kinds of changes are among them."""
    stuck = helped = 0
    kinds: Counter[str] = Counter()
    for seed in range(120):
        verdict = explained(stuck_cluster(random.Random(seed)))
        if not verdict.ok:
            stuck += 1
            helped += bool(verdict.remedies)
            kinds.update(type(change).__name__ for one in verdict.remedies for change in one.changes)
    assert stuck > 60
    assert helped > stuck * 0.8
    assert len(kinds) >= 15, kinds
