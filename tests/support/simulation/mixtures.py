"""Pods with claims on existing volumes, on provisioned volumes, and on either."""

import random
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from mooring.api import well_known
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.provisioner.standins.component import StandInProvisioner
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.simulation.fault_scenario import FaultScenario
from support.simulation.faults import FaultLimits
from support.simulation.scenarios import (
    FAULT_LIMITS,
    FAULTY_INSTANCES,
    WITH_DUPLICATES,
    all_pods_run,
    create_objects,
    no_expectation,
)

PROVISIONER: Final = StandInProvisioner.name
#: WaitForFirstConsumer, provisioned by a stand-in on the selected node.
ZONAL: Final = class_body(name="zonal", provisioner="zonal.standins.mooring.dev")
OF_NODE: Final = class_body(name="of-node", provisioner="local.standins.mooring.dev")
REGIONAL: Final = class_body(name="regional", provisioner="regional.standins.mooring.dev")
#: With allowed topologies.
LIMITED: Final = class_body(
    name="limited",
    provisioner="zonal.standins.mooring.dev",
    allowed_topologies=[{well_known.ZONE: ["zone-a", "zone-b"]}],
)
#: Bound before the pod is scheduled.
IMMEDIATE: Final = class_body(name="at-once", provisioner="zonal.standins.mooring.dev", binding_mode="Immediate")
#: Provisioned only where no existing volume matches.
EITHER: Final = class_body(name="either", provisioner="local.standins.mooring.dev")
CLASSES: Final = (ZONAL, OF_NODE, REGIONAL, LIMITED, IMMEDIATE, EITHER)

WITH_PROVISIONER: Final = msgspec.structs.replace(
    FAULT_LIMITS, instances=(*FAULTY_INSTANCES, PROVISIONER, PROVISIONER, PROVISIONER)
)
TWO_OF_EACH: Final = msgspec.structs.replace(
    WITH_DUPLICATES,
    duplicates=(*WITH_DUPLICATES.duplicates, PROVISIONER),
    instances=(*WITH_DUPLICATES.instances, PROVISIONER, f"{PROVISIONER}-2"),
)


class ClaimRequest(NamedTuple):
    """What one claim requests."""

    storage_class: str
    gibibytes: int


class Mixture(NamedTuple):
    layout: Layout
    pods: tuple[tuple[ClaimRequest, ...], ...]
    pace: float
    #: Nodes with an existing volume of class `either`.
    existing: tuple[str, ...] = ()

    def scenario(self, *, all_run: bool = False) -> FaultScenario:
        expect = partial(all_pods_run, count=len(self.pods)) if all_run else no_expectation
        return FaultScenario(self.layout, partial(create_objects, self._objects(), self.pace), expect=expect)

    def with_interventions(self, limits: FaultLimits) -> FaultLimits:
        """The limits, and users who delete objects and bind volumes."""
        claims = tuple(f"default/{name}" for number in range(len(self.pods)) for name in self._claims(number))
        volumes = (
            *(
                f"local-{row.name}-{number + 1}"
                for row in self.layout.rows()
                for number in range(self.layout.local_volumes)
            ),
            *self._existing(),
        )
        deletable = (
            *(("pods", f"default/pod-{number}") for number in range(len(self.pods))),
            *(("persistentvolumeclaims", claim) for claim in claims),
            *(("persistentvolumes", volume) for volume in volumes),
            *(("nodes", row.name) for row in self.layout.rows()),
        )
        return msgspec.structs.replace(
            limits,
            deletable=deletable,
            deletions=3,
            claims=claims,
            volume_deletions=2,
            bindable=volumes,
            foreign_bindings=3,
        )

    def _objects(self) -> list[Body]:
        pods = [body for number in range(len(self.pods)) for body in self._pod(number)]
        volumes = [
            volume_body(name=name, storage_class="either", node=node)
            for name, node in zip(self._existing(), self.existing, strict=True)
        ]
        return [*CLASSES, *volumes, *pods]

    def _existing(self) -> list[str]:
        return [f"existing-{node}" for node in self.existing]

    def _claims(self, number: int) -> list[str]:
        return [f"claim-{number}-{position}" for position in range(len(self.pods[number]))]

    def _pod(self, number: int) -> Sequence[Body]:
        claims = self._claims(number)
        return [
            *(
                claim_body(name=name, storage_class=ask.storage_class, size=f"{ask.gibibytes}Gi")
                for name, ask in zip(claims, self.pods[number], strict=True)
            ),
            pod_body(name=f"pod-{number}", claims=claims),
        ]


def mixture(seed: int) -> Mixture:
    """Up to six pods with one to four claims of any class; often they compete."""
    rng = random.Random(f"mixture {seed}")
    layout = Layout(nodes=rng.randint(3, 5), zones=rng.randint(2, 3), local_volumes=rng.randint(1, 2))
    names = [LOCAL_CLASS, LOCAL_CLASS, *(str(body["metadata"]["name"]) for body in CLASSES)]
    pods = [
        tuple(ClaimRequest(rng.choice(names), rng.choice((1, 5, 10))) for _ in range(rng.randint(1, 4)))
        for _ in range(rng.randint(2, 6))
    ]
    existing = tuple(row.name for row in layout.rows() if rng.random() < 0.5)
    return Mixture(layout, tuple(pods), rng.choice((0.0, 0.005, 0.3, 1.0)), existing)


def fitting_mixture(seed: int) -> Mixture:
    """Three pods with one to four claims, all of which fit on every node."""
    rng = random.Random(f"lucky mixture {seed}")
    layout = Layout(nodes=4, zones=2, local_volumes=12)
    names = [LOCAL_CLASS, "zonal", "of-node", "regional", "limited", "either"]
    pods = [
        tuple(ClaimRequest(rng.choice(names), rng.choice((1, 5, 10))) for _ in range(rng.randint(1, 4)))
        for _ in range(3)
    ]
    existing = tuple(row.name for row in layout.rows() if rng.random() < 0.5)
    return Mixture(layout, tuple(pods), rng.choice((0.0, 0.005, 0.3)), existing)
