"""What the tests of damaged input share: a command gets no further than its error."""

from __future__ import annotations

from rlcore.contracts.errors import UserError

LONGEST = 1500  # characters of an error that one still reads


class Started(BaseException):
    """A command got as far as a run folder or workers. Not an error: a plugin's would be told."""


def refuse(*arguments: object) -> None:
    raise Started


def the_error(code: int, said) -> str:  # type: ignore[no-untyped-def]
    """The one error in what a command wrote (`capsys.readouterr()`); it gave the exit code."""
    assert code == UserError.exit_code, said
    text: str = said.err[said.err.index("error: ") :]
    assert text.count("error: ") == 1, said.err
    assert "Traceback" not in text and len(text) < LONGEST, text
    return text
