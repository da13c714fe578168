"""Alert rules and dashboard of `deploy/monitoring`: their expressions, and the metrics and labels these use.

Not a parser of PromQL: names followed by a parenthesis are functions, other names are metrics, and labels stand in
braces or in the list after `by` and `on`. promtool checks the syntax in `tests/conformance`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

ROOT: Final = Path(__file__).parents[2]
ALERTS: Final = ROOT / "deploy" / "monitoring" / "alerts.yml"
DASHBOARD: Final = ROOT / "deploy" / "monitoring" / "dashboard.json"
RUNBOOKS: Final = ROOT / "docs" / "runbooks.md"

#: Labels that Prometheus adds when it scrapes, and that of the buckets of histograms.
ADDED: Final = frozenset({"instance", "job"})
BUCKET: Final = "le"
SUFFIXES: Final = ("_bucket", "_count", "_sum")
_KEYWORDS: Final = frozenset({"and", "or", "unless", "bool", "offset", "by", "on", "without", "ignoring"})
_GROUPING: Final = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_RANGE: Final = re.compile(r"\[[^\]]*\]")
_SERIES: Final = re.compile(r"([a-zA-Z_:][\w:]*)\s*(\(|\{[^}]*\})?")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_TEMPLATE: Final = re.compile(r"\$labels\.(\w+)")
_LEGEND: Final = re.compile(r"\{\{(\w+)\}\}")


class Series(NamedTuple):
    metric: str
    #: Label -> value, for equality; "" for other matchers.
    matchers: dict[str, str]


class Expression(NamedTuple):
    """An expression with where it is from, and labels that its text for users names."""

    origin: str
    text: str
    shown: frozenset[str] = frozenset()

    @property
    def grouping(self) -> frozenset[str]:
        found = (group.split(",") for group in _GROUPING.findall(self.text))
        return frozenset(label.strip() for labels in found for label in labels if label.strip())

    @property
    def series(self) -> Iterator[Series]:
        bare = _RANGE.sub("", _GROUPING.sub(" ", self.text))
        for name, rest in _SERIES.findall(bare):
            if rest != "(" and name not in _KEYWORDS:
                yield Series(name, {label: value if how == "=" else "" for label, how, value in _MATCHER.findall(rest)})

    def problems(self, labels: Mapping[str, frozenset[str]]) -> Iterator[str]:
        """Metrics and labels that do not exist, where `labels` are the labels of all metrics."""
        known: set[str] = set(ADDED)
        for series in self.series:
            found = labels_of(series.metric, labels)
            if found is None:
                yield f"{self.origin}: no metric {series.metric}"
                continue
            known |= found
            yield from (
                f"{self.origin}: {series.metric} has no label {one}" for one in sorted(series.matchers.keys() - found)
            )
        yield from (f"{self.origin}: no metric of it has label {one}" for one in sorted(self.grouping - known))
        yield from (f"{self.origin}: the text names label {one}" for one in sorted(self.shown - known))


def labels_of(metric: str, labels: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
    if metric in labels:
        return labels[metric]
    for suffix in SUFFIXES:
        base = metric.removesuffix(suffix)
        if base != metric and base in labels:
            return labels[base] | ({BUCKET} if suffix == "_bucket" else frozenset())
    return None


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]
    return found


def expressions() -> Iterator[Expression]:
    for rule in rules():
        texts = " ".join(rule["annotations"].values())
        yield Expression(rule["alert"], rule["expr"], frozenset(_TEMPLATE.findall(texts)))
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield Expression(panel["title"], target["expr"], frozenset(_LEGEND.findall(target["legendFormat"])))
