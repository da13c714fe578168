"""How the store's keys and values lie in etcd.

    /mooring/format             which format the rest has
    /mooring/compaction         who let etcd forget, and up to where
    /mooring/data<key>          the value, and after it the name of the write that put it there

The name is there for the case that etcd's answer is lost: whoever finds it knows that the write took place. A deletion
leaves no name; one of the same key at the same revision is as good as another. Plain code, no I/O.
"""

from typing import Final

import msgspec

from mooring.store.contract import Record, Revision
from mooring.store.etcd.wire import etcd_pb2 as pb
from mooring.store.state import Write

#: Raised whenever an older Mooring could not read what is there any more.
FORMAT: Final = 1
#: Stands between a value and the name of its write; JSON has no such bytes.
_MARK: Final = b"\0moor"
#: Of a write's name: eight bytes of the store's, eight of a counter.
NAME_BYTES: Final = 16
_TAIL: Final = len(_MARK) + NAME_BYTES


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A record as etcd has it."""

    record: Record
    #: Of the write that made it; empty where somebody else than Mooring did.
    name: bytes


class Layout:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode()
        self.format_key = self._prefix + b"format"
        self.compaction_key = self._prefix + b"compaction"
        self._data = self._prefix + b"data"

    @property
    def everything(self) -> tuple[bytes, bytes]:
        """All that is ours: the first key, and the first that no longer is."""
        return self._prefix, _after(self._prefix)

    @property
    def data(self) -> tuple[bytes, bytes]:
        return self._data, _after(self._data)

    def key(self, stored: bytes) -> str | None:
        """The store's key; None for what the layout itself keeps."""
        # Whoever writes past us can make keys that are no text; they are shown, and nobody can write them here.
        return stored[len(self._data) :].decode(errors="surrogateescape") if stored.startswith(self._data) else None

    def stored(self, found: pb.KeyValue) -> Stored:
        """Of a key of the data."""
        value, name = found.value, b""
        if value[-_TAIL:-NAME_BYTES] == _MARK:
            value, name = value[:-_TAIL], value[-NAME_BYTES:]
        key = found.key[len(self._data) :].decode(errors="surrogateescape")
        return Stored(Record(key, value, Revision(found.mod_revision), Revision(found.create_revision)), name)

    def swap(self, write: Write, name: bytes) -> pb.TxnRequest:
        """The write if the key is as expected, and what it relies on too; otherwise what is there."""
        key = self._data + write.key.encode()
        compare = [pb.Compare(target=pb.Compare.MOD, key=key, mod_revision=write.expect)]
        if write.given is not None:
            given = self._data + write.given.key.encode()
            compare.append(pb.Compare(target=pb.Compare.MOD, key=given, mod_revision=write.given.revision))
        if write.value is None:
            change = pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
        else:
            change = pb.RequestOp(request_put=pb.PutRequest(key=key, value=b"".join((write.value, _MARK, name))))
        return pb.TxnRequest(
            compare=compare,
            success=[change],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key))],
        )


def _after(prefix: bytes) -> bytes:
    """The first key that no longer begins with the prefix, which ends in a byte below 255."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
