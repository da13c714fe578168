"""Services and ReplicationControllers, as far as they say which pods belong together."""

from mooring.api.views.meta import ApiObject, View


class PlainSelectorSpec(View, frozen=True, gc=False):
    #: None and {} select nothing.
    selector: dict[str, str] | None = None


class Service(ApiObject, frozen=True, gc=False):
    spec: PlainSelectorSpec = PlainSelectorSpec()


class ReplicationController(ApiObject, frozen=True, gc=False):
    spec: PlainSelectorSpec = PlainSelectorSpec()
