"""Runs a program: lays it out, lowers its instructions to steps, and schedules its threads."""
