"""The watch of etcd that keeps the replica up to date, for as long as the store is open.

A line that breaks is taken up again where the replica stands, so nothing is skipped and nothing comes twice. Where
etcd has forgotten what happened meanwhile, or is not what it was, the replica is made anew and those who watch it are
told to begin again.
"""

import asyncio
from typing import Final

import grpc.aio
import structlog

from mooring.clock import Clock, set_within
from mooring.store.contract import StoreError
from mooring.store.etcd.channel import NOBODY, PAUSE, Channel, WatchStream
from mooring.store.etcd.layout import Layout
from mooring.store.etcd.loading import Loader
from mooring.store.etcd.replica import Replica, Torn
from mooring.store.etcd.wire import etcd_pb2 as pb

#: Seconds between two questions how far etcd is, while somebody waits and while nobody does. The first: an answer comes
#: only when all was sent, so it may take more than one. The second keeps bookmarks ahead of etcd's compaction.
EAGER: Final = 0.02
IDLE: Final = 10.0

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class _Broken(Exception):
    """The line is gone; the text says why."""


class _Gap(Exception):
    """What the replica lacks cannot be had any more; the text says why."""


class Follower:
    def __init__(self, channel: Channel, layout: Layout, replica: Replica, loader: Loader, clock: Clock) -> None:
        self._channel = channel
        self._layout = layout
        self._replica = replica
        self._loader = loader
        self._clock = clock
        #: Of the etcd that the replica is a copy of.
        self._cluster = 0
        #: Why the line does not stand; None while it does.
        self.trouble: str | None = None
        #: Whether that was said.
        self._complained = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            turn = self._channel.turn
            try:
                await self._check_identity()
                await self._follow()
            except _Gap as gap:
                await self._begin_anew(str(gap))
            except (_Broken, StoreError) as why:
                self._complain(str(why))
                self._channel.leave(turn)
            await self._clock.sleep(PAUSE)

    async def _check_identity(self) -> None:
        """A backup that was put back has fewer revisions than the replica, or belongs to another cluster."""
        header = await self._loader.newest()
        if header.revision < self._replica.revision:
            raise _Gap(f"etcd went back from revision {self._replica.revision} to {header.revision}")
        if self._cluster and header.cluster_id != self._cluster:
            raise _Gap("another etcd cluster answers at the address")
        self._cluster = header.cluster_id

    async def _follow(self) -> None:
        """Until the line breaks."""
        stream = self._channel.watch()
        asking: asyncio.Task[None] | None = None
        try:
            first, end = self._layout.everything
            create = pb.WatchCreateRequest(key=first, range_end=end, start_revision=self._replica.revision + 1)
            await stream.write(pb.WatchRequest(create_request=create))
            async for response in stream:
                if response.canceled:
                    raise _canceled(response)
                if response.created:
                    self._connected()
                    asking = asyncio.create_task(self._ask_for_progress(stream), name="etcd progress")
                elif response.events:
                    # The revision of the answer is etcd's by now, and what led to it may be in the next.
                    self._replica.take(response.events)
                else:
                    self._replica.complete_up_to(response.header.revision)
        except Torn as torn:
            raise _Gap(str(torn)) from torn
        except grpc.aio.AioRpcError as error:
            raise _Broken(error.details() or error.code().name) from error
        except asyncio.InvalidStateError as error:  # what writing to a stream that ended says
            raise _Broken(str(error) or "the line broke") from error
        finally:
            if asking is not None:
                asking.cancel()
            stream.cancel()
        raise _Broken("etcd ended the watch")

    async def _ask_for_progress(self, stream: WatchStream) -> None:
        """Where others write to the same etcd, only etcd knows that nothing of ours is still to come."""
        request = pb.WatchRequest(progress_request=pb.WatchProgressRequest())
        while True:
            eager = await set_within(self._replica.wanted, IDLE, self._clock)
            if eager:
                # Mostly what is wanted is under way.
                await self._clock.sleep(EAGER)
            try:
                await stream.write(request)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # who reads from it knows

    async def _begin_anew(self, why: str) -> None:
        log.error("what happened in etcd meanwhile is lost; all watches begin again", why=why)
        try:
            await self._loader.take_possession()  # an etcd that is empty now is nobody's
            state = await self._loader.present()
        except StoreError as error:
            self._complain(str(error))
            return
        self._cluster = 0
        self._replica.replace(state)

    def _connected(self) -> None:
        if self._complained:
            log.warning("etcd is back", etcd=self._channel.name, revision=self._replica.revision)
        self._complained = False
        self.trouble = None

    def _complain(self, why: str) -> None:
        """Once for each time that the line is gone."""
        self.trouble = why
        if not self._complained:
            log.error("no line to etcd; trying again", etcd=self._channel.name, why=why.removeprefix(f"{NOBODY}; "))
        self._complained = True


def _canceled(response: pb.WatchResponse) -> Exception:
    if response.compact_revision:
        return _Gap(f"etcd has forgotten everything up to revision {response.compact_revision}")
    return _Broken(response.cancel_reason or "etcd ended the watch")
