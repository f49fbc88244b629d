"""`python -m ptxsim`."""

from .cli import command

command()
