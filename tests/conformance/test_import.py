"""What `mooring import` makes of the drafts is accepted by the real API server, with kubectl's strict validation."""

import pytest
import yaml

from conformance.control_plane import ControlPlane
from drafts import examples
from mooring.drafts.manifests import modernize
from mooring.drafts.text import repaired


def manifests(text: str) -> str:
    documents = [document for document in yaml.safe_load_all(repaired(text)[0]) if document is not None]
    outcomes = [modernize(document, namespace="default") for document in documents]
    assert not any(outcome.refusals for outcome in outcomes)
    return yaml.safe_dump_all([one for outcome in outcomes for one in outcome.objects], sort_keys=False)


@pytest.mark.req("T2.real-server", "C1.real-server")
@pytest.mark.parametrize("text", examples.ALL, ids=range(len(examples.ALL)))
def test_imported_manifests_are_valid(kube: ControlPlane, text: str) -> None:
    told = kube.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests(text))
    assert "created (server dry run)" in told


@pytest.mark.req("T2.real-server")
@pytest.mark.parametrize("text", [examples.LOCAL, examples.STANDARD, examples.POD, examples.CAPACITIES[0]])
def test_drafts_themselves_are_not(kube: ControlPlane, text: str) -> None:
    with pytest.raises(AssertionError):
        kube.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
