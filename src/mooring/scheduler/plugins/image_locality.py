"""ImageLocality: nodes that have the pod's images already are preferred, the more so the larger the images.

An image counts for less while few nodes have it, lest all pods of a workload go where the first one went. It only
prefers: a node without any image does as well.
"""

from typing import ClassVar, Final

import numpy as np

from mooring.scheduler import scores
from mooring.scheduler.contract import Cycle, Hint, Score, Scores
from mooring.scheduler.images import images_of
from mooring.volumes.nodeset import NodeSet, to_mask

_MIB: Final = 1024 * 1024
#: Less than this in all counts as nothing, more than this per container counts as this; kube-scheduler's figures.
LEAST: Final = 23 * _MIB
MOST_PER_CONTAINER: Final = 1000 * _MIB


class ImageLocality:
    name: ClassVar[str] = "ImageLocality"
    weight: ClassVar[int] = 1
    #: It rejects nobody.
    wakes_on: ClassVar[tuple[Hint, ...]] = ()

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        snapshot, spec = cycle.snapshot, cycle.pod.spec
        total = snapshot.nodes.bit_count()
        present = np.zeros(snapshot.resources.width)
        for image in images_of(cycle.pod):
            sizes = snapshot.images.having(image)
            spread = sum(nodes.bit_count() for nodes in sizes.values()) / total
            for size, nodes in sizes.items():
                present += int(size * spread) * to_mask(nodes, len(present))
        if not present.any():
            return None
        most = MOST_PER_CONTAINER * (len(spec.init_containers) + len(spec.containers))
        return np.floor(scores.HIGHEST * (np.clip(present, LEAST, most) - LEAST) / (most - LEAST))


_contract: Score = ImageLocality()
