"""What is measured: the kernels' sources and their catalogue."""
