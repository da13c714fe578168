"""Who provisions: a name is either an external provisioner's or that of a plugin once built into Kubernetes.

Mooring has no plugins inside. Names of in-tree plugins, which Kubernetes would hand over to a CSI driver, are
understood and refused: claims hear `ProvisioningFailed`, released volumes `VolumeFailedDelete`.
"""

from typing import Final

IN_TREE: Final = "kubernetes.io/"
"""The prefix of in-tree plugins; the pseudo provisioner of hand-made volumes has it too."""


def is_external(provisioner: str) -> bool:
    return not provisioner.startswith(IN_TREE)


def unknown_plugin(name: str) -> str:
    """Upstream's words for an in-tree plugin that is not there."""
    return f"no volume plugin matched name: {name}"
