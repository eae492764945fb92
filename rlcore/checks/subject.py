"""Define the type of a check, and the list of checks of one subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rlcore.checks.facts import Facts

Check = Callable[[Facts], Iterator[str]]


class Subject(list[Check]):
    """The checks of one subject, in the order in which its module defines them."""

    def add(self, function: Check) -> Check:
        """Append the check to the list, and return it; used as a decorator."""
        self.append(function)
        return function
