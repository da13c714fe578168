"""Policies and budgets: priorities, disruptions, quotas, device claims."""

from typing import Final

from mooring.server.tables.columns import AGE, NAME, Column, Printer
from mooring.server.tables.reading import Json, age, amount, flag, is_deleting, name, number, part, parts, text

#: What kubectl shows for the one of the two bounds that was not chosen.
_NOT_SAID: Final = "N/A"


def _quota(quota: Json, *, limits: bool) -> str:
    hard, used = part(quota, "status", "hard"), part(quota, "status", "used")
    names = [resource for resource in sorted(hard) if resource.startswith("limits.") is limits]
    return ", ".join(f"{resource}: {amount(used, resource) or 0}/{amount(hard, resource)}" for resource in names)


def _claim_state(claim: Json) -> str:
    deleted = ["deleted"] if is_deleting(claim) else []
    if not part(claim, "status", "allocation"):
        return ",".join(deleted or ["pending"])
    reserved = ["reserved"] if parts(claim, "status", "reservedFor") else []
    return ",".join([*deleted, "allocated", *reserved])


PRIORITY_CLASSES: Final = Printer(
    columns=(
        NAME,
        Column("Value", type="integer", description="The priority of the pods."),
        Column("Global-Default", type="boolean", description="Whether pods without a class get it."),
        AGE,
        Column("PreemptionPolicy", description="Whether the pods may displace others."),
    ),
    cells=lambda value, now: (
        name(value),
        number(value, "value"),
        flag(value, "globalDefault"),
        age(value, now),
        text(value, "preemptionPolicy"),
    ),
)

DISRUPTION_BUDGETS: Final = Printer(
    columns=(
        NAME,
        Column("Min Available", description="How many pods must stay."),
        Column("Max Unavailable", description="How many pods may be missing."),
        Column("Allowed Disruptions", type="integer", description="How many pods may be evicted now."),
        AGE,
    ),
    cells=lambda budget, now: (
        name(budget),
        amount(budget, "spec", "minAvailable") or _NOT_SAID,
        amount(budget, "spec", "maxUnavailable") or _NOT_SAID,
        number(budget, "status", "disruptionsAllowed"),
        age(budget, now),
    ),
)

RESOURCE_QUOTAS: Final = Printer(
    columns=(
        NAME,
        Column("Request", description="What is used of what may be requested."),
        Column("Limit", description="What is used of what the limits may add up to."),
        AGE,
    ),
    cells=lambda quota, now: (name(quota), _quota(quota, limits=False), _quota(quota, limits=True), age(quota, now)),
)

RESOURCE_CLAIMS: Final = Printer(
    columns=(NAME, Column("State", description="Whether devices were found for it, and are in use."), AGE),
    cells=lambda claim, now: (name(claim), _claim_state(claim), age(claim, now)),
)

RESOURCE_SLICES: Final = Printer(
    columns=(
        NAME,
        Column("Node", description="Where the devices are."),
        Column("Driver", description="Who offers them."),
        Column("Pool", description="The pool they belong to."),
        AGE,
    ),
    cells=lambda offer, now: (
        name(offer),
        text(offer, "spec", "nodeName"),
        text(offer, "spec", "driver"),
        text(offer, "spec", "pool", "name"),
        age(offer, now),
    ),
)
