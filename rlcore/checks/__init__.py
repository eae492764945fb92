"""Check fields against each other, before any worker starts.

Each check is one function that takes :class:`rlcore.checks.facts.Facts` and returns sentences "x
must be ..., got ..."; all of them are reported together. The modules are named by subject:
`processes`, `episodes`, `components` (whether they fit each other) and `updates`.
:mod:`rlcore.checks.run` runs them, and :mod:`rlcore.checks.ready` joins them with everything else
that may stop a run from starting.
"""
