"""Why pods stay pending, in the words of `mooring explain`: the same decision once more, on the cluster as it ended.

Pods of one owner, or of none, that hear the same from the scheduler are alike, and one of them is explained. So are
only so many groups: each costs a look at the whole cluster.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.explain.cluster_objects import DECISIVE, ClusterObjects
from mooring.explain.pod import explain_pod
from mooring.explain.words import paragraphs
from mooring.sim.whatif.outcome import Explanation, Pending

#: Groups of pods that are explained; the others keep the scheduler's own sentence.
EXPLAINED: Final = 5


def explanations(
    pending: Sequence[Pending],
    pod: Callable[[str], Pod | None],
    items: Callable[[Kind[ApiObject]], Collection[ApiObject]],
    *,
    now: float,
) -> tuple[Explanation, ...]:
    """Of pods that found no node; `items` are all objects of a kind at the end."""
    groups: dict[tuple[str, str], list[Pod]] = {}
    for each in pending:
        waiting = pod(each.pod)
        if waiting is not None and not waiting.spec.node_name:
            owner = waiting.controller
            groups.setdefault((owner.uid if owner is not None else "", each.reason), []).append(waiting)
    if not groups:
        return ()
    objects = ClusterObjects(now=now)
    for kind in DECISIVE:
        for item in items(kind):
            objects.put(kind, item)
    return tuple(_explained(alike, objects) for alike in [*groups.values()][:EXPLAINED])


def _explained(alike: Sequence[Pod], objects: ClusterObjects) -> Explanation:
    verdict, _ = explain_pod(alike[0], objects)
    rest = tuple(paragraphs(msgspec.structs.replace(verdict, helps=())))
    return Explanation(alike[0].key, len(alike), verdict.verdict, rest, verdict.helps)
