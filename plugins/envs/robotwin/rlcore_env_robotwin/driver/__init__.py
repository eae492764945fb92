"""Run RoboTwin's own code from a checkout, in the simulators' process.

    pool -> simulator -> task (RoboTwin's own class of a task)

`modules` makes RoboTwin's code importable, `patches` applies to SAPIEN and mplib the two edits that
RoboTwin's installation makes in their files, in memory. No file is changed.
"""
