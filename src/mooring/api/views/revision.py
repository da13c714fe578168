"""ControllerRevisions: what the template of a StatefulSet or DaemonSet once was."""

import msgspec

from mooring.api.views.meta import ApiObject


class ControllerRevision(ApiObject, frozen=True, gc=False):
    #: Raw JSON: a patch that the owning controller wrote and alone understands.
    data: msgspec.Raw = msgspec.Raw(b"null")
    revision: int = 0
