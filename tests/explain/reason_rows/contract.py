"""What a row says, and the objects most rows have."""

from collections.abc import Sequence
from typing import NamedTuple

from builders import Body, claim_body, claim_ref, class_body, node_body, volume_body
from builders.drivers import DRIVER
from mooring.scheduler.profile import Profile
from mooring.scheduler.registry import DEFAULT

FAST = class_body(name="fast", provisioner=DRIVER)
N1 = node_body(name="n1", zone="a")


class Row(NamedTuple):
    """A cluster in which a text is said, and what the explanation answers; "" where there is nothing to answer."""

    text: str
    objects: list[Body]
    node: str = ""
    claim: str = ""
    #: Volume or segment.
    place: str = ""
    figure: str = ""
    now: str = ""
    profile: Profile = DEFAULT


class Stage(NamedTuple):
    """A claim about which the PV controller says a text, and what the explanation answers."""

    text: str
    objects: list[Body]
    state: str
    answers: Sequence[str]


def bound(name: str, volume: str, *, phase: str = "", annotations: dict[str, str] | None = None) -> Body:
    return claim_body(
        name=name,
        volume=volume,
        bound=True,
        storage_class="fast",
        uid=f"{name}-uid",
        phase=phase,
        annotations=annotations,
    )


def taken(
    name: str,
    claim: str,
    affinity: Body | None = None,
    *,
    labels: dict[str, str] | None = None,
    source: Body | None = None,
) -> Body:
    return volume_body(
        name=name,
        storage_class="fast",
        affinity=affinity,
        claim_ref=claim_ref(name=claim, uid=f"{claim}-uid"),
        phase="Bound",
        labels=labels,
        source=source,
    )
