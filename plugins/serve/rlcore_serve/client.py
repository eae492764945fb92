"""Send requests to a policy server over one connection, and reconnect if it breaks.

openpi's protocol does not number answers: an answer belongs to the last observation sent. So a
server that sends more than one frame for an observation is an error, because every later answer
would be matched to the wrong observation.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.sync.client import ClientConnection, connect

from rlcore.contracts.errors import PolicyError
from rlcore.utils.text import strip_control
from rlcore_serve.settings import KEY_VARIABLE
from rlcore_serve.wire import WireError, pack, unpack

RETRY_S = 0.5
"""Seconds between two attempts to connect."""
UNAUTHORIZED = 401
CONNECTION_ERRORS = (ConnectionClosed, OSError, InvalidHandshake, EOFError)
CLOSE_TIMEOUT_S = 2.0
"""Seconds to wait for the server to confirm that the connection is closed."""
MAX_TEXT_LENGTH = 500
"""Most characters of a server's text in an error."""


class PolicyClient:
    """A client of a policy server, with one connection that is established at its first use.

    Args:
        url: `ws://HOST:PORT` or `wss://HOST:PORT`.
        reconnect_s: timeout in seconds for connecting and for reconnecting, attempts included.
        reply_s: timeout in seconds for an answer, and for sending a request.
        max_bytes: largest answer in bytes.

    Attributes:
        metadata: metadata that the server sent at the last connect; empty if it was not a map.
    """

    def __init__(self, url: str, *, reconnect_s: float, reply_s: float, max_bytes: int) -> None:
        self._url = url
        self._reconnect_s = reconnect_s
        self._reply_s = reply_s
        self._max_bytes = max_bytes
        self._connection: ClientConnection | None = None
        self._pong: threading.Event | None = None
        self.metadata: dict[Any, Any] = {}

    def open(self) -> None:
        """Connect and receive the server's metadata; retry until the reconnect timeout.

        Raises:
            PolicyError: the server can't be reached in time, rejects the key or refuses the
                client, or its first message is not one of the protocol; or the URL is invalid.
        """
        key = os.environ.get(KEY_VARIABLE)
        headers = {"Authorization": f"Api-Key {key}"} if key else {}
        deadline = time.monotonic() + self._reconnect_s
        while True:
            try:
                self._connection = connect(
                    self._url,
                    compression=None,
                    max_size=self._max_bytes,
                    proxy=None,
                    additional_headers=headers,
                    open_timeout=max(1.0, deadline - time.monotonic()),
                    ping_interval=None,  # the timeout `reply_s` already detects a dead server
                    close_timeout=CLOSE_TIMEOUT_S,
                )
                _limit_sending(self._connection, self._reply_s)
                metadata = self._read(self._connection.recv(timeout=self._reply_s))
                self._pong = _ping(self._connection)
                break
            except InvalidURI as error:
                raise PolicyError(f"actor.model.url: {one_line(error)}") from None
            except CONNECTION_ERRORS as error:
                self.close()
                if isinstance(error, InvalidStatus) and (
                    error.response.status_code == UNAUTHORIZED
                ):
                    raise PolicyError(
                        f"the server at {self._url} asks for another key",
                        hint=f"set {KEY_VARIABLE} in the environment",
                    ) from None
                if time.monotonic() + RETRY_S > deadline:
                    reason = one_line(error) or type(error).__name__
                    raise PolicyError(
                        f"the server at {self._url} can't be reached within "
                        f"{self._reconnect_s:g} s (actor.model.reconnect_s): {reason}",
                        hint="start it, e.g. rlcore serve RUN",
                    ) from None
                time.sleep(RETRY_S)
        self.metadata = metadata if isinstance(metadata, dict) else {}

    def request(self, message: dict[str, Any]) -> dict[Any, Any]:
        """Send a message and return the server's answer.

        If the connection breaks, the message is sent once more over a new one.

        Raises:
            PolicyError: the server refuses the message, can't be reached, does not answer in time,
                answers with something other than a map, or has sent an additional frame.
        """
        data = pack(message)
        for last in (False, True):
            if self._connection is None:
                self.open()
            assert self._connection is not None
            try:
                self._require_no_extra_frame(self._connection)
                self._connection.send(data)
                answer = self._read(self._connection.recv(timeout=self._reply_s))
                self._pong = _ping(self._connection)
                break
            except TimeoutError:
                self.close()
                raise PolicyError(
                    f"the server at {self._url} did not answer within {self._reply_s:g} s",
                    hint="actor.model.reply_s",
                ) from None
            except CONNECTION_ERRORS as error:
                self.close()
                if last:
                    raise PolicyError(
                        f"the server at {self._url} ended the connection twice at one "
                        f"observation: {one_line(error)}"
                    ) from None
        if not isinstance(answer, dict):
            raise PolicyError(
                f"the server at {self._url} must answer with a map, got {answer!r:.80}"
            )
        return answer

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def _require_no_extra_frame(self, connection: ClientConnection) -> None:
        """Raise PolicyError if the server has sent a frame in addition to the last answer.

        A ping was sent after the last answer. Its pong arrives after all frames that the server
        had sent before it, so an additional frame has been received by then.
        """
        assert self._pong is not None
        if not self._pong.wait(self._reply_s):
            raise TimeoutError
        try:
            frame = connection.recv(timeout=0)
        except TimeoutError:
            return
        self.close()
        content = one_line(frame) if isinstance(frame, str) else f"{len(frame)} bytes"
        raise PolicyError(
            f"the server at {self._url} sent more than one answer to an observation ({content}): "
            "which observation an answer is for can't be known any more",
            hint="it must answer each frame with one; answers before this error may be wrong too",
        )

    def _read(self, frame: str | bytes) -> Any:
        if isinstance(frame, str):
            self.close()
            raise PolicyError(f"the server at {self._url} refuses: {one_line(frame)}")
        try:
            return unpack(frame)
        except WireError as error:
            self.close()
            raise PolicyError(f"the server at {self._url}: {one_line(error)}") from None


def _ping(connection: ClientConnection) -> threading.Event:
    """Send a ping; return an event that is set when its pong arrives or the connection ends."""
    try:
        return connection.ping(ack_on_close=True)
    except ConnectionClosed:
        ended = threading.Event()
        ended.set()
        return ended


def _limit_sending(connection: ClientConnection, seconds: float) -> None:
    """Set a timeout in seconds for a send that the server does not receive.

    It is set on the socket, because `websockets` has no timeout for sending.
    """
    whole_seconds = int(seconds)
    limit = struct.pack("ll", whole_seconds, int(1e6 * (seconds - whole_seconds)))
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def one_line(text: object) -> str:
    """Return a server's text in one line with control characters escaped.

    A long text, such as a traceback, is shortened to its end, which has the error.
    """
    text = strip_control(" ".join(str(text).split()))
    return text if len(text) <= MAX_TEXT_LENGTH else f"...{text[3 - MAX_TEXT_LENGTH :]}"
