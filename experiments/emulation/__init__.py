"""What runs ptxsim on the catalogue's kernels: one process a kernel predicts its counters, bounds its cycles, derives
the widths of its shared accesses and records those that pictures show (`python -m experiments.emulation`)."""

RESULTS = "results.npz"  # what it computed for a kernel, kept for the comparison with a GPU: in that kernel's folder
