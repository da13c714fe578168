"""Which claims this provisioner serves: the question before any driver is asked.

Pure. The answers follow external-provisioner, with one difference: a claim that is on its way out gets no volume,
unless a driver may be making one already.
"""

import enum
from typing import NamedTuple

from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.provisioner.settings import NodeDeployment

IMMEDIATE = "Immediate"


class Verdict(enum.Enum):
    #: Make its volume.
    SERVE = "serve"
    #: Not ours, or not yet: its next change brings it back.
    LEAVE = "leave"
    #: Nobody has chosen a node, and this instance may offer its own.
    OFFER = "offer"
    #: Ours, but its class is not there: try again.
    NO_CLASS = "no class"


class Claimed(NamedTuple):
    """Everything the question is about."""

    claim: Claim
    storage_class: StorageClass | None
    driver: str
    deployment: NodeDeployment | None = None


def verdict(asked: Claimed) -> Verdict:
    claim, storage_class, driver, deployment = asked
    if claim.spec.volume_name or claim.deleting or not addressed_to(claim, driver):
        return Verdict.LEAVE
    if not claim.storage_class:
        return Verdict.LEAVE
    if storage_class is None:
        return Verdict.NO_CLASS
    if storage_class.provisioner != driver:
        # SEEN: the claim was handed to us under a class that has been replaced since.
        return Verdict.LEAVE
    if deployment is not None and claim.selected_node != deployment.node:
        return _of_another_node(claim, storage_class, deployment)
    if storage_class.delayed and not claim.metadata.annotations.get(keys.SELECTED_NODE):
        return Verdict.LEAVE
    return Verdict.SERVE


def addressed_to(claim: Claim, driver: str) -> bool:
    """Whether the PV controller has handed the claim to this driver."""
    annotations = claim.metadata.annotations
    named = annotations.get(keys.STORAGE_PROVISIONER, annotations.get(keys.STORAGE_PROVISIONER_BETA))
    return driver in (named, annotations.get(keys.MIGRATED_TO))


def _of_another_node(claim: Claim, storage_class: StorageClass, deployment: NodeDeployment) -> Verdict:
    if claim.selected_node or not deployment.immediate_binding:
        return Verdict.LEAVE
    # An unset mode does not count as immediate, as upstream.
    return Verdict.OFFER if storage_class.volume_binding_mode == IMMEDIATE else Verdict.LEAVE
