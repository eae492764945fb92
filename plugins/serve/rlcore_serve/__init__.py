"""Serve a policy with openpi's websocket protocol, and evaluate a policy behind such a server."""
