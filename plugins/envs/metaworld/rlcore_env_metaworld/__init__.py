"""MetaWorld for rlcore: 50 manipulation tasks of one robot arm, simulated on the CPU.

The light modules (settings, tasks, spec, gl) import no simulator; `simulator` and `render` do, and
only the process that simulates imports them.
"""
