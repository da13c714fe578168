"""Which container images are on which nodes, and how large they are.

Part of the snapshot, read by the plugin ImageLocality. Nodes with an image of one size are one set, so a question
costs the same for ten nodes and for thousands. It knows slots and names as nodes and pods spell them; registries and
pulling are nobody's business here.
"""

from collections.abc import Iterable, Iterator, Mapping

from mooring.api.views.node import NodeImage
from mooring.api.views.pod import Pod
from mooring.volumes.nodeset import EMPTY, NodeSet


class ImageIndex:
    """Images by name: the nodes that have it, by the size they report for it."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[int, NodeSet]] = {}
        self._listed: dict[int, tuple[NodeImage, ...]] = {}

    def put(self, slot: int, images: tuple[NodeImage, ...]) -> None:
        """The node in this slot has these images; none once it is gone."""
        before = self._listed.get(slot, ())
        if before == images:
            return
        bit = 1 << slot
        for name, size in _sizes(before).items():
            sizes = self._nodes[name]
            sizes[size] &= ~bit
            if not sizes[size]:
                del sizes[size]
            if not sizes:
                del self._nodes[name]
        for name, size in _sizes(images).items():
            sizes = self._nodes.setdefault(name, {})
            sizes[size] = sizes.get(size, EMPTY) | bit
        if images:
            self._listed[slot] = images
        else:
            self._listed.pop(slot, None)

    def having(self, name: str) -> Mapping[int, NodeSet]:
        """The nodes with an image, by its size there."""
        return self._nodes.get(name, {})


def images_of(pod: Pod) -> Iterator[str]:
    """The images a pod needs, with a tag: of init containers, containers and image volumes, each as often as used."""
    spec = pod.spec
    for container in (*spec.init_containers, *spec.containers):
        yield _tagged(container.image)
    for volume in spec.volumes:
        if volume.image is not None:
            yield _tagged(volume.image.reference)


def _tagged(name: str) -> str:
    """A colon before the last slash belongs to the registry's port."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _sizes(images: Iterable[NodeImage]) -> dict[str, int]:
    """Of a name that is listed twice the last size counts."""
    return {name: image.size_bytes for image in images for name in image.names or ()}
