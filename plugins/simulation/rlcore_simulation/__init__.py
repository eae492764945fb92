"""Run CPU simulators as a vector env, whatever they simulate.

    env -> fleet -> process | inprocess -> host -> row -> a plugin's Simulator

Rows are spread over processes, observations are in shared memory, and frames are rendered once per
chunk. Simpler meshes for frames are made by `simplify` and kept on disk by `kept_meshes`; `detail`
says what films show then. A plugin brings a :class:`~rlcore_simulation.simulator.Simulator`, a pool
of them and a spec.
Imports numpy only: the process that simulates imports the simulator. No simulator process loads the
virtual environments of simulators (`venvs.py`), the command that creates them (`cli/`) or their
registration with rlcore (`plugin.py`).
"""
