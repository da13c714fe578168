"""Every metric, from where it is made: the calls that name a metric name its help and labels as literals too."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.generate_reference.tables import GENERATED, code, table

#: Constructors of Prometheus' client library -> what the metric is.
_MAKERS: Final = {
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "Histogram": "histogram",
    "HistogramMetricFamily": "histogram",
}


class Metric(NamedTuple):
    name: str
    kind: str
    text: str
    folder: str


def metrics_page(root: Path) -> str:
    found = sorted({metric for file in (root / "src/mooring").rglob("*.py") for metric in metrics_in(file, root)})
    parts = [
        GENERATED,
        "# Metrics\n",
        "At `/metrics` of every component, in Prometheus' text format. Names that upstream has are upstream's, so that "
        "dashboards for Kubernetes work; ours begin with `mooring_`.\n",
    ]
    for folder in sorted({metric.folder for metric in found}):
        rows = [(code(m.name), m.kind, m.text) for m in found if m.folder == folder]
        parts.append(f"## {folder}\n\n{table(['metric', 'type', 'what it counts'], rows)}")
    return "\n".join(parts)


def metrics_in(file: Path, root: Path) -> Iterator[Metric]:
    """Those a module makes. Counters are named as scrapers see them, with their ending."""
    folder = file.relative_to(root / "src/mooring").parts[0]
    for node in ast.walk(ast.parse(file.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MAKERS):
            continue
        texts = [each.value for each in node.args[:2] if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if len(texts) == 2:
            kind = _MAKERS[node.func.id]
            name = f"{texts[0].removesuffix('_total')}_total" if kind == "counter" else texts[0]
            yield Metric(name, kind, texts[1], folder)
