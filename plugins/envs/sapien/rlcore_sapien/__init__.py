"""What envs on SAPIEN share. Light: SAPIEN itself may be in another interpreter."""
