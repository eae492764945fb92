"""LIBERO for rlcore: 130 tasks of a Panda arm on tables and floors, simulated on the CPU.

The light modules (settings, suites, spec, protocol, installed, assets, doctor) import no simulator;
only the process that simulates imports robosuite and LIBERO, both quietly (`quiet`).
"""
