"""Check whether a command behaves as rlcore's own commands do.

class TestMyCommand(CommandConformance):
    name = "my_command"
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, ClassVar

from rlcore.contracts.errors import UserError
from rlcore.contracts.specs import Kind
from rlcore.plugins.import_target import load_target
from rlcore_testing.conformance.base import Conformance, require


class CommandConformance(Conformance):
    """Checks of a command. Set `name`.

    Attributes:
        arguments: arguments with which the command succeeds; None: not known.
    """

    kind: ClassVar[Kind] = "command"
    light = ("target",)  # so that its --help comes at once
    arguments: ClassVar[Sequence[str] | None] = None

    def run(self, *words: str) -> tuple[Any, str]:
        """Run the command; return its exit code and what it printed."""
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(io.StringIO()):
            try:
                code = load_target(self.component().target)(list(words))
            except SystemExit as error:  # raised by argparse
                code = error.code or 0
        return code, printed.getvalue()

    def test_help_says_what_it_does(self) -> None:
        code, text = self.run("--help")
        hint = "rlcore.cli.parser.Parser has a --help"
        require("(exit code, printed text) of --help", (code, bool(text.strip())), (0, True), hint)

    def test_a_wrong_word_is_the_user_s_error(self) -> None:
        try:
            code, _ = self.run("--no-such-flag")
        except UserError:
            return
        except Exception as error:
            code = error
        assert isinstance(code, int) and code, (
            f"an unknown flag gave {code!r}, expected a UserError or the exit code of an error"
            "\n  hint: read arguments with rlcore.cli.parser.Parser"
        )

    def test_it_returns_an_exit_code(self) -> None:
        if self.arguments is None:
            return
        code, _ = self.run(*self.arguments)
        require("the type of what it returned", type(code), int, "return 0")
