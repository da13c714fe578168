"""Compatibility with releases of Kubernetes, from the results of the version matrix (`make compatibility`)."""

import json
from pathlib import Path
from typing import Any, Final

from tools.generate_reference.tables import GENERATED, table

RESULTS: Final = "docs/reference/compatibility.json"

_INTRODUCTION: Final = """\
The reference is the newest release in this table. The tests of the version matrix run with each release as published:
Kubernetes' components on Mooring's API server, and Mooring's components on kube-apiserver. A cell is the number of
passed tests, of those that ran; "–" means that none ran. `make compatibility` runs them and writes this page;
`make conformance KUBE=1.36` runs them for one release and writes nothing. etcd and external-provisioner are the
same for all releases, as pinned in [conformance](../../conformance/README.md).
"""
_SKEW: Final = (
    (
        "Mooring's components on kube-apiserver",
        "every release in the tables",
        "an older one may lack a kind that a component lists: the log says `kind not served by the API server`; newer "
        "ones are not tested",
    ),
    (
        "kube-scheduler, kube-controller-manager, kubectl and external-provisioner on Mooring's API server",
        "every release in the tables; the server serves the API of the newest",
        "a newer component may list a kind that is not served: it waits for it and reports it in its log",
    ),
    (
        "Mooring's components of different versions",
        "during an upgrade",
        "the event `ComponentSkew`, until all are of one version",
    ),
    (
        "Mooring's API servers of different versions on one etcd",
        "during an upgrade",
        "an older one drops the fields that it does not know when it writes an object: upgrade the servers before "
        "their clients",
    ),
)
_LACKS: Final = (
    (
        "1.36 and older",
        "`preventPodSchedulingIfMissing` of CSIDriver is dropped by kube-apiserver",
        "pods may be scheduled to nodes without the driver",
    ),
    ("1.36 and older", "`status` of CSINode, and `csinodes/status`", "none: no component of Mooring writes it"),
    (
        "1.36 and older",
        "volume scores of kube-scheduler (alpha gate)",
        "kube-scheduler ignores free capacity when it scores nodes; Mooring's scheduler does not",
    ),
    ("1.36 and older", "`resource.k8s.io/v1` DeviceTaintRules", "none: Mooring rejects pods with device claims"),
    (
        "1.36 and older",
        "`maxUnavailable` of StatefulSets (gate off) is dropped by kube-apiserver",
        "pods of a StatefulSet are replaced one at a time",
    ),
)


def compatibility_page(root: Path) -> str:
    results: dict[str, dict[str, Any]] = json.loads((root / RESULTS).read_text())
    releases = sorted(results, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    runs = table(
        ["release", "tested", "date"], ([name, results[name]["version"], results[name]["date"]] for name in releases)
    )
    parts = [_section(server, results, releases) for server in ("kube-apiserver", "Mooring's API server")]
    return f"{GENERATED}\n# Compatibility\n\n{_INTRODUCTION}\n{runs}\n{''.join(parts)}" + _rules()


def _rules() -> str:
    return (
        "## Version skew\n\n"
        + table(["what", "supported", "otherwise"], _SKEW)
        + "\n## What older releases lack\n\n"
        + table(["release", "missing", "effect"], _LACKS)
        + "\nMooring's API server serves the same objects to components of every release; older ones ignore fields "
        "that they do not know.\n"
    )


def _section(server: str, results: dict[str, dict[str, Any]], releases: list[str]) -> str:
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for release in releases:
        for row in results[release]["rows"]:
            if row["server"] == server:
                cells.setdefault((row["component"], row["feature"]), {})[release] = _cell(row)
    whose = "Mooring's components" if server == "kube-apiserver" else "Kubernetes' components"
    rows = [
        [component, feature, *(found.get(name, "–") for name in releases)]
        for (component, feature), found in sorted(cells.items())
    ]
    return f"## {whose} on {server}\n\n" + table(["component", "feature", *releases], rows) + "\n"


def _cell(row: dict[str, Any]) -> str:
    passed, tests = row["passed"], row["tests"]
    return str(passed) if passed == tests else f"**{passed} of {tests}**"
