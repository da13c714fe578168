"""Volumes defined inside a pod: created by NodePublishVolume under the kubelet's id, gone with NodeUnpublishVolume.

Pure; `node` uses it. An id that this driver could have given itself is never an inline volume's, which is how a
repeated NodeUnpublishVolume is told from one for a volume that never was.
"""

import re
from collections.abc import Mapping
from typing import Final

from mooring.csi.contract import Code, DriverError, VolumeCapability
from mooring.hostpath.layout import Layout, Settings
from mooring.hostpath.ledger import Ledger
from mooring.hostpath.parameters import EPHEMERAL, inline_wish
from mooring.hostpath.placement import placed_inline
from mooring.hostpath.records import Volume

#: As `Ledger.new_id` writes them.
OWN: Final = re.compile(r"v\d{6,}-[0-9a-f]{16}")
#: The id becomes a file name.
SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def asked_for(context: Mapping[str, str]) -> bool:
    return context.get(EPHEMERAL) == "true"


def never_ours(volume_id: str) -> bool:
    """Whether only a kubelet can have made it up."""
    return OWN.fullmatch(volume_id) is None


def new_volume(
    volume_id: str,
    *,
    node: str,
    capability: VolumeCapability,
    context: Mapping[str, str],
    layout: Layout,
    settings: Settings,
    ledger: Ledger,
    free: int,
) -> Volume:
    if not (never_ours(volume_id) and SAFE.fullmatch(volume_id)):
        raise DriverError(Code.INVALID_ARGUMENT, f"{volume_id!r} cannot be the id of an inline volume")
    if capability.block:
        raise DriverError(Code.INVALID_ARGUMENT, "an inline volume cannot be a block volume")
    segments = layout.nodes.get(node, {})
    wanted, size = inline_wish(context)
    sites = layout.reachable_from(segments)
    return placed_inline(wanted, size, sites, settings, ledger, volume_id=volume_id, free=free)
