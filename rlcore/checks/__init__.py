"""Cross-field checks: what no single key can tell, found before any worker starts.

Each check is one function from :class:`rlcore.checks.facts.Facts` to sentences "x must be ..., got
..."; all of them are reported together. A check stands in the module of its subject: `processes`,
`episodes`, `components` (whether they fit each other) or `updates`. What else may
be in the way of a run, and all of it together: :mod:`rlcore.checks.ready`.
"""

from rlcore.checks.run import CHECKS, announce, check, survey

__all__ = ["CHECKS", "announce", "check", "survey"]
