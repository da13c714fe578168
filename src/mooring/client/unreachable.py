"""Why there was no answer, in one sentence for people: what is wrong, and what to do.

Turns what sockets, TLS and aiohttp raise into the texts of `Unreachable`. Pure, and the one place that knows the
numbers of OpenSSL and the shapes of aiohttp's errors.
"""

import errno
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from mooring.client.access import Access

#: OpenSSL's verdicts on a server's certificate (X509_V_ERR_…), by what is to be done about them.
_EXPIRED: Final = (10,)
_NOT_YET_VALID: Final = (9,)
#: Signed by somebody else: bad signature, self-signed alone or in the chain, issuer not found (2, 20), unverifiable.
_UNTRUSTED: Final = (2, 7, 18, 19, 20, 21)
#: For another host name, for another address.
_MISNAMED: Final = (62, 64)

#: What a server says in TLS to a client whose certificate it does not like; OpenSSL's names.
_ALERTS: Final[Mapping[str, str]] = {
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it was revoked",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it is broken",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it is not known",
    "TLSV1_ALERT_UNKNOWN_CA": "another authority signed it",
    "TLSV1_ALERT_ACCESS_DENIED": "it may not enter",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "there is none",
}
#: What TLS meets where somebody speaks something else.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")

_NO_ROUTE: Final = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


def why(error: BaseException, access: Access, *, timeout: float) -> str:
    """The sentence for a request that failed so. `timeout` is how long it was waited for an answer."""
    causes = tuple(_causes(error))
    for cause in causes:
        match cause:
            case aiohttp.ClientSSLError():
                continue  # a wrapper that lacks what is asked below; what it wraps comes next
            case aiohttp.ClientHttpProxyError():
                return f"the proxy {_proxy(access)} did not connect us: {cause.status} {cause.message}"
            case aiohttp.ClientProxyConnectionError():
                return f"cannot reach the proxy {_proxy(access)}: {_reason(cause)}: is proxy-url or HTTPS_PROXY right?"
            case ssl.SSLCertVerificationError():
                return _certificate(cause, access)
            case ssl.SSLError():
                return _handshake(cause, access)
            case aiohttp.ConnectionTimeoutError() | TimeoutError(errno=errno.ETIMEDOUT):
                return f"cannot connect to {access.server} in time: is the address right, is a firewall in between?"
            case TimeoutError():
                return f"no answer within {timeout:g} s from {access.server}: is it overloaded or hanging?"
            case socket.gaierror():
                host = urlsplit(access.server).hostname
                return f"no such host: {host} ({cause.strerror}): is the server in the kubeconfig right?"
            case ConnectionRefusedError():
                return f"connection refused: is the API server running at {access.server}?"
            case OSError(errno=number) if number in _NO_ROUTE:
                return f"no route to {access.server}: is the network up?"
            case aiohttp.ClientResponseError():
                return f"{access.server} does not speak HTTP: is the port right, or should it begin with https://?"
            case (
                aiohttp.ServerDisconnectedError()
                | aiohttp.ClientPayloadError()
                | ConnectionResetError()
                | BrokenPipeError()
            ):
                return f"the connection to {access.server} broke before the answer was complete"
            case _:
                continue
    return f"no answer from {access.server}: {_reason(error)}"


def refused_certificate(access: Access, now: float) -> str:
    """What to add to an Unauthorized where our own certificate has run out; empty where that is not it."""
    if not access.certificate:
        return ""
    # Slow to import, and needed when something has gone wrong only.
    from cryptography import x509

    ended = x509.load_pem_x509_certificate(access.certificate.encode()).not_valid_after_utc
    if ended > datetime.fromtimestamp(now, UTC):
        return ""
    return f"the client certificate in the kubeconfig expired on {ended:%Y-%m-%d}: get a new one"


def _certificate(error: ssl.SSLCertVerificationError, access: Access) -> str:
    # Python sets the two when OpenSSL judged, and not when it judged itself.
    code, server = getattr(error, "verify_code", 0), access.server
    if code in _EXPIRED:
        return f"certificate has expired: renew that of {server}, or set this machine's clock"
    if code in _NOT_YET_VALID:
        return f"certificate is not valid yet: that of {server} is from the future, or this machine's clock is wrong"
    if code in _UNTRUSTED and access.authority:
        return (
            f"certificate verify failed: the CA in the kubeconfig did not sign the certificate of {server}: "
            "is it a kubeconfig of this very cluster?"
        )
    if code in _UNTRUSTED:
        return (
            f"certificate verify failed: nobody this machine trusts signed the certificate of {server}: "
            "add the cluster's certificate-authority to the kubeconfig"
        )
    if code in _MISNAMED:
        wanted = access.server_name or urlsplit(server).hostname
        return (
            f"certificate verify failed: the certificate of {server} is not for {wanted}: "
            "use an address it names, or set tls-server-name in the kubeconfig"
        )
    verdict = getattr(error, "verify_message", "") or "it cannot be trusted"
    return f"certificate verify failed: {verdict}: look at the certificate of {server}"


def _handshake(error: ssl.SSLError, access: Access) -> str:
    reason = error.reason or ""
    if reason in _ALERTS:
        return f"{access.server} does not accept our client certificate, {_ALERTS[reason]}: get a new kubeconfig"
    if reason in _NOT_TLS:
        return f"{access.server} does not speak TLS: is the port right, or should it begin with http://?"
    return f"no secure connection to {access.server}: {reason or error.strerror or 'TLS failed'}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, outermost first. aiohttp keeps some of that in attributes."""
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        current = queue.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        inner = (getattr(current, name, None) for name in ("os_error", "certificate_error"))
        queue += [*(each for each in inner if isinstance(each, BaseException)), current.__cause__, current.__context__]


def _reason(error: BaseException) -> str:
    strerror = getattr(error, "strerror", None)
    return str(strerror or str(error) or type(error).__name__)


def _proxy(access: Access) -> str:
    """The proxy's address without the password it may carry."""
    url = urlsplit(access.proxy)
    return f"{url.scheme}://{url.hostname}" + (f":{url.port}" if url.port else "")
