"""Shell completion of object names from the cluster of the kubeconfig.

A shell waits for the answer while its user types: the cluster gets two seconds, one page of objects is read, and any
failure means no completions. Nothing is printed but the completions.
"""

import asyncio
import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from typing import Final

import click
import msgspec
from click.shell_completion import CompletionItem

from mooring.api.kinds import NAMESPACE, Kind
from mooring.api.views.meta import ApiObject

#: For the whole answer, with connecting and credentials.
TIMEOUT_SECONDS: Final = 2.0
#: Names that are read at most, in one request.
MAX_NAMES: Final = 500
#: User agent in the server's logs.
NAME: Final = "mooring-completion"

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_objects(kinds: Mapping[str, Kind[ApiObject]]) -> Completer:
    """Completions of KIND/NAME; `kinds` has the word to offer for each kind.

    The other names of a kind, such as its plural, are accepted. Where one kind is left, its objects are offered at
    once.
    """
    words = {each: kind for kind in kinds.values() for each in (kind.singular, kind.plural, *kind.short)}

    def complete(ctx: click.Context, _: click.Parameter, unfinished: str) -> list[CompletionItem]:
        word, slash, begun = unfinished.partition("/")
        matching = [each for each in kinds if each.startswith(word)]
        if not slash and len(matching) != 1:
            return [CompletionItem(f"{each}/") for each in matching]
        if not slash:
            [word] = matching
        kind = kinds.get(word) or words.get(word.lower())
        names = [] if kind is None else object_names(ctx, kind)
        items = [CompletionItem(f"{word}/{name}") for name in names if name.startswith(begun)]
        return items or ([] if slash else [CompletionItem(f"{word}/")])

    return complete


def complete_namespaces(ctx: click.Context, _: click.Parameter, unfinished: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in object_names(ctx, NAMESPACE) if name.startswith(unfinished)]


def object_names(ctx: click.Context, kind: Kind[ApiObject]) -> list[str]:
    """Sorted names of the namespace that the flags or the context name; none where the cluster cannot be asked."""
    given = {name: str(ctx.params.get(name) or "") for name in ("kubeconfig", "context", "namespace")}
    try:
        # Credential plugins may write to standard error.
        with redirect_stderr(io.StringIO()):
            return sorted(_listed(kind, **given))
    except Exception:  # no completion is better than a traceback in the user's command line
        return []


def _listed(kind: Kind[ApiObject], *, kubeconfig: str, context: str, namespace: str) -> list[str]:
    # Imported here: completing a flag needs no cluster.
    from mooring.cli.options import access_of
    from mooring.cli.runtime import run_event_loop
    from mooring.client.transport import Request, Transport
    from mooring.clock import SystemClock

    access = access_of(kubeconfig, context)
    path = kind.path(namespace=namespace or access.namespace)

    async def listed() -> bytes:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            transport = Transport(access, component=NAME, clock=SystemClock(), timeout=TIMEOUT_SECONDS, in_flight=1)
            try:
                return await transport.call(Request("GET", path, {"limit": str(MAX_NAMES)}))
            finally:
                await transport.close()

    return [item.name for item in msgspec.json.decode(run_event_loop(listed()), type=_Names).items or ()]


class _Names(msgspec.Struct, frozen=True):
    items: list[ApiObject] | None = None
