"""What the parts of this project agree on: one-line errors, whole files, and typed models of tables
and documents.

Measuring (`experiments`) writes these files and explaining (`analysis`) reads them; neither imports
the other. contracts/recorded.py has every table that is recorded, contracts/declared.py every file
that a person writes.
"""

from contracts import worklogs
from contracts.documents import load_yaml, parse_yaml_value
from contracts.errors import UserError, choose, run_command
from contracts.files import atomic_write, scratch, write_text
from contracts.rehearsals import REHEARSAL, is_rehearsal
from contracts.tables import read_json, read_rows, read_yaml, write_json, write_rows
from contracts.validation import validate

__all__ = [
    "REHEARSAL",
    "UserError",
    "atomic_write",
    "choose",
    "is_rehearsal",
    "load_yaml",
    "parse_yaml_value",
    "read_json",
    "read_rows",
    "read_yaml",
    "run_command",
    "scratch",
    "validate",
    "worklogs",
    "write_json",
    "write_rows",
    "write_text",
]
