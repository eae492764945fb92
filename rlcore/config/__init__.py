"""Compose the configuration of a run.

:func:`rlcore.config.compose.compose` returns the frozen, typed
:class:`rlcore.config.schema.RunConfig`.
"""
