"""The client conformance suite, through the HTTP client, on the real kube-apiserver."""

import pytest

from support.client_conformance import ClientConformance
from support.conformance.control_plane import ControlPlane
from support.namespace_conformance import NamespaceConformance


class TestHttpClient(ClientConformance, NamespaceConformance):
    @pytest.fixture
    def compacted_version(self, kube: ControlPlane) -> str:
        return kube.compacted_version
