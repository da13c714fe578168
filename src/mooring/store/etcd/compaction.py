"""etcd keeps every version until it is told to forget: every few minutes, up to where it was a few minutes before.

Whatever happened within the last interval can be replayed, by a server that starts and by its watches. Of several
servers one does it each time, the one whose swap of a key succeeds; as kube-apiserver does, whose key is another. It is
the whole etcd that forgets, other prefixes too.
"""

from typing import Final

import structlog

from mooring.clock import Clock
from mooring.store.contract import StoreError
from mooring.store.etcd.channel import Channel, Forgotten
from mooring.store.etcd.layout import Layout
from mooring.store.etcd.wire import etcd_pb2 as pb

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class Compactor:
    def __init__(self, channel: Channel, layout: Layout, clock: Clock, *, interval: float) -> None:
        self._channel = channel
        self._key = layout.compaction_key
        self._clock = clock
        self._interval = interval
        #: How often the key was written, and etcd's revision, when we last looked.
        self._version = 0
        self._revision = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(self._interval)
            try:
                await self.compact()
            except StoreError as error:
                log.warning("etcd was not compacted; it will be next time", why=str(error))

    async def compact(self) -> None:
        """Forget what was there when this was last called, unless somebody else did so since."""
        answer, doubt = await self._channel.insist("Txn", self._swap(), pb.TxnResponse)
        if not answer.succeeded or doubt:
            # Another server's turn, or one of ours that we were not told of: begin again from here.
            found = answer.responses[-1].response_range.kvs
            self._version, self._revision = found[0].version if found else 0, answer.header.revision
            return
        forget, self._version, self._revision = self._revision, self._version + 1, answer.header.revision
        if forget:
            try:
                await self._channel.ask("Compact", pb.CompactionRequest(revision=forget), pb.CompactionResponse)
            except Forgotten:
                return  # by somebody else, or by an attempt whose answer was lost

    def _swap(self) -> pb.TxnRequest:
        look = pb.RequestOp(request_range=pb.RangeRequest(key=self._key))
        put = pb.RequestOp(request_put=pb.PutRequest(key=self._key, value=b"%d" % self._revision))
        return pb.TxnRequest(
            compare=[pb.Compare(target=pb.Compare.VERSION, key=self._key, version=self._version)],
            success=[put, look],
            failure=[look],
        )
