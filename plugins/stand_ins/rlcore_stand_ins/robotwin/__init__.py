"""A scene of our own with RoboTwin's box-only tasks: its rules and its contract, not its robots.

Everything is a primitive shape. `arm` describes the robot, `tasks` the starts and what solves them,
`scene` puts both into SAPIEN, `motion` carries out chunks, `expert` plans them with mplib.
"""
