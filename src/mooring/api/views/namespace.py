"""Namespaces."""

from mooring.api.views.meta import ApiObject, View


class NamespaceStatus(View, frozen=True, gc=False):
    phase: str = ""


class Namespace(ApiObject, frozen=True, gc=False):
    status: NamespaceStatus = NamespaceStatus()
