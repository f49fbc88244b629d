"""The kernel author's loop: one kernel built, checked, emulated and, where there is a GPU, measured; told on one screen
beside the rung that it builds on (`python -m experiments.try_kernel`)."""
