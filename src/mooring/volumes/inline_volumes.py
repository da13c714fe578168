"""Capacity for CSI inline (ephemeral) volumes, where their driver reports it. Pure.

Such a volume is created by its driver on the pod's node, after the pod was bound: without capacity there the pod does
not start, and is not scheduled to another node. It has no class, and its size is an attribute that only the driver
knows. So a StorageClass of the driver opts in with the annotation `mooring.dev/inline-size-attribute`: it names the
attribute, and the capacity that is reported for the class is the one that inline volumes are taken from.

Volumes of pods that are on a node and do not run yet are counted beside those of the pod; those of running pods are
part of what the driver reports.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from mooring.api import quantity, well_known
from mooring.api.quantity import QuantityError
from mooring.api.views.pods import Pod
from mooring.api.views.storage import StorageClass
from mooring.volumes.decider import Provisioners
from mooring.volumes.topology import EMPTY, NodeSet, TopologyIndex, node_set_from_mask


class InlineRequest(NamedTuple):
    """An inline volume whose size is known."""

    driver: str
    size: int


def has_inline_volumes(pod: Pod) -> bool:
    return any(volume.csi is not None for volume in pod.spec.volumes)


def size_attributes(classes: Iterable[StorageClass]) -> dict[str, StorageClass]:
    """By driver, the class that stands for inline volumes; of several, the first by name."""
    opted_in = [one for one in classes if one.metadata.annotations.get(well_known.INLINE_SIZE_ATTRIBUTE)]
    return {one.provisioner: one for one in sorted(opted_in, key=lambda one: one.name, reverse=True)}


def inline_requests(pod: Pod, classes: Mapping[str, StorageClass]) -> Iterator[InlineRequest]:
    """The inline volumes of a pod, of drivers in `classes`; those without a valid size do not count."""
    for volume in pod.spec.volumes:
        storage_class = None if volume.csi is None else classes.get(volume.csi.driver)
        if volume.csi is None or storage_class is None:
            continue
        attribute = storage_class.metadata.annotations[well_known.INLINE_SIZE_ATTRIBUTE]
        try:
            size = quantity.to_bytes(volume.csi.volume_attributes.get(attribute, "0"))
        except QuantityError:
            continue
        if size > 0:
            yield InlineRequest(volume.csi.driver, size)


def nodes_short_of_inline_capacity(
    pod: Pod, starting: Iterable[tuple[Pod, str]], provisioners: Provisioners, topology: TopologyIndex
) -> NodeSet:
    """The nodes without capacity for the pod's inline volumes, beside those of pods that start there (pod, node)."""
    if not has_inline_volumes(pod):
        return EMPTY
    classes = size_attributes(provisioners.classes.values())
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for request in inline_requests(pod, classes):
        wanted[request.driver].append(request.size)
    short = EMPTY
    others = list(starting) if wanted else []
    for driver, sizes in wanted.items():
        if not provisioners.reports_capacity(driver):
            continue
        taken = np.zeros(topology.width)
        for other, node in others:
            if node in topology and other.key != pod.key:
                amount = sum(one.size for one in inline_requests(other, classes) if one.driver == driver)
                taken[topology.slot(node)] += amount
        name = classes[driver].name
        provisioners.charges.refresh()
        free = provisioners.capacity.free(name, topology.width)
        enough = node_set_from_mask(np.asarray(free - taken >= sum(sizes)))
        short |= topology.all & ~(enough & provisioners.capacity.nodes_with_capacity(name, max(sizes)))
    return short
