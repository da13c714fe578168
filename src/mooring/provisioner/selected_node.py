"""Giving the choice of a claim's node back to the scheduler."""

from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import keys
from mooring.api.errors import Conflict, NotFound
from mooring.api.kinds import CLAIM
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Tries under a version that somebody else keeps changing, before the claim waits like any other.
TRIES: Final = 3


async def remove(client: Client, about: ApiObject, node: str) -> bool:
    """Take the selected node off the claim; False if the claim names another one by now.

    Decided on what the server says, and written under that version. Raises ApiError and Unreachable.
    """
    for left in reversed(range(TRIES)):
        try:
            claim = await client.get(CLAIM, about.name, namespace=about.namespace)
        except NotFound:
            return True
        if claim.uid != about.uid or claim.selected_node is None:
            return True
        if claim.selected_node != node:
            return False
        none = {keys.SELECTED_NODE: None, keys.SELECTED_NODE_DRAFT: None}
        version = claim.metadata.resource_version
        patch = MergePatch({"metadata": {"resourceVersion": version, "annotations": none}})
        try:
            await client.patch(CLAIM, claim.name, patch, namespace=claim.namespace)
        except Conflict:
            if not left:
                raise
        else:
            log.info("claim goes back to the scheduler", claim=claim.key, node=node)
            return True
    raise AssertionError("the last try returns or raises")
