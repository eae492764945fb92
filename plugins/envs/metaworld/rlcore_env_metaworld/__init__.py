"""MetaWorld for rlcore: 50 manipulation tasks of one robot arm, simulated on the CPU.

The modules settings, tasks, cameras, spec and env import no simulator. `simulator` and `pool` do,
and only simulator processes import those.
"""
