"""What the parts of this project agree on: one-line errors, whole files, and typed models of tables
and documents.

Measuring (`experiments`) writes these files and explaining (`analysis`) reads them; neither imports
the other. contracts/rows.py has every table that is recorded, contracts/declared.py every file that
a person writes.
"""

from contracts import worklogs
from contracts.errors import UserError, choose, run_command
from contracts.files import (
    atomic_write,
    load_yaml,
    parse_yaml_value,
    read_json,
    read_rows,
    read_yaml,
    scratch,
    write_json,
    write_rows,
    write_text,
)
from contracts.model import validated
from contracts.rows import REHEARSAL, is_rehearsal

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
    "validated",
    "worklogs",
    "write_json",
    "write_rows",
    "write_text",
]
