"""Define the version of all rlcore distributions, and the version of the plugin API."""

__version__ = "0.1.0"
API_VERSION = (0, 1)
"""(major, minor), the version that a plugin declares as `RLCORE_API`; see docs/api.md."""
