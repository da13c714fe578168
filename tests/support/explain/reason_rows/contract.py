"""The rows' fields, and objects that most rows share."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.explain.cluster_objects import ALL_LISTED
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.registry import DEFAULT
from support.builders import Body, claim_body, claim_ref, class_body, node_body, volume_body
from support.builders.drivers import DRIVER

FAST = class_body(name="fast", provisioner=DRIVER)
N1 = node_body(name="n1", zone="a")


class Row(NamedTuple):
    """A cluster that causes a text, and the parts of its explanation; "" for none."""

    text: str
    objects: list[Body]
    node: str = ""
    claim: str = ""
    #: Volume or segment.
    place: str = ""
    figure: str = ""
    now: str = ""
    profile: Profile = DEFAULT
    unlisted: Mapping[Kind[ApiObject], str] = ALL_LISTED


class Stage(NamedTuple):
    """A claim that causes a text of the PV controller, and the parts of its explanation."""

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
