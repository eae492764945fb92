"""Ask a policy server over one connection, and reach it again when that breaks. Knows no policy."""

from __future__ import annotations

import os
import time
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.sync.client import ClientConnection, connect

from rlcore.contracts.errors import PolicyError
from rlcore_serve.settings import KEY_VARIABLE
from rlcore_serve.wire import WireError, pack, unpack

AGAIN = 0.5
"""Seconds between two attempts to connect."""
UNAUTHORIZED = 401
BROKEN = (ConnectionClosed, OSError, InvalidHandshake, EOFError)


class Link:
    """A connection to a server, made when it is first used.

    Args:
        url: `ws://HOST:PORT`.
        reconnect: seconds within which a connection must be there, at first and again.
        reply: seconds within which an answer must come.
        most: bytes of an answer.

    Attributes:
        hello: what the server said of itself when the connection was made last.
    """

    def __init__(self, url: str, *, reconnect: float, reply: float, most: int) -> None:
        self._url, self._reconnect, self._reply, self._most = url, reconnect, reply, most
        self._connection: ClientConnection | None = None
        self.hello: dict[Any, Any] = {}

    def open(self) -> None:
        """Connect, and take what the server says of itself.

        Raises:
            PolicyError: it can't be reached in time, asks for another key, or has another protocol.
        """
        key = os.environ.get(KEY_VARIABLE)
        headers = {"Authorization": f"Api-Key {key}"} if key else {}
        until = time.monotonic() + self._reconnect
        while True:
            try:
                self._connection = connect(
                    self._url, compression=None, max_size=self._most, proxy=None,
                    additional_headers=headers, open_timeout=max(1.0, until - time.monotonic()),
                )  # fmt: skip
                hello = self._read(self._connection.recv(timeout=self._reply))
                break
            except InvalidURI as error:
                raise PolicyError(f"actor.model.url: {error}") from None
            except BROKEN as error:
                if isinstance(error, InvalidStatus) and (
                    error.response.status_code == UNAUTHORIZED
                ):
                    raise PolicyError(
                        f"the server at {self._url} asks for another key",
                        hint=f"set {KEY_VARIABLE} in the environment",
                    ) from None
                if time.monotonic() + AGAIN > until:
                    raise PolicyError(
                        f"the server at {self._url} can't be reached within {self._reconnect:g} s "
                        f"(actor.model.reconnect_s): {str(error) or type(error).__name__}",
                        hint="start it, e.g. rlcore serve RUN",
                    ) from None
                time.sleep(AGAIN)
        self.hello = hello if isinstance(hello, dict) else {}

    def ask(self, message: dict[str, Any]) -> dict[Any, Any]:
        """The server's answer. Where the connection breaks, it is asked once more over a new one.

        Raises:
            PolicyError: it refuses the message, or can't be reached, or does not answer in time.
        """
        data = pack(message)
        for last in (False, True):
            if self._connection is None:
                self.open()
            assert self._connection is not None
            try:
                self._connection.send(data)
                answer = self._read(self._connection.recv(timeout=self._reply))
                break
            except TimeoutError:
                self.close()
                raise PolicyError(
                    f"the server at {self._url} did not answer within {self._reply:g} s",
                    hint="actor.model.reply_s",
                ) from None
            except BROKEN as error:
                self.close()
                if last:
                    raise PolicyError(
                        f"the server at {self._url} ended the connection twice at one "
                        f"observation: {error}"
                    ) from None
        if not isinstance(answer, dict):
            raise PolicyError(
                f"the server at {self._url} must answer with a map, got {answer!r:.80}"
            )
        return answer

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, frame: str | bytes) -> Any:
        if isinstance(frame, str):
            self.close()
            raise PolicyError(f"the server at {self._url} refuses: {frame[:2000].strip()}")
        try:
            return unpack(frame)
        except WireError as error:
            self.close()
            raise PolicyError(f"the server at {self._url}: {error}") from None
