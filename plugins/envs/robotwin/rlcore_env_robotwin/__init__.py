"""RoboTwin 2.0 for rlcore: 46 tasks of two arms at a table.

The modules tasks, settings, spec, seeds, checkout, doctor and protocol import no simulator.
RoboTwin needs numpy 1 and planners that conflict with other envs, so its simulators run under a
separate interpreter. The modules that run there (`driver`, `frames`) import only
numpy, the simulation library and the simulator.
"""
