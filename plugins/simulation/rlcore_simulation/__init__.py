"""Run CPU simulators of any kind as a vector env.

    env -> fleet -> process | inprocess -> host -> row -> a plugin's Simulator

Rows are distributed over processes, observations are in shared memory, and frames are rendered once
per chunk. `simplify` makes simpler meshes for rendering, `kept_meshes` caches them on disk, and
`detail` defines which geometry videos show. A plugin provides a
:class:`~rlcore_simulation.simulator.Simulator`, a pool of them and a spec.
This package imports numpy only; the simulator is imported by the process that simulates. Simulator
processes do not load the code for virtual environments (`venvs.py`), its command (`cli/`) or the
registration with rlcore (`plugin.py`).
"""
