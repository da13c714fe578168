"""An instance that stands by has everything at hand that it will decide on."""

from dataclasses import replace

import pytest

from mooring.api.kinds import Kind
from mooring.client.contract import V
from mooring.client.informer import Informer, Informers
from mooring.control.component import Component, Context
from mooring.control.feature_gates import parse_feature_gates
from mooring.scheduler.component import Scheduler
from support.partial_control_plane import Plane, run_plane


class Asked(Informers):
    """Remembers for which kinds it was asked."""

    def __init__(self, shared: Informers) -> None:
        self._shared = shared
        self.kinds: set[str] = set()

    def of(self, kind: Kind[V]) -> Informer[V]:
        self.kinds.add(kind.plural)
        return self._shared.of(kind)

    async def wait_synced(self) -> None:
        await self._shared.wait_synced()


@pytest.mark.parametrize("gates", ["", "CSIStorageCapacity=false"], ids=["usual", "without capacity"])
@pytest.mark.req("T35.standby")
def test_nothing_is_asked_for_first_when_it_leads(gates: str) -> None:
    built: set[str] = set()
    informers: list[Asked] = []

    def build(context: Context) -> Component:
        informers.append(Asked(context.informers))
        scheduler = Scheduler(replace(context, informers=informers[0]))
        built.update(informers[0].kinds)
        return scheduler

    async def scenario(plane: Plane) -> None:
        await plane.pass_time(10)

    run_plane([build], scenario, gates=parse_feature_gates(gates))
    # No start waits for PodGroups, which need not be served.
    assert informers[0].kinds - {"podgroups"} == built
    assert ("csistoragecapacities" in built) is not bool(gates)
