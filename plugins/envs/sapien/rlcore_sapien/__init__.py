"""Shared code of the env plugins on SAPIEN.

Importing it does not import SAPIEN, which may be installed in another interpreter.
"""
