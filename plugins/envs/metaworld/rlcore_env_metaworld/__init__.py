"""MetaWorld for rlcore: 50 manipulation tasks of one robot arm, simulated on the CPU.

What is light (settings, tasks, spec, gl) imports no simulator; `simulator` and `render` do, and
are only imported by the process that simulates.
"""
