"""Accept headers, as clients really send them."""

import pytest

from mooring.api.errors import NotAcceptable
from mooring.server.http.responses import Form, negotiate, wants_aggregated

PROTOBUF = "application/vnd.kubernetes.protobuf"
KUBECTL_GET = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
METADATA_INFORMER = (
    f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)
CLIENT_GO_DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        pytest.param("", Form.PLAIN, id="no header"),
        pytest.param("*/*", Form.PLAIN, id="anything"),
        pytest.param("application/*", Form.PLAIN, id="any application type"),
        pytest.param("application/json", Form.PLAIN, id="JSON"),
        pytest.param("Application/JSON; charset=utf-8", Form.PLAIN, id="JSON in capitals with a charset"),
        pytest.param(f"{PROTOBUF}, */*", Form.PLAIN, id="kube-scheduler"),
        pytest.param(f"{PROTOBUF},application/json", Form.PLAIN, id="typed client"),
        pytest.param(KUBECTL_GET, Form.TABLE, id="kubectl get"),
        pytest.param("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form.PLAIN, id="old table"),
        pytest.param(METADATA_INFORMER, Form.METADATA, id="metadata informer"),
        pytest.param(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Form.METADATA, id="metadata list"
        ),
        pytest.param(
            "application/json;q=0.5, application/json;as=Table;v=v1;g=meta.k8s.io", Form.TABLE, id="weights decide"
        ),
    ],
)
def test_forms(accept: str, want: Form) -> None:
    assert negotiate(accept) is want


@pytest.mark.parametrize(
    "accept",
    [
        pytest.param("text/html", id="a browser's first wish"),
        pytest.param(PROTOBUF, id="protobuf alone"),
        pytest.param("application/yaml", id="YAML"),
        pytest.param("application/json;as=Table;v=v9;g=meta.k8s.io", id="only an unknown table"),
        pytest.param("application/json;q=0", id="JSON ruled out"),
        pytest.param("application/json;q=much", id="unreadable weight"),
    ],
)
def test_what_cannot_be_answered(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="only the following media types are accepted: application/json"):
        negotiate(accept)


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        pytest.param(CLIENT_GO_DISCOVERY, True, id="client-go"),
        pytest.param("application/json", False, id="plain"),
        pytest.param("", False, id="no header"),
    ],
)
def test_aggregated_discovery(accept: str, want: bool) -> None:
    assert wants_aggregated(accept) is want


def test_only_the_old_aggregated_discovery_is_not_acceptable() -> None:
    with pytest.raises(NotAcceptable):
        wants_aggregated("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")
