"""Builders for tests: objects with defaults, so that a test contains only the fields that matter to it.

Keyword arguments only. `a_pod(...)` is the typed view a watch would deliver, `pod_body(...)` the plain dict a client
would send; one module per kind.
"""

from support.builders.claims import a_claim, claim_body, claim_ref
from support.builders.classes import a_class, class_body
from support.builders.drivers import (
    a_capacity,
    a_csi_node,
    a_driver,
    an_attachment,
    attachment_body,
    capacity_body,
    csi_node_body,
    driver_body,
)
from support.builders.nodes import a_node, node_body
from support.builders.objects import Body, metadata, owned_by, viewed
from support.builders.pods import a_pod, pod_body
from support.builders.volumes import a_volume, reachable_from, volume_body

__all__ = [
    "Body",
    "a_capacity",
    "a_claim",
    "a_class",
    "a_csi_node",
    "a_driver",
    "a_node",
    "a_pod",
    "a_volume",
    "an_attachment",
    "attachment_body",
    "capacity_body",
    "claim_body",
    "claim_ref",
    "class_body",
    "csi_node_body",
    "driver_body",
    "metadata",
    "node_body",
    "owned_by",
    "pod_body",
    "reachable_from",
    "viewed",
    "volume_body",
]
