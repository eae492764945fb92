"""Use any gymnasium env in rlcore by its id."""
