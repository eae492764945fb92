"""Parse the arguments of a command, and report a mistake in one sentence. Light."""

from __future__ import annotations

import argparse
from typing import NoReturn

from rlcore.contracts.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """Argument parser that raises a ConfigError on a mistake, without printing or exiting."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint=f"{self.prog} --help")
