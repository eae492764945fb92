"""Say which words on Hydra may come from a file: a recipe, or the folder of a sweep.

What the user types may name any key of Hydra, and so load any code. Files from elsewhere are data:
of them a few keys are taken, with values that Hydra neither imports nor looks up.

    hydra/launcher=NAME  hydra/sweeper=NAME             an option of Hydra or of an installed plugin
    hydra.launcher.KEY=VALUE  hydra.sweeper.KEY=VALUE   a number, true, false, null, auto, or a list
    hydra.sweeper.direction=NAME                        likewise sampler and pruner
    hydra.sweeper.pruner_options.KEY=NAME               likewise sampler_options
    hydra.sweeper.params.KEY=TEXT                       KEY of a run, which is never Hydra's
    hydra.sweep.dir=TEXT  hydra.sweep.subdir=TEXT       with ${hydra...} in it

:class:`rlcore_sweeps.loader.SweepLoader` asks about every word that it hands to Hydra, wherever it
comes from; recipes and folders of sweeps are asked about earlier, so that an error names the file.
"""

from __future__ import annotations

import re

_PLAIN = r"(?:-?\.?\d[\d_.e+-]*|-?inf|nan|true|false|null|auto)"
_LIST = rf"\[\s*(?:{_PLAIN}(?:\s*,\s*{_PLAIN})*)?\s*\]"
_NAME = r"(?:\w+|'\w+'|\"\w+\")"
_KEY = r"(?:\.[a-z]\w*)+"  # names such as _target_ and _args_ say what Hydra calls
_PARAM = r"\.[+~]*(?!hydra\b)[a-z]\w*(?:[./@][a-z*]\w*)*"
_ADMITTED = re.compile(
    r"hydra/(?:launcher|sweeper)=\w+"
    r"|\+{0,2}(?:"
    rf"hydra\.(?:launcher|sweeper){_KEY}=(?:{_PLAIN}|{_LIST})"
    rf"|hydra\.sweeper\.(?:direction|sampler|pruner)={_NAME}"
    rf"|hydra\.sweeper\.(?:sampler|pruner)_options{_KEY}={_NAME}"
    rf"|hydra\.sweeper\.params{_PARAM}=(?:(?!_target_)[^${{}}])*"
    r"|hydra\.sweep\.(?:dir|subdir)=(?:[^$]|\$\{hydra\.)*"
    r")",
    re.IGNORECASE,
)
WHICH = (
    "hydra/launcher=NAME and hydra/sweeper=NAME of what is installed, numbers, true, false and "
    "null below hydra.launcher and hydra.sweeper, and what is searched below hydra.sweeper.params"
)
"""What is admitted, for messages."""


def is_admitted(word: str) -> bool:
    """Check whether a word on Hydra loads no code, wherever it comes from."""
    return _ADMITTED.fullmatch(word) is not None
