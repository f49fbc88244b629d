"""What is wrong with a launch: which accesses are ordered (order.py, flags.py), and which race (the
rest).
"""
