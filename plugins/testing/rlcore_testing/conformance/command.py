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
from rlcore_testing.conformance.base import HEAVY, Conformance, Deviation, Finding, check, require


class CommandConformance(Conformance):
    """Checks of a command. Set `name`.

    Attributes:
        arguments: arguments with which the command succeeds; None: not known.
    """

    kind: ClassVar[Kind] = "command"
    arguments: ClassVar[Sequence[str] | None] = None
    test_every_key_of_its_settings_has_a_help_text = None  # type: ignore[assignment]  # it has none

    def said(self, words: Sequence[str]) -> tuple[Any, str]:
        """Run the command; return its exit code and what it printed."""
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            try:
                code = load_target(self.component().target)(list(words))
            except SystemExit as error:  # raised by argparse
                code = error.code or 0
        return code, out.getvalue()

    def test_help_says_what_it_does(self) -> None:
        code, text = self.said(["--help"])
        require(code == 0 and bool(text.strip()), f"--help gave exit code {code!r} and {text!r}, "
                "expected 0 and a text", hint="rlcore.cli.parser.Parser has a --help")  # fmt: skip

    def test_a_wrong_word_is_the_user_s_error(self) -> None:
        try:
            code, _ = self.said(["--no-such-flag"])
        except UserError:
            return
        except Exception as error:
            raise Deviation(
                f"an unknown flag raised {type(error).__name__}: {error}, expected a UserError",
                hint="read arguments with rlcore.cli.parser.Parser",
            ) from error
        require(code not in (0, None), f"an unknown flag gave exit code {code!r}, expected an "
                "error", hint="read arguments with rlcore.cli.parser.Parser")  # fmt: skip

    def test_it_returns_an_exit_code(self) -> None:
        if self.arguments is None:
            return
        code, _ = self.said(self.arguments)
        require(type(code) is int, f"it returned {code!r}, expected an int", hint="return 0")

    def test_importing_it_loads_nothing_heavy(self) -> None:
        module = self.component().target.partition(":")[0]
        loaded = self.loaded_by(f"import {module}", HEAVY)
        require(not loaded, f"importing {module} loads {', '.join(loaded)}, so its --help waits",
                hint="import them inside the function that needs them")  # fmt: skip


def check_command(name: str, **settings: Any) -> list[Finding]:
    """Return the contract violations of command `name`. A command has no settings."""
    return check(CommandConformance, name, settings)
