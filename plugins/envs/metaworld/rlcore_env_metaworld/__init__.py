"""MetaWorld for rlcore: 50 manipulation tasks of one robot arm, simulated on the CPU.

The light modules (settings, tasks, cameras, spec, env) import no simulator; `simulator` and `pool`
do, and only the process that simulates imports them.
"""
