"""A list whose token no longer counts is begun anew, a few times."""

from pathlib import Path
from random import Random

import pytest

from builders.hostpath import a_volume_store
from mooring.csi.calls import CALLS
from mooring.csi.channel import LIST_ATTEMPTS, Channel
from mooring.csi.contract import Code, DriverError
from mooring.csi.service import Service
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.failures import Failures, parse_rule


@pytest.mark.parametrize(("failing", "found"), [(LIST_ATTEMPTS - 1, True), (LIST_ATTEMPTS, False)])
async def test_a_list_is_begun_anew_when_its_token_is_too_old(tmp_path: Path, failing: int, found: bool) -> None:
    rule = parse_rule(f"ListVolumes=ABORTED,count={failing}", calls=CALLS)
    driver, socket = Hostpath(await a_volume_store(), "node-1"), tmp_path / "csi.sock"
    async with (
        Service(driver, socket, interceptors=[Failures([rule], chance=Random(1))]),
        Channel(socket) as channel,
    ):
        if found:
            assert await channel.list_volumes() == []
        else:
            with pytest.raises(DriverError) as caught:
                await channel.list_volumes()
            assert caught.value.code is Code.ABORTED
