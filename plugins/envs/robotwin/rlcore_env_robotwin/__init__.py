"""RoboTwin 2.0 for rlcore: 46 tasks of two arms at a table.

The light modules (tasks, settings, spec, seeds, checkout, doctor, protocol) import no simulator.
RoboTwin needs numpy 1 and planners that exclude other envs, so its simulators run under an
interpreter of their own; what runs there (`driver`, `stand_ins`, `frames`) imports numpy, the
simulation library and the simulator only.
"""
