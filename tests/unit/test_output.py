"""Output that nobody reads any more is dropped, and nothing is lost over it."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from rlcore.output import RAY_LISTENER, LastingOutput, lasting


def test_a_reader_that_is_gone_is_no_error():
    read, write = os.pipe()
    stream = os.fdopen(write, "w", encoding="utf-8")
    out = LastingOutput(stream)
    print("first", file=out, flush=True)
    assert os.read(read, 100) == b"first\n"
    os.close(read)
    for _ in range(3):  # the first of these is the one that fails
        print("lost", file=out, flush=True)
    os.write(stream.fileno(), b"a library's word goes nowhere too")
    stream.close()  # nothing is left that could not be written


def test_a_terminal_that_is_gone_is_no_error():
    pty = pytest.importorskip("pty")
    main, side = pty.openpty()
    stream = os.fdopen(side, "w", encoding="utf-8")
    out = LastingOutput(stream)
    assert out.isatty()
    os.close(main)
    print("lost", file=out, flush=True)  # EIO
    stream.close()


def test_a_letter_the_terminal_lacks_is_replaced():
    read, write = os.pipe()
    with os.fdopen(write, "w", encoding="ascii") as stream:
        print("5 µm", file=LastingOutput(stream), flush=True)
    assert os.read(read, 100) == b"5 ?m\n"
    os.close(read)


def test_streams_that_were_closed_at_the_start(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with lasting():
        print("lost")
        assert sys.stdout is not None and not sys.stdout.isatty()
    assert sys.stdout is None


def test_pages_of_a_listener_are_not_printed(capsys):
    with lasting():
        page = threading.Thread(target=print, args=("a page",), name=RAY_LISTENER)
        page.start()
        page.join()
        print("a word")
    assert capsys.readouterr().out == "a word\n"
