"""What runs ptxsim on the catalogue's kernels: one process predicts the counters of some kernels,
bounds their cycles, derives the widths of their shared accesses and records those that pictures
show (`python -m experiments.emulation`)."""

RESULTS = "results"  # folder of what it computed, VARIANT.npz, kept for the comparison with a GPU
LENS = "lens"  # folder of VARIANT.json, each a kernel side by side with its costs
