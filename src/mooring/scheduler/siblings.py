"""Which pods belong together although they do not say so: those of one Service, StatefulSet, ReplicaSet or
ReplicationController.

Part of the snapshot. Pods without spread constraints of their own are spread by it, as a preference. Controllers are
only read here; what they do is their own business.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from mooring.api import label_selector
from mooring.api.label_selector import LabelSelector, Operator, Requirement, SelectorError
from mooring.api.views.deployment import ReplicaSet
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.api.views.service import ReplicationController, Service
from mooring.api.views.workload import StatefulSet

Controller = StatefulSet | ReplicaSet | ReplicationController

#: How owner references spell them.
_SPELLED: Final[Mapping[type[ApiObject], tuple[str, str]]] = {
    StatefulSet: ("apps/v1", "StatefulSet"),
    ReplicaSet: ("apps/v1", "ReplicaSet"),
    ReplicationController: ("v1", "ReplicationController"),
}


class Siblings:
    """Selectors of services by namespace, and of controllers by what owner references say."""

    def __init__(self) -> None:
        self._services: defaultdict[str, dict[str, LabelSelector]] = defaultdict(dict)
        self._controllers: dict[tuple[str, str, str], LabelSelector] = {}

    def observe_service(self, before: Service | None, after: Service | None) -> None:
        if before is not None:
            self._services[before.namespace].pop(before.name, None)
        if after is not None and after.spec.selector:
            self._services[after.namespace][after.name] = _plain(after.spec.selector)

    def observe_controller(self, before: Controller | None, after: Controller | None) -> None:
        """A selector that cannot be understood tells nothing."""
        if before is not None:
            self._controllers.pop((*_SPELLED[type(before)], before.key), None)
        selector = None if after is None else _selector(after)
        if after is not None and selector is not None:
            self._controllers[(*_SPELLED[type(after)], after.key)] = selector

    def of(self, pod: Pod) -> LabelSelector | None:
        """The pods of its kind, itself included; None where nothing tells."""
        requirements: set[Requirement] = set()
        for selector in self._services.get(pod.namespace, {}).values():
            if selector.matches(pod.metadata.labels):
                requirements.update(selector.requirements)
        owner = pod.controller
        if owner is not None:
            key = (owner.api_version, owner.kind, f"{pod.namespace}/{owner.name}")
            requirements.update(self._controllers.get(key, label_selector.EVERYTHING).requirements)
        return LabelSelector(tuple(sorted(requirements))) if requirements else None


def _selector(controller: Controller) -> LabelSelector | None:
    if isinstance(controller, ReplicationController):
        return _plain(controller.spec.selector) if controller.spec.selector else None
    view = controller.spec.selector
    if view is None:
        return None
    try:
        return label_selector.from_view(view.match_labels, view.match_expressions)
    except SelectorError:
        return None


def _plain(labels: Mapping[str, str]) -> LabelSelector:
    return LabelSelector(tuple(sorted(Requirement(key, Operator.IN, (value,)) for key, value in labels.items())))
