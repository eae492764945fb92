"""The version of rlcore, of all its distributions, and that of its public modules."""

__version__ = "0.1.0"
API_VERSION = (0, 4)
"""What a plugin declares as `RLCORE_API`; see docs/api.md."""
