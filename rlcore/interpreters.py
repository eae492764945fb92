"""Other Python processes that rlcore starts: how they are started, and what they may import. Light.

`python -m` and `python -c` put the current folder before everything else on the path of modules, so
that a `json.py` which happens to lie there would be run. Ours never look there, unless the user
put it on the path (PYTHONPATH). Knows nothing of what the processes do.
"""

from __future__ import annotations

import os
import sys

# `-P` does the same, from Python 3.11 on; the site modules have been imported by then there too.
_RUN = (
    "import sys; sys.path[:1] = filter(None, sys.path[:1]); sys.argv = sys.argv[1:]; "
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as `python -m` does, by this interpreter."""
    return [sys.executable, "-c", _RUN, module, *arguments]


def environment() -> dict[str, str]:
    """This process's variables, with its path of modules in PYTHONPATH; children of children don't
    look into the current folder either (from Python 3.11 on)."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONSAFEPATH": "1",
    }


def without_current_folder(paths: str) -> str:
    """A PYTHONPATH whose empty entries, which mean the current folder, are left out, and whose
    relative ones mean the folder that they mean here."""
    return os.pathsep.join(os.path.abspath(path) for path in paths.split(os.pathsep) if path)
