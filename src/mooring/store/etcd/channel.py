"""The line to etcd: one call and everything that can go wrong with it.

What passes (no leader, a restart, a broken line) is tried again, at the next member if there is one, until patience
ends; every answer says whether an attempt before it may have reached etcd as well. What does not pass is said in a
sentence. Not here: what the calls mean.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from mooring.clock import Clock
from mooring.store.contract import StoreError, StoreUnusable, TooLarge
from mooring.store.etcd.settings import EtcdSettings
from mooring.store.etcd.wire import etcd_pb2 as pb

Answer = TypeVar("Answer", bound=Message)
WatchStream = grpc.aio.StreamStreamCall[pb.WatchRequest, pb.WatchResponse]

#: Full path by the name of the call: `/etcdserverpb.KV/Range`.
PATHS: Final[Mapping[str, str]] = {
    method.name: f"/{service.full_name}/{method.name}"
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
OPTIONS: Final = (
    # Replays come in answers of a thousand changes, however large; etcd bounds what one change may have.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Milliseconds between attempts to reach a member that restarts, and what one attempt may take.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 5000),
    # Milliseconds; etcd refuses to be asked more often than every five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # kube-apiserver takes no proxy to etcd either.
    ("grpc.enable_http_proxy", 0),
    # Two stores to one etcd are two lines: a broken one must not slow down the other.
    ("grpc.use_local_subchannel_pool", 1),
)
#: etcd would otherwise keep a watch open at a member that has lost the others, and send nothing.
NEEDS_LEADER: Final = (("hasleader", "true"),)
#: Seconds between two attempts.
PAUSE: Final = 0.1
#: How gRPC begins the text where nothing was sent.
NOBODY: Final = "failed to connect to all addresses"
#: What etcd says, and gRPC on its behalf, where a request is larger than it takes.
TOO_LARGE: Final = ("request is too large", "larger than max")
#: What it says when it has fallen behind.
BUSY: Final = "too many requests"
#: What passes by itself, or with the next member.
PASSING: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


class Forgotten(StoreError):
    """etcd no longer keeps the revision that was asked for."""


class Unanswered(StoreError):
    """Patience ended. `doubt` is whether etcd may have done it all the same."""

    def __init__(self, why: str, *, doubt: bool) -> None:
        super().__init__(why)
        self.doubt = doubt


class Channel:
    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        """Raises StoreUnusable where the certificates cannot be read."""
        self.patience = settings.patience
        self._servers = settings.servers
        self._clock = clock
        self._lines = _lines(settings)
        #: Which of them is spoken to.
        self._turn = 0

    @property
    def name(self) -> str:
        """As people are told."""
        return f"etcd at {', '.join(self._servers)}"

    async def close(self) -> None:
        for line in self._lines:
            await line.close()

    async def ask(self, call: str, request: Message, answer: type[Answer]) -> Answer:
        """For what may be asked twice. Raises Unanswered, Forgotten and other StoreErrors."""
        return (await self.insist(call, request, answer))[0]

    async def insist(self, call: str, request: Message, answer: type[Answer]) -> tuple[Answer, bool]:
        """The answer, and whether an earlier attempt may have reached etcd too. Raises as `ask` does."""
        body, doubt, why = request.SerializeToString(), False, ""
        deadline = self._clock.monotonic() + self.patience
        while (left := deadline - self._clock.monotonic()) > 0:
            turn = self._turn
            line: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._lines[turn].unary_unary(PATHS[call])
            try:
                # Half of what is left, so that a member which does not answer leaves time for another.
                return answer.FromString(await line(body, timeout=max(left / 2, PAUSE))), doubt
            except grpc.aio.AioRpcError as error:
                why = error.details() or error.code().name
                if error.code() not in PASSING and BUSY not in why:
                    raise self._refusal(error.code(), why) from error
                doubt = doubt or not why.startswith(NOBODY)
                self.leave(turn)
            await self._clock.sleep(PAUSE)
        raise Unanswered(f"{self.name} did not answer within {self.patience:g} s: {_cause(why)}", doubt=doubt)

    def watch(self) -> WatchStream:
        """A line for watches, at the member spoken to."""
        line: grpc.aio.StreamStreamMultiCallable[pb.WatchRequest, pb.WatchResponse] = self._lines[
            self._turn
        ].stream_stream(
            PATHS["Watch"],
            request_serializer=pb.WatchRequest.SerializeToString,
            response_deserializer=pb.WatchResponse.FromString,
        )
        return line(metadata=NEEDS_LEADER)

    @property
    def turn(self) -> int:
        return self._turn

    def leave(self, turn: int) -> None:
        """Speak to the next member, unless somebody else turned away from this one already."""
        if self._turn == turn:
            self._turn = (turn + 1) % len(self._lines)

    def _refusal(self, code: grpc.StatusCode, why: str) -> StoreError:
        match code:
            case grpc.StatusCode.OUT_OF_RANGE:
                return Forgotten(f"{self.name}: {why}")
            case _ if any(words in why for words in TOO_LARGE):
                return TooLarge(f"{self.name} does not take values of this size: {why}")
            case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
                return StoreUnusable(f"{self.name} does not let us in: {why}; check the certificate we show it")
            case _:
                return StoreError(f"{self.name} refuses: {why}")


def _lines(settings: EtcdSettings) -> Sequence[grpc.aio.Channel]:
    if not settings.tls:
        return [grpc.aio.insecure_channel(server, options=OPTIONS) for server in settings.servers]
    credentials = grpc.ssl_channel_credentials(
        _read(settings.authority), _read(settings.key), _read(settings.certificate)
    )
    return [grpc.aio.secure_channel(server, credentials, options=OPTIONS) for server in settings.servers]


def _read(file: Path | None) -> bytes | None:
    try:
        return None if file is None else file.read_bytes()
    except OSError as error:
        raise StoreUnusable(f"{file} cannot be read: {error.strerror}") from error


def _cause(details: str) -> str:
    """What the system said, out of gRPC's chain of causes."""
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return "its certificate is not of the authority that we trust (CERTIFICATE_VERIFY_FAILED)"
    return details.removeprefix(f"{NOBODY}; last error: ").rstrip(".")
