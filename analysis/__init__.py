"""Explaining: tables of measurements in; figures, tables and the paper out.

Nothing here imports the rooms that build and measure. What passes between them are files with a
schema (`contracts/rows.py`), so every figure can be drawn again from archived measurements,
with no GPU.
"""
