"""kube-apiserver accepts the output of `mooring import` for the drafts, with strict validation."""

import re

import pytest
import yaml

from mooring.drafts import modernize, repaired_text
from support import draft_examples
from support.conformance.control_plane import ControlPlane


def manifests(text: str) -> str:
    documents = [document for document in yaml.safe_load_all(repaired_text(text)[0]) if document is not None]
    outcomes = [modernize(document, namespace="default") for document in documents]
    assert not any(outcome.refusals for outcome in outcomes)
    return yaml.safe_dump_all([one for outcome in outcomes for one in outcome.objects], sort_keys=False)


@pytest.mark.req("T2.real-server", "C1.real-server")
@pytest.mark.parametrize("text", draft_examples.ALL, ids=range(len(draft_examples.ALL)))
def test_imported_manifests_are_valid(kube: ControlPlane, text: str) -> None:
    output = kube.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests(text))
    assert "created (server dry run)" in output


@pytest.mark.req("T2.real-server")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(draft_examples.LOCAL, 'unknown field "metadata.Name"', id="Go's field names"),
        pytest.param(draft_examples.LABELLED, 'unknown field "spec.gcePersistentDisk.diskName"', id="disk source"),
        pytest.param(draft_examples.STANDARD, 'unknown field "bindingMode"', id="binding mode"),
        pytest.param(draft_examples.POD, "error converting YAML to JSON", id="elided containers"),
        pytest.param(draft_examples.CAPACITIES[0], 'no matches for kind "CSIStorageCapacity"', id="alpha API"),
    ],
)
def test_draft_manifests_are_invalid(kube: ControlPlane, text: str, why: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(why)):
        kube.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
