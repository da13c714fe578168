"""Shows that a coordinator is there: a Lease that is renewed for as long as it runs.

Provisioners hold volumes only while this Lease is live. A coordinator that is elected by the very Lease needs none of
this; one that acts without an election (the embedded cluster) shows itself here.
"""

from functools import partial
from typing import Final

from mooring.api import keys
from mooring.api.errors import AlreadyExists, NotFound
from mooring.api.kinds import LEASE
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import to_micro_time
from mooring.client.contract import Client
from mooring.clock import Clock
from mooring.control.worker import repeat

#: Upstream's lease duration and retry period.
DURATION_SECONDS: Final = 15
RENEW_SECONDS: Final = 5.0


async def show(client: Client, clock: Clock, *, namespace: str, identity: str) -> None:
    """Until cancelled. A renewal that fails is tried again with the next."""
    renew = partial(_renew, client, clock, namespace=namespace, identity=identity)
    lease = f"{namespace}/{keys.COORDINATOR_LEASE}"
    await repeat(renew, lambda: clock.sleep(RENEW_SECONDS), name=f"renewal of lease {lease}")


async def _renew(client: Client, clock: Clock, *, namespace: str, identity: str) -> None:
    spec = {
        "holderIdentity": identity,
        "leaseDurationSeconds": DURATION_SECONDS,
        "renewTime": to_micro_time(clock.now()),
    }
    try:
        await client.patch(LEASE, keys.COORDINATOR_LEASE, MergePatch({"spec": spec}), namespace=namespace)
    except NotFound:
        body = {"metadata": {"name": keys.COORDINATOR_LEASE}, "spec": spec}
        try:
            await client.create(LEASE, body, namespace=namespace)
        except AlreadyExists:
            return
