"""How attachments of CSI volumes are called: the same for whoever makes, awaits or removes them.

Pure; upstream's names, so that Mooring's components and Kubernetes' find each other's.
"""

import hashlib


def attachment_name(driver: str, handle: str, node: str) -> str:
    """The VolumeAttachment of a volume on a node."""
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def in_use_name(driver: str, handle: str) -> str:
    """How a node names a volume it has not let go of, in its `status.volumesInUse`."""
    return f"kubernetes.io/csi/{driver}^{handle}"
