"""Error messages of failed requests: what is wrong and what to do. Pure.

Maps exceptions of sockets, OpenSSL and aiohttp to the text of `Unreachable`.
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

#: OpenSSL's verification errors (X509_V_ERR_…), grouped by remedy.
_EXPIRED: Final = (10,)
_NOT_YET_VALID: Final = (9,)
#: Unknown signer: bad signature, self-signed alone or in the chain, issuer not found (2, 20), unverifiable.
_UNTRUSTED: Final = (2, 7, 18, 19, 20, 21)
#: For another host name, for another address.
_MISNAMED: Final = (62, 64)

#: TLS alerts of servers that reject the client certificate; OpenSSL's names.
_ALERTS: Final[Mapping[str, str]] = {
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it was revoked",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it is broken",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it is not known",
    "TLSV1_ALERT_UNKNOWN_CA": "another authority signed it",
    "TLSV1_ALERT_ACCESS_DENIED": "access is denied",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "there is none",
}
#: TLS errors when the peer speaks another protocol.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")

_NO_ROUTE: Final = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


def explain_failure(error: BaseException, access: Access, *, timeout: float) -> str:
    """The message for a failed request; `timeout` is its limit in seconds."""
    causes = tuple(_causes(error))
    for cause in causes:
        match cause:
            case aiohttp.ClientSSLError():
                continue  # a wrapper without errno and verify_code; its cause follows
            case aiohttp.ClientHttpProxyError():
                return f"the proxy {_proxy(access)} refused to connect: {cause.status} {cause.message}"
            case aiohttp.ClientProxyConnectionError():
                return f"cannot reach the proxy {_proxy(access)}: {_reason(cause)}: is proxy-url or HTTPS_PROXY right?"
            case ssl.SSLCertVerificationError():
                return _certificate(cause, access)
            case ssl.SSLError():
                return _handshake(cause, access)
            case aiohttp.ConnectionTimeoutError() | TimeoutError(errno=errno.ETIMEDOUT):
                return f"cannot connect to {access.server} in time: is the address right, is a firewall in between?"
            case TimeoutError():
                return f"no response within {timeout:g} s from {access.server}: is it overloaded or hanging?"
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
                return f"the connection to {access.server} broke before the response was complete"
            case _:
                continue
    return f"no response from {access.server}: {_reason(error)}"


def refused_certificate(access: Access, now: float) -> str:
    """Hint for an Unauthorized if the client certificate has expired, else ""."""
    if not access.certificate:
        return ""
    # Slow to import; needed in case of errors only.
    from cryptography import x509

    ended = x509.load_pem_x509_certificate(access.certificate.encode()).not_valid_after_utc
    if ended > datetime.fromtimestamp(now, UTC):
        return ""
    return f"the client certificate in the kubeconfig expired on {ended:%Y-%m-%d}: get a new one"


def _certificate(error: ssl.SSLCertVerificationError, access: Access) -> str:
    # Unset when Python, not OpenSSL, rejected the certificate.
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
            f"certificate verify failed: no CA that this machine trusts signed the certificate of {server}: "
            "add the cluster's certificate-authority to the kubeconfig"
        )
    if code in _MISNAMED:
        expected = access.server_name or urlsplit(server).hostname
        return (
            f"certificate verify failed: the certificate of {server} is not for {expected}: "
            "use an address it names, or set tls-server-name in the kubeconfig"
        )
    verdict = getattr(error, "verify_message", "") or "it cannot be trusted"
    return f"certificate verify failed: {verdict}: check the certificate of {server}"


def _handshake(error: ssl.SSLError, access: Access) -> str:
    reason = error.reason or ""
    if reason in _ALERTS:
        return f"{access.server} does not accept our client certificate, {_ALERTS[reason]}: get a new kubeconfig"
    if reason in _NOT_TLS:
        return f"{access.server} does not speak TLS: is the port right, or should it begin with http://?"
    return f"no secure connection to {access.server}: {reason or error.strerror or 'TLS failed'}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, outermost first; aiohttp keeps some in attributes."""
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
    """The proxy's address without credentials."""
    url = urlsplit(access.proxy)
    return f"{url.scheme}://{url.hostname}" + (f":{url.port}" if url.port else "")
