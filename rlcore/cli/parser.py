"""The arguments of a verb: what is wrong with them is one sentence, as everywhere. Light."""

from __future__ import annotations

import argparse
from typing import NoReturn

from rlcore.contracts.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """Its errors are ours: no usage before them, and no exit."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint=f"{self.prog} --help")
