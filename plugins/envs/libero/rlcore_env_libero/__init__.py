"""LIBERO for rlcore: 130 tasks of a Panda arm on tables and floors, simulated on the CPU.

The modules settings, suites, spec, protocol, installed, assets and doctor import no simulator. Only
simulator processes import robosuite and LIBERO, through `quiet`, which suppresses their output.
"""
