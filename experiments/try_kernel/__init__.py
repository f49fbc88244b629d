"""The kernel author's loop: one kernel built, checked, emulated and, where there is a GPU,
measured; reported on one screen next to the rung that it builds on (`python -m
experiments.try_kernel`)."""
