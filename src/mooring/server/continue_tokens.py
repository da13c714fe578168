"""What a list that was cut short gives out for its continuation: the version it was read at, and where to go on.

In upstream's encoding, because it is documented and some tools look into it. The place is relative to what was listed,
so that a token leads nowhere else.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec

from mooring.api.errors import BadRequest

#: In place of a version: go on with the newest state, whatever changed meanwhile.
NEWEST: Final = -1

_VERSION: Final = "meta.k8s.io/v1"
_NO_KEY: Final = "continue key is not valid"


class ContinueToken(msgspec.Struct, frozen=True):
    v: str = ""
    rv: int = 0
    start: str = ""


def encode(revision: int, key: str, prefix: str) -> str:
    """`key` is the first that is still to come, below `prefix`."""
    token = ContinueToken(_VERSION, revision, key.removeprefix(prefix))
    return urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def decode(text: str, prefix: str) -> tuple[int, str]:
    """The version, or NEWEST, and the key to go on from. Raises BadRequest."""
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=ContinueToken)
    except (ValueError, msgspec.DecodeError) as problem:
        raise _refusal(f"{_NO_KEY}: {problem}") from problem
    if token.v != _VERSION:
        raise _refusal(f"{_NO_KEY}: server does not recognize this encoded version {token.v}")
    if token.rv == 0:
        raise _refusal(f"{_NO_KEY}: incorrect encoded start resourceVersion (version {_VERSION})")
    if not token.start:
        raise _refusal(f"{_NO_KEY}: encoded start key empty (version {_VERSION})")
    steps = token.start.removeprefix("/").split("/")
    if any(step in ("", ".", "..") for step in steps):
        raise _refusal(f"{_NO_KEY}: {token.start}")
    return token.rv, prefix + "/".join(steps)


def _refusal(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: {why}")
