"""Check the keys of a configuration against each other, before any worker starts.

Each check is a function that takes :class:`rlcore.checks.facts.Facts` and yields sentences of the
form "x must be ..., got ..."; the sentences of all checks are reported together. Each module has
one subject: `processes`, `episodes`, `components` (whether env, policy and algorithm fit each
other) and `updates`. :mod:`rlcore.checks.run` runs the checks, and :mod:`rlcore.checks.ready` adds
all other findings that can stop a run from starting.
"""
