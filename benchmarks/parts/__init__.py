"""What the benchmarks are made of. Each module measures one thing and prints nothing."""
