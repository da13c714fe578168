"""Whatever happens between an informer and its server, the informer ends up knowing what the server knows.

Scripts of writes and faults run in virtual time against a small server. Two things must hold after each of them:
the cache is the server's state, and what a handler was told is one consistent story per object.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.errors import Invalid, ServiceUnavailable
from mooring.api.kinds import CONFIG_MAP
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Unreachable
from mooring.client.informer import MAX_BACKOFF_SECONDS, Informer
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.fake_api_server import FakeApiServer, Sent
from support.fake_client import FakeClient

NAMES: Final = ("a", "b", "c")


def repeated(events: list[Sent]) -> list[Sent]:
    return [event for event in events for _ in range(2)]


def replayed(events: list[Sent]) -> list[Sent]:
    return [*events, *events]


def reordered(events: list[Sent]) -> list[Sent]:
    """Changes of different objects in the wrong order; those of one object stay in theirs."""
    return sorted(events, key=lambda event: str(event.body["metadata"]["name"]), reverse=True)


def untouched(events: list[Sent]) -> list[Sent]:
    return events


class Run:
    """One steps's server and client, and the verbs scripts are made of."""

    def __init__(self, *, streams_lists: bool) -> None:
        self.api = FakeApiServer()
        self.client = FakeClient(self.api)
        self.client.refuses_streams = None if streams_lists else Invalid("not here")

    def toggle(self, name: str) -> None:
        if name in self.state():
            self.api.delete(CONFIG_MAP, "default", name)
        else:
            self.api.create(CONFIG_MAP, "default", {"metadata": {"name": name}})

    def change(self, name: str) -> None:
        if name in self.state():
            patch = MergePatch({"data": {"at": str(self.api.version)}})
            self.api.patch(CONFIG_MAP, "default", name, patch, "")

    def make_again(self, name: str) -> None:
        self.toggle(name)
        self.toggle(name)

    def drop(self) -> None:
        self.api.interrupt(Unreachable("reset by peer"))

    def end(self) -> None:
        self.api.interrupt()

    def expire(self) -> None:
        self.api.forget()
        self.drop()

    def fail_next(self) -> None:
        self.client.failures += [ServiceUnavailable("busy"), Unreachable("no answer")]

    def misbehave(self, how: Callable[[list[Sent]], list[Sent]]) -> None:
        self.api.mischief = how

    def state(self) -> dict[str, str]:
        return {body["metadata"]["name"]: body["metadata"]["resourceVersion"] for body in self.api.list(CONFIG_MAP)}


names = st.sampled_from(NAMES)
actions = st.one_of(
    st.builds(lambda name: ("toggle", name), names),
    st.builds(lambda name: ("change", name), names),
    st.builds(lambda name: ("make_again", name), names),
    st.sampled_from([("drop",), ("end",), ("expire",), ("fail_next",)]),
    st.builds(lambda how: ("misbehave", how), st.sampled_from([repeated, replayed, reordered, untouched])),
    st.builds(lambda seconds: ("rest", seconds), st.sampled_from([0.0, 0.1, 5.0])),
)


class Story:
    """What a handler was told; it checks every line against the ones before."""

    def __init__(self) -> None:
        self.known: dict[str, ApiObject] = {}
        self.newest: dict[str, int] = {}

    def __call__(self, before: ApiObject | None, after: ApiObject | None) -> None:
        item = after or before
        assert item is not None, "something must have changed"
        assert self.known.get(item.key) is before, "what was there before is what was told last"
        if after is None:
            del self.known[item.key]
            return
        assert before is None or before.uid == after.uid, "an update is about the same object"
        version = int(after.metadata.resource_version)
        assert version > self.newest.get(item.key, 0), "versions of an object only grow"
        self.newest[item.key] = version
        self.known[item.key] = after


@settings(max_examples=150)
@given(steps=st.lists(actions, max_size=30), streams_lists=st.booleans(), seed=st.integers(0, 3))
def test_the_cache_ends_up_equal_to_the_server(steps: list[tuple[object, ...]], streams_lists: bool, seed: int) -> None:
    async def main(clock: VirtualClock) -> None:
        run, story = Run(streams_lists=streams_lists), Story()
        informer = Informer(run.client, CONFIG_MAP, clock=clock, rng=random.Random(seed))
        informer.add_index("name", lambda item: [item.name])
        informer.on_change(story)
        running = asyncio.create_task(informer.run())
        for verb, *arguments in steps:
            if verb == "rest":
                await clock.sleep(*arguments)  # type: ignore[arg-type]
            else:
                getattr(run, str(verb))(*arguments)
        run.misbehave(untouched)
        await clock.sleep(len(steps) * 2 * MAX_BACKOFF_SECONDS + 1)
        assert not running.done()
        running.cancel()
        held = {item.name: item.metadata.resource_version for item in informer.items()}
        assert held == run.state()
        assert {item.name: item.metadata.resource_version for item in story.known.values()} == held
        assert {name for name in NAMES if informer.by_index("name", name)} == held.keys()

    virtual_time.run_in_virtual_time(main)
