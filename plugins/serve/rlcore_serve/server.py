"""Serve clients with openpi's protocol, one coroutine per connection.

client connects      -> binary frame: the server's metadata
binary frame, a map  -> binary frame: {"actions": float32 [C, A], "server_timing": {...}}
anything wrong       -> text frame: one sentence; closed with 1011
GET /healthz         -> 200, "OK"

A slow client does not delay the others. `serve.message_s` is the timeout of its handshake, of each
message and of each answer. A client that has had no answer by then is disconnected when another
client needs its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import http
import itertools
import logging
import math
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame
from websockets.http11 import Request, Response

from rlcore.contracts.errors import UserError
from rlcore.contracts.protocols import Observation
from rlcore_serve.batching import Batcher
from rlcore_serve.platforms import ObservationError, Platform, key_of
from rlcore_serve.settings import ServeConfig
from rlcore_serve.wire import WireError, pack, unpack

INTERNAL_ERROR, GOING_AWAY, TRY_AGAIN_LATER, MESSAGE_TOO_BIG = 1011, 1001, 1013, 1009
TOO_SLOW = 1008
CONTROL = 0x8
"""Bit of a frame's opcode that is set for pings, pongs and closes, and unset for messages' data."""
DRAIN_TIMEOUT_S = 30.0  # on SIGTERM, longest time to answer observations that have arrived
CLOSE_TIMEOUT_S = 2.0
"""Seconds to wait for a client to confirm that its connection is closed."""
EVAL_PHASE = ("eval", 0)
"""Phase and update in keys of evaluations, inserted after the seed of a client's key, so that the
policy's draws are those of an evaluation."""
WARM_UP = ("warm-up",)
"""Key of the random draws of the forward pass before the first client's."""
MAX_ERROR_LENGTH = 2000
logger = logging.getLogger("rlcore_serve")
logger.addHandler(logging.NullHandler())
logger.propagate = False


class TooSlowError(Exception):
    """A client does not receive its answer within `serve.message_s`."""


class TimedConnection(ServerConnection):
    """A connection with a timeout for receiving a message, in one frame or several.

    Args:
        timeout_s: timeout in seconds from a message's first byte to its last. It does not expire
            while the server itself pauses reading, because earlier messages are unanswered.
        on_slow: called with this connection when the timeout expires.
    """

    def __init__(
        self,
        *args: Any,
        timeout_s: float,
        on_slow: Callable[[TimedConnection], None],
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._timeout_s = timeout_s
        self._on_slow = on_slow
        self._timer: asyncio.TimerHandle | None = None
        self._in_message = False

    def data_received(self, data: bytes) -> None:
        if self.request is not None and self._timer is None:
            self._timer = self.loop.call_later(self._timeout_s, self._on_timeout)
        super().data_received(data)

    def process_event(self, event: Any) -> None:
        super().process_event(event)
        if isinstance(event, Frame) and not event.opcode & CONTROL:
            self._in_message = not event.fin
        if not self._in_message:
            self._cancel_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        super().connection_lost(exc)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        if self.transport.is_reading():
            self._on_slow(self)
        else:
            self._timer = self.loop.call_later(self._timeout_s, self._on_timeout)


class PolicyServer:
    """A server of one policy at one address.

    Args:
        settings: settings of the server.
        platform: names and shapes of the observations.
        metadata: metadata that each client gets on connecting.
        make_batcher: builds the batcher, which :meth:`run` runs, from a function that returns the
            number of connected clients.
        key: key that clients must send; None if they need none.
        print_line: prints a line.
        warm_up: observation of one row on which the policy acts once before the server listens, so
            that no client waits for what a first forward pass prepares; None: it does not.
    """

    def __init__(
        self,
        settings: ServeConfig,
        platform: Platform,
        metadata: Mapping[str, Any],
        make_batcher: Callable[[Callable[[], int]], Batcher],
        key: str | None = None,
        print_line: Callable[[str], None] = print,
        warm_up: Observation | None = None,
    ) -> None:
        self._warm_up = warm_up
        self._settings = settings
        self._platform = platform
        self._key = key
        self._print_line = print_line
        self._metadata = pack(dict(metadata))
        self._batcher = make_batcher(lambda: len(self._clients))
        # time at which each client connected, or inf once it has had an answer
        self._clients: dict[ServerConnection, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count()
        self._busy = 0
        self._stop: asyncio.Event | None = None

    async def run(self, ready: Callable[[int], None] = lambda port: None) -> None:
        """Serve until SIGTERM, SIGINT or :meth:`stop`; then answer pending observations and close.

        Args:
            ready: called with the port when the server listens.

        Raises:
            OSError: the address can't be used.
            StuckError: a forward pass of the policy timed out; waiting clients get the error.
        """
        self._stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        answering = loop.create_task(self._batcher.run())
        answering.add_done_callback(lambda _: self.stop())
        if self._warm_up is not None:
            try:
                await self._batcher.submit(self._warm_up, WARM_UP)
            except BaseException:
                answering.cancel()
                raise
        timeout_s = self._settings.message_s
        async with serve(
            self._serve_client,
            self._settings.host,
            self._settings.port,
            process_request=self._admit,
            create_connection=partial(  # type: ignore[arg-type]  # it is only called
                TimedConnection, timeout_s=timeout_s, on_slow=self._disconnect_slow
            ),
            open_timeout=timeout_s,
            close_timeout=CLOSE_TIMEOUT_S,
            compression=None,
            max_size=self._settings.max_message_bytes,
            max_queue=2,
            origins=[None],  # refuse web pages: browsers send the header Origin
            logger=logger,
            server_header=None,
        ) as server:
            ready(server.sockets[0].getsockname()[1])
            try:
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.add_signal_handler(number, self._stop.set)
            except (ValueError, RuntimeError, NotImplementedError):
                pass  # signals need the main thread; in another one the caller uses stop()
            await self._stop.wait()
            await self._drain(server)
            answering.cancel()  # ends the clients' pending requests, which the server waits for
        with contextlib.suppress(asyncio.CancelledError):
            await answering  # raises the error that ended it, if any

    def stop(self) -> None:
        """Let :meth:`run` drain and return. Must be called in the event loop's thread."""
        assert self._stop is not None
        self._stop.set()

    async def _drain(self, server: Server) -> None:
        server.close(close_connections=False)
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        if self._busy:
            self._print_line(f"answering {self._busy} observations, then closing")
        while self._busy and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        await asyncio.gather(
            *(
                client.close(GOING_AWAY, "the server is shutting down")
                for client in list(self._clients)
            )
        )

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return the HTTP response to a health check or a refused client; None to admit it."""
        if request.path == "/healthz":
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        if self._key is not None:
            authorization = request.headers.get_all("Authorization")
            expected = f"Api-Key {self._key}".encode()
            sent = b""
            if len(authorization) == 1:
                sent = authorization[0].encode("utf-8", "surrogateescape")
            if not hmac.compare_digest(sent, expected):
                return connection.respond(
                    http.HTTPStatus.UNAUTHORIZED, "send the header Authorization: Api-Key KEY\n"
                )
        if not self._has_room():
            return connection.respond(
                http.HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self._settings.max_clients} clients are connected, and no more are admitted\n",
            )
        return None

    async def _serve_client(self, client: ServerConnection) -> None:
        number = next(self._numbers)
        if not self._has_room():  # other clients connected since _admit
            await client.close(TRY_AGAIN_LATER, "no more clients are admitted")
            return
        self._clients[client] = time.monotonic()
        try:
            await self._send(client, self._metadata)
            await self._answer_messages(client, number)
        except ConnectionClosed as error:
            if error.sent is not None and error.sent.code == MESSAGE_TOO_BIG:
                self._print_line(f"client {number}: {error.sent.reason} (serve.max_message_mb)")
            elif error.sent is not None and error.sent.code == TOO_SLOW:
                self._print_line(f"client {number}: {error.sent.reason}")
        except TooSlowError:
            client.transport.abort()
            limit = f"{self._settings.message_s:g} s (serve.message_s)"
            self._print_line(f"client {number}: has not received its answer within {limit}")
        finally:
            self._clients.pop(client, None)

    def _has_room(self) -> bool:
        """Return whether another client can be admitted.

        If the server is full, the earliest connected of the clients that have had no answer yet is
        disconnected, provided that it connected at least `serve.message_s` ago.
        """
        if len(self._clients) < self._settings.max_clients:
            return True
        client, since = min(self._clients.items(), key=lambda entry: entry[1])
        if time.monotonic() - since < self._settings.message_s:
            return False
        del self._clients[client]
        self._start(
            client.close(
                TRY_AGAIN_LATER, "it sent no observation, and another client needs its place"
            )
        )
        return True

    def _disconnect_slow(self, client: ServerConnection) -> None:
        self._clients.pop(client, None)
        limit = f"{self._settings.message_s:g} s (serve.message_s)"
        self._start(client.close(TOO_SLOW, f"a message was not received completely within {limit}"))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the event loop holds only a weak reference
        task.add_done_callback(self._tasks.discard)

    async def _send(self, client: ServerConnection, data: str | bytes) -> None:
        try:
            async with asyncio.timeout(self._settings.message_s):
                await client.send(data)
        except TimeoutError:
            raise TooSlowError from None

    async def _answer_messages(self, client: ServerConnection, number: int) -> None:
        previous_ms: float | None = None
        assert self._stop is not None
        for request in itertools.count():
            message = await client.recv()
            started = time.perf_counter()
            self._busy += 1
            try:
                reply = await self._reply(message, (number, request))
                if previous_ms is not None:
                    reply["server_timing"]["prev_total_ms"] = previous_ms
                await self._send(client, pack(reply))
            except (ConnectionClosed, TooSlowError):
                raise
            except Exception as error:  # errors of the policy too: other clients are still served
                text = _client_message(error)
                self._print_line(f"client {number}: {text}")
                await self._send(client, text)
                await client.close(INTERNAL_ERROR, "")
                return
            finally:
                self._busy -= 1
            if client in self._clients:
                self._clients[client] = math.inf
            previous_ms = 1e3 * (time.perf_counter() - started)
            if self._stop.is_set():
                await client.close(GOING_AWAY, "the server is shutting down")
                return

    async def _reply(self, message: str | bytes, request_number: tuple[int, int]) -> dict[str, Any]:
        started = time.perf_counter()
        if isinstance(message, str):
            raise ObservationError("an observation is a binary frame, got a text frame")
        message_map = unpack(message)
        observation = self._platform.to_observation(message_map)
        client_key = key_of(message_map)
        if client_key is None:
            key: tuple[int | str, ...] = ("serve", self._settings.seed, *request_number)
        else:
            key = (client_key[0], *EVAL_PHASE, *client_key[1:])
        read_ms = 1e3 * (time.perf_counter() - started)
        answer = await self._batcher.submit(observation, key)
        timing = {
            "infer_ms": answer.infer_ms,
            "wait_ms": answer.wait_ms,
            "read_ms": read_ms,
            "batch": answer.batch,
        }
        return {"actions": answer.actions, "server_timing": timing}


def _client_message(error: Exception) -> str:
    """Return the message for the client on an error, in one line and without traceback."""
    if isinstance(error, (WireError, ObservationError)):
        text = str(error)
    elif isinstance(error, UserError):
        text = error.message
    else:
        text = f"the policy failed: {type(error).__name__}: {error}"
    return " ".join(text.split())[:MAX_ERROR_LENGTH]
