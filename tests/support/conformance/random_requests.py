"""Random constraints and requests of pods, drawn from few values, so that they match clusters often."""

import random
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from mooring.api import well_known
from support.builders import Body

T = TypeVar("T")

ZONES: Final = ("a", "b", "c")
APPS: Final = ("web", "db", "cache")
MEDIA: Final = ("ssd", "hdd")
GPU: Final = "example.com/gpu"
#: Topology keys of affinity and spreading.
DOMAINS: Final = (well_known.HOSTNAME, well_known.ZONE, "rack")


class Dice:
    """The random source with the draws of this module."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def one_of(self, *choices: T) -> T:
        return self._random.choice(choices)

    def some_of(self, choices: Sequence[T], least: int = 1) -> list[T]:
        return self._random.sample(choices, self._random.randint(least, len(choices)))

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)


def containers(dice: Dice, requests: Mapping[str, str]) -> list[Body]:
    # Extended resources need a limit.
    limits = {name: amount for name, amount in requests.items() if name == GPU}
    container: Body = {
        "name": "main",
        "image": "example.com/main:1",
        "resources": {"requests": dict(requests), "limits": limits},
    }
    if dice.maybe(0.2):
        port: Body = {"containerPort": 80, "hostPort": dice.number(8080, 8081)}
        if dice.maybe(0.3):
            port["hostIP"] = "127.0.0.1"
        container["ports"] = [port]
    if dice.maybe(0.1):
        # A feature of some nodes only.
        rule: Body = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
        container |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    return [container]


def spread(dice: Dice, key: str) -> Body:
    constraint: Body = {
        "topologyKey": key,
        "maxSkew": dice.number(1, 2),
        "whenUnsatisfiable": dice.one_of("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"),
        "labelSelector": dice.one_of({"matchLabels": {"app": dice.one_of(*APPS)}}, {}),
    }
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and dice.maybe(0.3):
        constraint["minDomains"] = dice.number(1, 3)
    if dice.maybe(0.2):
        constraint["nodeAffinityPolicy"] = dice.one_of("Honor", "Ignore")
    if dice.maybe(0.2):
        constraint["nodeTaintsPolicy"] = dice.one_of("Honor", "Ignore")
    return constraint


def inline_disks(dice: Dice) -> list[Body]:
    """Inline disks of pods, few of them: two pods on a node may use the same."""
    if not dice.maybe(0.1):
        return []
    disk: Body = {"targetPortal": "10.0.0.1", "iqn": f"iqn.2026-01.com.example:{dice.number(1, 2)}", "lun": 0}
    return [{"name": "inline", "iscsi": disk | {"readOnly": dice.maybe(0.3)}}]


def node_affinity(dice: Dice) -> Body:
    if dice.maybe(0.1):
        # Two names contradict each other.
        names = [f"node-{dice.number(1, 2)}" for _ in range(2)]
        fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
        return {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}
            }
        }
    expression: Body = dice.one_of(
        {"key": well_known.ZONE, "operator": "In", "values": dice.some_of(ZONES)},
        {"key": "medium", "operator": "NotIn", "values": [dice.one_of(*MEDIA)]},
        {"key": "rack", "operator": "Exists"},
        {"key": "generation", "operator": "Gt", "values": [dice.one_of("1", "1", "new")]},
    )
    node_term = {"matchExpressions": [expression]}
    if dice.maybe(0.7):
        required = {"nodeSelectorTerms": [node_term]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    # kube-scheduler never places a pod whose preferred terms cannot be parsed if it has a choice of nodes.
    expression["values"] = ["1" if value == "new" else value for value in expression.get("values", ())]
    preferred = {"weight": dice.number(1, 100), "preference": node_term}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}


def pod_affinity(dice: Dice, *, anti_only: bool = False) -> Body:
    side = "podAntiAffinity" if anti_only else dice.one_of("podAffinity", "podAntiAffinity")
    term: Body = {
        "topologyKey": dice.one_of(*DOMAINS),
        "labelSelector": {"matchLabels": {"app": dice.one_of(*APPS)}},
    }
    if dice.maybe(0.7):
        return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    weighted = {"weight": dice.number(1, 100), "podAffinityTerm": term}
    return {side: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}
