"""Whether the namespace that holds point into is safe: nobody ordinary may create a claim there.

A held volume is reserved for a claim `hold-…` that does not exist. Whoever could create it would be given the volume.
The server is asked what every authenticated user may do; rights of single users are theirs to answer for.
"""

from dataclasses import replace
from typing import Final, cast

from mooring.api.kinds import ACCESS_REVIEW, Kind
from mooring.api.views.meta import ApiObject, View
from mooring.client.contract import Client

#: The group that everybody belongs to who shows any credential at all.
EVERYBODY: Final = "system:authenticated"


class Answer(View, frozen=True, gc=False):
    allowed: bool = False


class AnsweredReview(ApiObject, frozen=True, gc=False):
    status: Answer = Answer()


_REVIEW: Final = cast("Kind[AnsweredReview]", replace(ACCESS_REVIEW, view=AnsweredReview))


class OpenNamespace(Exception):
    """One sentence that says what is wrong and what to do."""


async def check(client: Client, namespace: str) -> None:
    """Raises OpenNamespace, and ApiError where the question itself is not allowed."""
    for resource in ("persistentvolumeclaims", "configmaps"):
        attributes = {"namespace": namespace, "verb": "create", "resource": resource}
        body = {"spec": {"resourceAttributes": attributes, "user": "anybody", "groups": [EVERYBODY]}}
        review = await client.create(_REVIEW, body)
        if review.status.allowed:
            raise OpenNamespace(
                f"Every user may create {resource} in namespace {namespace}, so holds there could be taken by anybody; "
                "choose another with --hold-namespace, or take that right away."
            )
