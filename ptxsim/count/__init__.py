"""Counts what a launch asks of the memory system and of the issue slots, and explains the
counts.
"""
