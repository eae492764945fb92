"""Evaluate one policy under all settings of a protocol."""
