"""Compose the configuration: :func:`rlcore.config.compose.compose` gives the frozen, typed
:class:`rlcore.config.schema.RunConfig`."""
