"""Who provisions: an external provisioner, or a plugin once built into Kubernetes that a CSI driver took over from.

Mooring has no plugins inside. Claims of in-tree plugins that a driver took over from are handed to that driver, as
Kubernetes does; other names of in-tree plugins are understood and refused: claims hear `ProvisioningFailed`, released
volumes `VolumeFailedDelete`.
"""

from collections.abc import Mapping
from typing import Final

from mooring.volumes import in_tree

IN_TREE: Final = "kubernetes.io/"
"""The prefix of in-tree plugins; the pseudo provisioner of hand-made volumes has it too."""

DRIVERS: Final[Mapping[str, str]] = {plugin.name: plugin.driver for plugin in in_tree.PLUGINS} | {
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""The plugins whose volumes Kubernetes leaves to a driver for good, with no way back."""


def is_external(provisioner: str) -> bool:
    return not provisioner.startswith(IN_TREE)


def who_serves(provisioner: str) -> str:
    """The external provisioner behind a class's provisioner; "" where there is none."""
    return provisioner if is_external(provisioner) else DRIVERS.get(provisioner, "")


def unknown_plugin(name: str) -> str:
    """Upstream's words for an in-tree plugin that is not there."""
    return f"no volume plugin matched name: {name}"
