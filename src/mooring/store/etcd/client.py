"""gRPC client of etcd: retries, endpoint failover, error translation.

Transient failures (no leader, restart, broken connection) are retried at the next member until the request timeout.
A caller learns whether an earlier attempt may have been executed. Does not interpret requests.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from mooring.clock import Clock
from mooring.store.contract import StoreError, StoreUnusable, ValueTooLarge
from mooring.store.etcd.settings import EtcdSettings
from mooring.store.etcd.wire import etcd_pb2 as pb

ResponseT = TypeVar("ResponseT", bound=Message)
WatchStream = grpc.aio.StreamStreamCall[pb.WatchRequest, pb.WatchResponse]

#: Full path by the name of the method: `/etcdserverpb.KV/Range`.
PATHS: Final[Mapping[str, str]] = {
    method.name: f"/{service.full_name}/{method.name}"
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
OPTIONS: Final = (
    # Replays arrive in responses of a thousand changes of any size; etcd limits the size of one change.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Milliseconds between connection attempts to a restarting member, and the timeout of one attempt.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 5000),
    # etcd rejects pings more frequent than every five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # kube-apiserver uses no proxy to etcd either.
    ("grpc.enable_http_proxy", 0),
    # Two stores of one etcd use two connections: a broken one must not delay the other.
    ("grpc.use_local_subchannel_pool", 1),
)
#: Without it etcd keeps a watch open at a partitioned member, and sends nothing.
NEEDS_LEADER: Final = (("hasleader", "true"),)
RETRY_SECONDS: Final = 0.1
#: gRPC's message if no request was sent.
CONNECT_FAILED: Final = "failed to connect to all addresses"
#: Messages of etcd and of gRPC for a request above the size limit.
TOO_LARGE_TEXTS: Final = ("request is too large", "larger than max")
#: etcd's message if its apply queue is full.
OVERLOADED_TEXT: Final = "too many requests"
TRANSIENT_CODES: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


class RevisionCompacted(StoreError):
    """etcd has compacted the requested revision."""


class EtcdTimeout(StoreError):
    """The request timeout expired. `outcome_unknown`: etcd may have executed the request."""

    def __init__(self, text: str, *, outcome_unknown: bool) -> None:
        super().__init__(text)
        self.outcome_unknown = outcome_unknown


class EtcdClient:
    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        """Raises StoreUnusable if the certificates cannot be read."""
        self.request_timeout = settings.request_timeout
        self._servers = settings.servers
        self._clock = clock
        self._channels = _channels(settings)
        #: Index of the channel in use.
        self.endpoint = 0

    @property
    def name(self) -> str:
        """For messages."""
        return f"etcd at {', '.join(self._servers)}"

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    async def call(self, call: str, request: Message, response: type[ResponseT]) -> ResponseT:
        """Idempotent requests. Raises EtcdTimeout, RevisionCompacted and other StoreErrors."""
        return (await self.call_with_retries(call, request, response))[0]

    async def call_with_retries(self, call: str, request: Message, response: type[ResponseT]) -> tuple[ResponseT, bool]:
        """The response, and whether an earlier attempt may have been executed too. Raises as `call` does."""
        body, outcome_unknown, reason = request.SerializeToString(), False, ""
        deadline = self._clock.monotonic() + self.request_timeout
        while (left := deadline - self._clock.monotonic()) > 0:
            endpoint = self.endpoint
            method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channels[endpoint].unary_unary(PATHS[call])
            try:
                # Half of the rest, so that a member which does not answer leaves time for another.
                return response.FromString(await method(body, timeout=max(left / 2, RETRY_SECONDS))), outcome_unknown
            except grpc.aio.AioRpcError as error:
                reason = error.details() or error.code().name
                if error.code() not in TRANSIENT_CODES and OVERLOADED_TEXT not in reason:
                    raise self._error(error.code(), reason) from error
                outcome_unknown = outcome_unknown or not reason.startswith(CONNECT_FAILED)
                self.switch_endpoint(endpoint)
            await self._clock.sleep(RETRY_SECONDS)
        text = f"{self.name} did not answer within {self.request_timeout:g} s: {_cause(reason)}"
        raise EtcdTimeout(text, outcome_unknown=outcome_unknown)

    def watch(self) -> WatchStream:
        """A Watch stream at the current endpoint."""
        channel = self._channels[self.endpoint]
        method: grpc.aio.StreamStreamMultiCallable[pb.WatchRequest, pb.WatchResponse] = channel.stream_stream(
            PATHS["Watch"],
            request_serializer=pb.WatchRequest.SerializeToString,
            response_deserializer=pb.WatchResponse.FromString,
        )
        return method(metadata=NEEDS_LEADER)

    def switch_endpoint(self, failed: int) -> None:
        """Use the next endpoint, unless another call has already left the failed one."""
        if self.endpoint == failed:
            self.endpoint = (failed + 1) % len(self._channels)

    def _error(self, code: grpc.StatusCode, reason: str) -> StoreError:
        match code:
            case grpc.StatusCode.OUT_OF_RANGE:
                return RevisionCompacted(f"{self.name}: {reason}")
            case _ if any(text in reason for text in TOO_LARGE_TEXTS):
                return ValueTooLarge(f"{self.name} rejected the size of the value: {reason}")
            case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
                return StoreUnusable(f"{self.name} denied access: {reason}; check the client certificate")
            case _:
                return StoreError(f"{self.name} failed: {reason}")


def _channels(settings: EtcdSettings) -> Sequence[grpc.aio.Channel]:
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
    """The system's error, out of gRPC's chain of causes."""
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return "its certificate is not signed by the trusted authority (CERTIFICATE_VERIFY_FAILED)"
    return details.removeprefix(f"{CONNECT_FAILED}; last error: ").rstrip(".")
