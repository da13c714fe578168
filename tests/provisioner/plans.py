"""Plans for claims on a one-node cluster with the driver on paper."""

import random
from collections.abc import Set as AbstractSet

from builders import a_claim, a_class
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.csi.contract import NodeInfo, Topology
from mooring.provisioner import planning
from mooring.provisioner.attempt import Refusal
from mooring.provisioner.places import OwnPlace
from mooring.provisioner.planning import Plan
from mooring.provisioner.settings import DriverFacts, Settings
from provisioner.paper_driver import ABLE, DRIVER, KEY, WHOLE

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
    settings: Settings | None = None,
    about: DriverFacts | None = None,
) -> Plan | Refusal:
    claim = claim or a_claim(uid=UID, storage_class="made", selected_node=NODE)
    about = about or facts()
    driver = planning.Driver(about, settings or Settings())
    return planning.plan(claim, storage_class, driver, OwnPlace(NODE, about), random.Random(0))


def plan_of(
    claim: Claim | None = None,
    storage_class: StorageClass = MADE,
    *,
    settings: Settings | None = None,
    about: DriverFacts | None = None,
) -> Plan:
    found = planned(claim, storage_class, settings=settings, about=about)
    assert isinstance(found, Plan), found
    return found
