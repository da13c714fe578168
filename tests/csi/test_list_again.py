"""A list whose token no longer counts is begun anew, a few times."""

from pathlib import Path
from random import Random

import pytest

from mooring.csi.client import MAX_LIST_ATTEMPTS, CsiClient
from mooring.csi.contract import Code, DriverError
from mooring.csi.handlers import CALLS
from mooring.csi.server import CsiServer
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.fault_injection import InjectedFailures, parse_rule
from support.builders.hostpath import a_volume_store


@pytest.mark.parametrize(("failing", "found"), [(MAX_LIST_ATTEMPTS - 1, True), (MAX_LIST_ATTEMPTS, False)])
async def test_a_list_is_begun_anew_when_its_token_is_too_old(tmp_path: Path, failing: int, found: bool) -> None:
    rule = parse_rule(f"ListVolumes=ABORTED,count={failing}", calls=CALLS)
    driver, socket = Hostpath(await a_volume_store(), "node-1"), tmp_path / "csi.sock"
    async with (
        CsiServer(driver, socket, interceptors=[InjectedFailures([rule], chance=Random(1))]),
        CsiClient(socket) as channel,
    ):
        if found:
            assert await channel.list_volumes() == []
        else:
            with pytest.raises(DriverError) as caught:
                await channel.list_volumes()
            assert caught.value.code is Code.ABORTED
