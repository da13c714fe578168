"""Provisioning plans for claims on a one-node cluster with the fake driver."""

import random
from collections.abc import Set as AbstractSet

from mooring.api.views.storage import Claim, StorageClass
from mooring.csi.contract import NodeInfo, Topology
from mooring.provisioner.provision import request
from mooring.provisioner.provision.request import ProvisioningPlan
from mooring.provisioner.provision.topology import single_node_topology
from mooring.provisioner.settings import DriverFacts, ProvisionerSettings, ProvisioningFailure
from support.builders import a_claim, a_class
from support.csi_drivers.recording import ABLE, DRIVER, KEY, WHOLE

UID = "0123abcd-4567-89ab-cdef-0123456789ab"
NODE = "node-1"
MADE = a_class(name="made", provisioner=DRIVER)


def facts(*, able: AbstractSet[str] = ABLE, whole: AbstractSet[str] = WHOLE) -> DriverFacts:
    here = NodeInfo(NODE, accessible_from=Topology({KEY: NODE}))
    return DriverFacts(DRIVER, "id", frozenset(whole), frozenset(able), here)


def planned(
    claim: Claim | None = None,
    storage_class: StorageClass = MADE,
    *,
    settings: ProvisionerSettings | None = None,
    about: DriverFacts | None = None,
) -> ProvisioningPlan | ProvisioningFailure:
    claim = claim or a_claim(uid=UID, storage_class="made", selected_node=NODE)
    about = about or facts()
    driver = request.ConfiguredDriver(about, settings or ProvisionerSettings())
    topology = single_node_topology(NODE, about)
    try:
        return request.plan_provisioning(claim, storage_class, driver, topology, random.Random(0))
    except ProvisioningFailure as failure:
        return failure


def plan_of(
    claim: Claim | None = None,
    storage_class: StorageClass = MADE,
    *,
    settings: ProvisionerSettings | None = None,
    about: DriverFacts | None = None,
) -> ProvisioningPlan:
    found = planned(claim, storage_class, settings=settings, about=about)
    assert isinstance(found, ProvisioningPlan), found
    return found
