"""Every metric, from its constructor call: the calls that name a metric name its help and labels as literals too."""

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
        "Every component serves these metrics at `/metrics`, in the text format of Prometheus. Metrics that Kubernetes "
        "has keep their names, so that dashboards for Kubernetes work; Mooring's own begin with `mooring_`. "
        "Headings are the components, and [runbooks.md](../runbooks.md) has the alerts.\n",
    ]
    for folder in sorted({metric.folder for metric in found}):
        rows = [(code(m.name), m.kind, m.text) for m in found if m.folder == folder]
        parts.append(f"## {folder}\n\n{table(['metric', 'type', 'meaning'], rows)}")
    return "\n".join(parts)


def labels_by_metric(root: Path) -> dict[str, frozenset[str]]:
    """The labels of every metric, by name."""
    found: dict[str, frozenset[str]] = {}
    for file in (root / "src/mooring").rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and (made := metric_made(call)) is not None:
                given = [*call.args[2:], *(one.value for one in call.keywords if one.arg in ("labels", "labelnames"))]
                listed = next((one.elts for one in given if isinstance(one, ast.List | ast.Tuple)), [])
                names = (one.value for one in listed if isinstance(one, ast.Constant))
                found[made[0]] = frozenset(name for name in names if isinstance(name, str))
    return found


def metrics_in(file: Path, root: Path) -> Iterator[Metric]:
    folder = file.relative_to(root / "src/mooring").parts[0]
    for call in ast.walk(ast.parse(file.read_text())):
        if (made := metric_made(call)) is not None:
            yield Metric(*made, folder)


def metric_made(call: ast.AST) -> tuple[str, str, str] | None:
    """Name, kind and text of the metric a call makes, if it makes one. Counters are named as scrapers see them, with
    their ending."""
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _MAKERS):
        return None
    texts = [each.value for each in call.args[:2] if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if len(texts) < 2:
        return None
    kind = _MAKERS[call.func.id]
    return f"{texts[0].removesuffix('_total')}_total" if kind == "counter" else texts[0], kind, texts[1]
