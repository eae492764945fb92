"""Drives a checkout of RoboTwin, in the process that simulates.

    pool -> simulator -> task (RoboTwin's own class of a task)

`modules` makes RoboTwin's code importable, `patches` applies to SAPIEN and mplib the two edits that
RoboTwin's installation makes in their files. Nothing on the disk is changed.
"""
