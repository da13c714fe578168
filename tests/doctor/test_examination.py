"""The table of checks, ranking, severities and skipped checks."""

from pathlib import Path

import pytest

from mooring.api.kinds import NODE, STORAGE_CAPACITY
from mooring.doctor.examination import CHECKS, CODES, examine, incomplete
from mooring.doctor.findings import PAGE, Severity
from mooring.explain.cluster_objects import ClusterObjects
from support.builders import Body, claim_body, class_body, csi_node_body, node_body, pod_body
from support.builders.drivers import DRIVER
from support.doctor import cluster_of, examined, made_class

DOCS = Path(__file__).parents[2] / "docs"
#: One warning, two errors of different weight.
BAD: list[Body] = [
    node_body(name="n1"),
    csi_node_body(name="n1", limits={"other": None}),
    made_class(),
    claim_body(name="stuck", storage_class="gone"),
    pod_body(name="a", scheduler="none"),
    pod_body(name="b", scheduler="none"),
]


def test_findings_are_ranked_by_severity_and_weight() -> None:
    found = examined(*BAD)
    assert [one.code for one in found.findings] == ["SchedulerAbsent", "ClaimStuck", "ProvisionerAbsent"]
    assert found.verdict == "2 errors, 1 warning."
    assert DRIVER in found.findings[2].problem


def test_empty_cluster_is_fine() -> None:
    assert examined(node_body(name="n1"), class_body()).verdict == "Nothing is wrong with storage and scheduling."


@pytest.mark.parametrize(
    ("fail_on", "ok"), [(Severity.ERROR, True), (Severity.WARNING, False), (Severity.INFO, False)], ids=str
)
def test_result_depends_on_the_severity_asked_about(fail_on: Severity, ok: bool) -> None:
    assert examine(cluster_of(*BAD[:3]), fail_on=fail_on).ok is ok


def test_accepted_codes_are_left_out() -> None:
    assert examine(cluster_of(*BAD[:3]), accepted=["ProvisionerAbsent"]).findings == ()


def test_checks_without_their_kinds_are_skipped_and_named() -> None:
    found = examined(*BAD, unlisted={STORAGE_CAPACITY: "forbidden"})
    skipped = {one.code for one in found.skipped}
    assert skipped == {code for check in CHECKS if STORAGE_CAPACITY in check.kinds for code in check.codes}
    assert "SchedulerAbsent" in {one.code for one in found.findings}
    assert found.verdict.endswith(f"({len(skipped)} checks skipped).")


def test_kinds_of_decisions_that_were_not_listed_make_a_result_incomplete() -> None:
    assert list(incomplete(ClusterObjects(unlisted={NODE: "forbidden"}))) == ["nodes: forbidden"]
    assert list(incomplete(ClusterObjects())) == []


def test_codes_are_unique_and_described_on_the_page() -> None:
    assert len(set(CODES)) == len(CODES)
    page = (DOCS / f"{PAGE}.md").read_text()
    assert [code for code in CODES if f"`{code}`" not in page] == []
