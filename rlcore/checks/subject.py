"""Define a check, and the list of checks of one subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rlcore.checks.facts import Facts

Check = Callable[[Facts], Iterator[str]]


class Subject(list[Check]):
    """The checks of one subject, in the order of its module."""

    def add(self, function: Check) -> Check:
        """List the check; used as its decorator."""
        self.append(function)
        return function
