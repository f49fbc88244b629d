"""The parts of the machine: memory, threads, barriers, copies under way, and arithmetic as the
hardware does it.
"""
