"""Volumes and claims that come in any order, with answers that get lost: no claim waits for the periodic resync.

After a few seconds, long before it, no claim waits that a free volume would do for.
"""

import random
from functools import partial

import pytest

from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME
from mooring.pvcontroller.component import RESYNC_SECONDS, PersistentVolumeController
from mooring.volumes.matching import first_mismatch
from support.builders import Body, claim_body, class_body, volume_body
from support.partial_control_plane import Plane, flaky, run_plane

#: Failed writes are tried again after 5 ms, doubling: what is left undone after this was forgotten.
SOON = RESYNC_SECONDS / 3
COUNT = 25

claim = partial(claim_body, storage_class="now")
volume = partial(volume_body, storage_class="now", source={"csi": {"driver": "x", "volumeHandle": "h"}})
SSD = {"disk": "ssd"}


def bodies(rng: random.Random) -> list[Body]:
    """Claims and volumes of a few sizes, access modes and labels, in any order."""
    modes = (["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"])
    made: list[Body] = []
    for number in range(COUNT):
        selector = {"matchLabels": SSD} if rng.random() < 0.2 else None
        size, offered = f"{rng.randint(1, 4)}Gi", f"{rng.randint(1, 5)}Gi"
        made.append(claim(name=f"claim-{number}", size=size, access_modes=rng.choice(modes), selector=selector))
        labels = SSD if rng.random() < 0.3 else None
        made.append(volume(name=f"volume-{number}", size=offered, access_modes=rng.choice(modes), labels=labels))
    rng.shuffle(made)
    return made


@pytest.mark.parametrize(
    "losses", [pytest.param(0.0, id="nothing is lost"), pytest.param(0.25, id="a quarter is lost")]
)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.req("T5.at-once")
def test_every_claim_is_bound_without_a_resync(seed: int, losses: float) -> None:
    rng = random.Random(seed)

    async def scenario(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, class_body(name="now", binding_mode="Immediate"))
        # The period begins with the controller; everything has to happen within the first one.
        for body in bodies(rng):
            await plane.create(VOLUME if body["kind"] == "PersistentVolume" else CLAIM, body)
            if rng.random() < 0.3:
                await plane.pass_time(rng.uniform(0.0, 0.1))
        await plane.pass_time(SOON)
        volumes = (await plane.client.list(VOLUME)).items
        claims = (await plane.client.list(CLAIM)).items
        waiting = [one for one in claims if not one.spec.volume_name]
        assert [(c.name, v.name) for c in waiting for v in volumes if first_mismatch(c, v) is None] == []
        assert all(one.status.phase == "Bound" for one in claims if one.spec.volume_name)
        assert len(waiting) < COUNT / 2, "most find something"

    run_plane([PersistentVolumeController], scenario, client=flaky(losses, seed=seed))
