"""From etcd to a replica: whose data it is, and how it was some time ago.

The replica begins in the past, so that what happened since then comes by way of the watch and ends up in the history:
watches of clients go on over a restart of the server. How far in the past is bounded by what etcd still keeps.
"""

from typing import Final

import grpc.aio

from mooring.store.contract import Record, Revision, StoreError, StoreUnusable
from mooring.store.etcd.channel import Channel, Forgotten
from mooring.store.etcd.layout import FORMAT, Layout
from mooring.store.etcd.wire import etcd_pb2 as pb
from mooring.store.state import State

#: Revisions to go back: as many as the history keeps of one collection, ten seconds at 1,000 writes a second.
REPLAYED: Final = 10_000
#: Records asked for at once; of 2 kB, that is an answer of 1 MB.
PAGE: Final = 500
#: Before this, etcd could say that everything was sent when it was not (etcd's issue 15220).
OLDEST_ETCD: Final = ((3, 4, 25), (3, 5, 8))
#: How often a state that etcd forgets while it is read is begun anew: it forgets every few minutes.
ATTEMPTS: Final = 3


class Loader:
    def __init__(self, channel: Channel, layout: Layout) -> None:
        self._channel = channel
        self._layout = layout

    async def take_possession(self) -> Revision:
        """See that the prefix is ours, or nobody's yet and then make it ours; since which revision it is. Raises
        StoreUnusable."""
        await self._check_version()
        key, first, end = self._layout.format_key, *self._layout.everything
        answer = await self._channel.ask(
            "Txn",
            pb.TxnRequest(
                # Nothing there, neither the format nor anything else: not one key has ever been made.
                compare=[pb.Compare(target=pb.Compare.VERSION, key=key, version=0)],
                success=[pb.RequestOp(request_range=pb.RangeRequest(key=first, range_end=end, count_only=True))],
                failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key))],
            ),
            pb.TxnResponse,
        )
        found = answer.responses[0].response_range
        if not answer.succeeded:
            return self._check_format(found.kvs[0])
        if found.count:
            raise StoreUnusable(
                f"{self._channel.name} has {found.count} keys under {first.decode()} that are not Mooring's: choose "
                "another prefix, or remove them"
            )
        put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=b"%d" % FORMAT))
        made = await self._channel.ask(
            "Txn",
            pb.TxnRequest(
                compare=[pb.Compare(target=pb.Compare.VERSION, key=key, version=0)],
                success=[put, pb.RequestOp(request_range=pb.RangeRequest(key=key))],
                # Another server was faster.
                failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key))],
            ),
            pb.TxnResponse,
        )
        return self._check_format(made.responses[-1].response_range.kvs[0])

    async def newest(self) -> pb.ResponseHeader:
        """What etcd is at, at a moment after this call."""
        request = pb.RangeRequest(key=self._layout.format_key, count_only=True)
        return (await self._channel.ask("Range", request, pb.RangeResponse)).header

    async def past(self, since: Revision) -> State:
        """How it was some time ago, but not before it was ours."""
        at = Revision(max(since, (await self.newest()).revision - REPLAYED))
        for _ in range(ATTEMPTS):
            try:
                return await self._at(at)
            except Forgotten:
                at = await self.oldest(at)
        return await self._at(at)

    async def present(self) -> State:
        """How it is now."""
        return await self._at(Revision((await self.newest()).revision))

    async def oldest(self, asked: Revision) -> Revision:
        """The oldest revision that etcd keeps, given one that it does not."""
        stream = self._channel.watch()
        try:
            first, end = self._layout.everything
            create = pb.WatchCreateRequest(key=first, range_end=end, start_revision=asked)
            await stream.write(pb.WatchRequest(create_request=create))
            async for response in stream:
                if response.compact_revision:
                    return Revision(response.compact_revision)
                if response.events:
                    break  # it keeps it after all
            return asked
        except grpc.aio.AioRpcError as error:
            raise StoreError(f"{self._channel.name} broke off: {error.details()}") from error
        finally:
            stream.cancel()

    async def _at(self, revision: Revision) -> State:
        records: list[Record] = []
        start, end = self._layout.data
        while True:
            request = pb.RangeRequest(key=start, range_end=end, revision=revision, limit=PAGE)
            answer = await self._channel.ask("Range", request, pb.RangeResponse)
            records += [self._layout.stored(found).record for found in answer.kvs]
            if not answer.more:
                return State(records, revision)
            start = answer.kvs[-1].key + b"\0"

    async def _check_version(self) -> None:
        answer = await self._channel.ask("Status", pb.StatusRequest(), pb.StatusResponse)
        version = tuple(int(part) for part in answer.version.partition("-")[0].split(".") if part.isdigit())
        same = [oldest for oldest in OLDEST_ETCD if oldest[:2] == version[:2]]
        if version < (same[0] if same else OLDEST_ETCD[0]):
            wanted = " or ".join(".".join(map(str, oldest)) for oldest in OLDEST_ETCD)
            raise StoreUnusable(f"{self._channel.name} is of version {answer.version}: at least {wanted} is needed")

    def _check_format(self, found: pb.KeyValue) -> Revision:
        text, prefix = found.value.decode(errors="replace"), self._layout.everything[0].decode()
        if not text.isdecimal():
            raise StoreUnusable(f"{prefix} in {self._channel.name} is not Mooring's: choose another prefix")
        if int(text) > FORMAT:
            raise StoreUnusable(
                f"{prefix} in {self._channel.name} was written by a newer Mooring (format {text}, this one reads up to "
                f"{FORMAT}): run the newer one, or choose another prefix"
            )
        return Revision(found.create_revision)
