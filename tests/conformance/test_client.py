"""The client conformance suite, through the HTTP client, on the real kube-apiserver."""

import pytest

from client.conformance import ClientConformance
from client.namespace_conformance import NamespaceConformance
from conformance.control_plane import ControlPlane


class TestHttpClient(ClientConformance, NamespaceConformance):
    @pytest.fixture
    def forgotten_version(self, kube: ControlPlane) -> str:
        return kube.forgotten_version
