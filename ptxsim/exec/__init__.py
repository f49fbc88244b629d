"""Runs CUDA programs as they are, on a machine without a GPU or a driver: `ptxsim exec ./program`.

Stand-ins for libcuda, libcudart and libcublas (`standins/`, C++, built at first use) are put first
on the program's library path. They keep device memory in pages that the program shares with an
emulator process, and send that each launch over a Unix socket. One process supervises: it starts
the program, forks an emulator for each process that uses CUDA, and reports at the end.

The emulator (`emulator.py`) hands each message to the subject that answers it: `allocations.py`,
`modules.py`, `launches.py` (one launch: `emulation.py`), `host_order.py`, `blas.py`. What they have
to say goes through `reporter.py`.
"""
