"""The π0 / π0.5 network, under openpi's parameter names."""
