"""What runs ptxsim on the catalogue's kernels: one process a kernel predicts its counters, bounds its cycles, tells the
widths of its shared accesses and records those that pictures show (`python -m experiments.emulation`)."""
