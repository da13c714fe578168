"""What an admission step is given, and how it says no."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mooring.api.errors import Cause, Details, Forbidden
from mooring.api.kinds import Kind
from mooring.server.authorization.access import Access
from mooring.server.body import Body, meta
from mooring.server.contract import User
from mooring.server.environment import Environment
from mooring.server.objects import Objects


@dataclass(frozen=True)
class Review:
    """One write on its way in. Steps change `new` in place and append to `warnings`."""

    kind: Kind[Any]
    namespace: str
    new: Body
    environment: Environment
    #: What is stored now; None for a create.
    old: Body | None = None
    warnings: list[str] = field(default_factory=list)
    #: The name in the request's URL; "" for a POST to a collection.
    requested_name: str = ""
    #: The metadata as the client sent it, before the server filled in what an update cannot change.
    sent_metadata: Body = field(default_factory=dict)

    @property
    def objects(self) -> Objects:
        return self.environment.objects

    @property
    def user(self) -> User:
        return self.environment.user

    @property
    def access(self) -> Access:
        return self.environment.security.access

    def forbidden(self, why: str, *causes: Cause) -> Forbidden:
        """The refusal, worded as upstream words it."""
        kind, name = self.kind, meta(self.new).get("name") or meta(self.new).get("generateName", "")
        resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        return Forbidden(
            f'{resource} "{name}" is forbidden: {why}',
            details=Details(name=name, group=kind.group, kind=kind.plural, causes=causes),
        )


Step: TypeAlias = Callable[[Review], Awaitable[None]]
