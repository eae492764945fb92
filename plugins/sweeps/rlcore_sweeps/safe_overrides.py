"""Decide which overrides of Hydra's own keys may come from a file: a recipe or a sweep's folder.

Overrides that the user types may set any key of Hydra, and so load any code. Files may come from
other people, so only a few keys are accepted from them, with values that Hydra neither imports nor
looks up.

    hydra/launcher=NAME  hydra/sweeper=NAME             an option of Hydra or of an installed plugin
    hydra.launcher.KEY=VALUE  hydra.sweeper.KEY=VALUE   a number, true, false, null, auto, or a list
    hydra.sweeper.direction=NAME                        the same for sampler and pruner
    hydra.sweeper.pruner_options.KEY=NAME               the same for sampler_options
    hydra.sweeper.params.KEY=TEXT                       KEY of a run's config, never one of Hydra's
    hydra.sweep.dir=TEXT  hydra.sweep.subdir=TEXT       may interpolate ${hydra...} only

:class:`rlcore_sweeps.loader.SweepLoader` checks every override that it passes to Hydra and that the
user did not type. Recipes and sweep folders are checked earlier, so that the error names the file.
"""

from __future__ import annotations

import re

_PLAIN = r"(?:-?\.?\d[\d_.e+-]*|-?inf|nan|true|false|null|auto)"
_LIST = rf"\[\s*(?:{_PLAIN}(?:\s*,\s*{_PLAIN})*)?\s*\]"
_NAME = r"(?:\w+|'\w+'|\"\w+\")"
_KEY = r"(?:\.[a-z]\w*)+"  # names such as _target_ and _args_ say what Hydra calls
_PARAM = r"\.[+~]*(?!hydra\b)[a-z]\w*(?:[./@][a-z*]\w*)*"
_SAFE = re.compile(
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
SAFE_OVERRIDES = (
    "hydra/launcher=NAME and hydra/sweeper=NAME of what is installed, numbers, true, false and "
    "null below hydra.launcher and hydra.sweeper, and what is searched below hydra.sweeper.params"
)
"""Description of the accepted overrides, for error messages."""


def is_safe(word: str) -> bool:
    """Return whether an override of Hydra's keys is safe to take from a file: it loads no code."""
    return _SAFE.fullmatch(word) is not None
