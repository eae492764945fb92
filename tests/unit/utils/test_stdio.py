"""Output without a reader is dropped, and is no error."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from rlcore.cli.main import main
from rlcore.utils.stdio import (
    RAY_LISTENER,
    BrokenPipeTolerantOutput,
    TerminalText,
    escape_output,
    tolerate_broken_output,
)


def test_a_closed_pipe_is_no_error():
    read, write = os.pipe()
    stream = os.fdopen(write, "w", encoding="utf-8")
    out = BrokenPipeTolerantOutput(stream)
    print("first", file=out, flush=True)
    assert os.read(read, 100) == b"first\n"
    os.close(read)
    for _ in range(3):  # the first of these is the one that fails
        print("lost", file=out, flush=True)
    os.write(stream.fileno(), b"a library's word goes nowhere too")
    stream.close()  # nothing is left that could not be written


def test_a_closed_terminal_is_no_error():
    pty = pytest.importorskip("pty")
    main, side = pty.openpty()
    stream = os.fdopen(side, "w", encoding="utf-8")
    out = BrokenPipeTolerantOutput(stream)
    assert out.isatty()
    os.close(main)
    print("lost", file=out, flush=True)  # EIO
    stream.close()


def test_characters_that_the_encoding_lacks_are_replaced():
    read, write = os.pipe()
    with os.fdopen(write, "w", encoding="ascii") as stream:
        print("5 µm", file=BrokenPipeTolerantOutput(stream), flush=True)
    assert os.read(read, 100) == b"5 ?m\n"
    os.close(read)


def test_streams_that_were_closed_at_the_start(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with tolerate_broken_output():
        print("lost")
        assert sys.stdout is not None and not sys.stdout.isatty()
    assert sys.stdout is None


def test_pages_of_a_listener_are_not_printed(capsys):
    with tolerate_broken_output():
        page = threading.Thread(target=print, args=("a page",), name=RAY_LISTENER)
        page.start()
        page.join()
        print("a word")
    assert capsys.readouterr().out == "a word\n"


def test_control_characters_are_escaped_and_own_colours_are_not(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # put back afterwards
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    escape_output()
    escape_output()  # once is enough
    print("a\x1b[2Kb", file=sys.stderr)
    sys.stdout.writelines(["\x1b]0;c\x07\n", TerminalText("\x1b[1mours\x1b[0m\n")])
    with tolerate_broken_output():
        print("d\x9bm")
        sys.stdout.write(TerminalText("\x1b[32mgreen"))
    shown = capsys.readouterr()
    assert shown.err == "a\\x1b[2Kb\n"
    assert shown.out == "\\x1b]0;c\\x07\n\x1b[1mours\x1b[0m\nd\\x9bm\n\x1b[32mgreen"


@pytest.mark.parametrize("closed", [True, False])
def test_streams_that_an_env_closes_or_removes(tmp_path, monkeypatch, closed):
    monkeypatch.setattr(sys, "stdout", (tmp_path / "out").open("w", encoding="utf-8"))
    monkeypatch.setattr(sys, "stderr", (tmp_path / "err").open("w", encoding="utf-8"))
    with tolerate_broken_output():
        print("a word")
        if closed:
            sys.stdout.close()
            sys.stderr.close()
        else:
            sys.stdout = sys.stderr = None
        print("lost")
    assert (tmp_path / "out").read_text(encoding="utf-8") == "a word\n"
    if closed:
        assert main(["resume", str(tmp_path / "gone")]) == 2
    sys.stdout.close()
    sys.stderr.close()
