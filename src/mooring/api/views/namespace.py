"""Namespaces."""

from mooring.api.views.meta import ApiObject, Condition, View


class NamespaceSpec(View, frozen=True, gc=False):
    #: Who has to be done with the contents before the namespace can go, beside the finalizers of its metadata.
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(View, frozen=True, gc=False):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(ApiObject, frozen=True, gc=False):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()
