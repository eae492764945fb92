"""The parts of benchmarks/gpu.py, what is measured on one accelerator, and their driver."""
