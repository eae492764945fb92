"""CPU simulators as a vector env, whatever they simulate.

    env -> fleet -> process | inprocess -> host -> row -> a plugin's Simulator

Rows are spread over processes, observations lie in shared memory, a chunk is drawn once. A plugin
brings a :class:`~rlcore_simulation.simulator.Simulator`, a pool of them and a spec. Imports numpy
alone: what simulates is imported by the process that simulates.
"""
