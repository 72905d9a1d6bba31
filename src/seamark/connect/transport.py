"""One HTTP request to one worker: it ends with an answer or with a failure, in bounded time and memory."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2

from seamark.connect.answers import HttpResponse, Phase, RequestFailure
from seamark.connect.requests import Request
from seamark.core.time import read_clock
from seamark.errors import InvalidSettingError

# The fleet read of 10,000 connectors, each with 16 KiB of config, some tasks, and a stack trace of 8 KiB where it
# failed, comes to about 240 MiB. What is larger is not an answer of Connect.
MAX_ANSWER_BYTES = 256 * 1024 * 1024
# Nothing was sent when one of these was raised.
_BEFORE_SENDING = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_LATE = "the deadline passed before the request was sent"


class _TooLateError(Exception):
    """The deadline passed while a request was prepared. Internal: `Transport.send` returns it as a `RequestFailure`."""

    def __init__(self, phase: Phase) -> None:
        super().__init__(_LATE)
        self.phase = phase


class Transport:
    """HTTP with everything switched off that could lead elsewhere: redirects, proxies, the environment's settings."""

    def __init__(
        self,
        urls: tuple[str, ...],
        *,
        username: str | None = None,
        password: str | None = None,
        ca_file: str | None = None,
        verify: bool = True,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._max_answer_bytes = max_answer_bytes
        self._last = threading.local()
        # A transport of tests has no connections: each URL stands for one.
        self._stand_ins: dict[str, object] = {url: _StandIn() for url in urls}
        auth = None if username is None else httpx2.BasicAuth(username, password or "")
        needs_tls = any(url.startswith("https:") for url in urls)
        self._client = httpx2.Client(
            auth=auth,
            verify=_build_tls(ca_file, verify=verify) if needs_tls else False,
            follow_redirects=False,
            trust_env=False,
            transport=transport,
            # Connect does not compress by default, and inflating here would cost more than the local network saves.
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "seamark"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    @property
    def connection(self) -> object | None:
        """The connection of the last answer in this thread; None where the last request was not answered.

        A TCP connection leads to one process as long as it is open, whatever its URL leads to afterwards.
        """
        found: object | None = getattr(self._last, "connection", None)
        return found

    def send(
        self,
        url: str,
        request: Request,
        *,
        connect_seconds: float,
        read_seconds: float,
        may_send: Callable[[], bool] | None = None,
    ) -> HttpResponse | RequestFailure:
        """Send the request to the worker at `url`. Never raises for what the network or the worker does.

        `may_send` is asked before the connection is made, and again right before the first byte of headers and body:
        making a connection can take seconds, and the process may have been stopped meanwhile.
        """
        self._last.connection = None
        if may_send is not None and not may_send():
            return RequestFailure(Phase.TOO_LATE, _LATE)
        ends_at = read_clock() + connect_seconds + read_seconds
        timeout = httpx2.Timeout(read_seconds, connect=connect_seconds, pool=connect_seconds)
        headers = {"Content-Type": "application/json"} if request.body is not None else None
        try:
            with self._client.stream(
                request.method,
                url + request.path,
                content=request.body,
                headers=headers,
                timeout=timeout,
                extensions=_build_guard(may_send, has_body=bool(request.body)),
            ) as response:
                body = self._read_body(response, ends_at=ends_at)
                if isinstance(body, RequestFailure):
                    return body
                self._last.connection = response.extensions.get("network_stream", self._stand_ins.get(url))
                return _build_answer(response, body)
        except _TooLateError as error:
            return RequestFailure(error.phase, str(error))
        except _BEFORE_SENDING as error:
            return RequestFailure(Phase.CONNECTING, _reason(error), isinstance(error, httpx2.TimeoutException))
        except httpx2.HTTPError as error:
            return RequestFailure(Phase.SENT, _reason(error), isinstance(error, httpx2.TimeoutException))

    def _read_body(self, response: httpx2.Response, *, ends_at: float) -> bytes | RequestFailure:
        chunks: list[bytes] = []
        size = 0
        for chunk in response.iter_bytes():
            size += len(chunk)
            if size > self._max_answer_bytes:
                return RequestFailure(Phase.TOO_LARGE, f"the answer is larger than {self._max_answer_bytes} bytes")
            # The read timeout restarts with every byte; a worker that sends slowly would block the caller for ever.
            if read_clock() > ends_at:
                return RequestFailure(Phase.SENT, "the answer did not end in time", is_silence=True)
            chunks.append(chunk)
        return b"".join(chunks)


def _build_guard(may_send: Callable[[], bool] | None, *, has_body: bool) -> dict[str, Any] | None:
    """Return the extension by which the HTTP client asks `may_send` once the connection is made.

    Headers of a request without a body are the whole request. Where the body is held back, the worker discards what it
    got; that it does so is not proven, so the outcome counts as unknown.
    """
    if may_send is None:
        return None

    def trace(event: str, _info: Mapping[str, Any]) -> None:
        if event.endswith(".send_request_headers.started") and not may_send():
            raise _TooLateError(Phase.TOO_LATE)
        if has_body and event.endswith(".send_request_body.started") and not may_send():
            raise _TooLateError(Phase.SENT)

    return {"trace": trace}


class _StandIn:
    """A connection of a transport that has none."""


def _build_answer(response: httpx2.Response, body: bytes) -> HttpResponse:
    location = response.headers.get("location", "") if 300 <= response.status_code < 400 else ""
    # 201 Created has a location too.
    host = _describe_host(location) if location else ""
    headers = response.headers
    return HttpResponse(response.status_code, headers.get("content-type", ""), body, host, headers.get("date", ""))


def _describe_host(location: str) -> str:
    """Return the host of a redirect, without credentials; its path may hold anything."""
    try:
        return urlsplit(location).netloc.rpartition("@")[2] or "the same host"
    except ValueError:
        return "an invalid address"


def _build_tls(ca_file: str | None, *, verify: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidSettingError(
            f"the CA file {ca_file} can't be used",
            cause=str(error),
            hint="set ca_file to a PEM file with the certificate that signed the workers' certificates",
        ) from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _reason(error: httpx2.HTTPError) -> str:
    """What happened in words; some of httpx2's errors have none."""
    name = type(error).__name__
    words = str(error).strip()
    return f"{words} ({name})" if words else name
