"""What the rooms of this project agree on: one-line errors, whole files, and tables with a schema.

Measuring (`experiments`) writes these files and explaining (`analysis`) reads them; neither imports the other.
"""

from contracts import worklogs
from contracts.errors import UserError, choose, run_command
from contracts.files import atomic_write, write_text
from contracts.leftovers import scratch, sweep
from contracts.schema_files import interval_columns, schema, validate
from contracts.tables import read_json, read_rows, read_yaml, write_json, write_rows
from contracts.yaml_files import load_yaml, parse_yaml_value

__all__ = [
    "UserError",
    "atomic_write",
    "choose",
    "interval_columns",
    "load_yaml",
    "parse_yaml_value",
    "read_json",
    "read_rows",
    "read_yaml",
    "run_command",
    "schema",
    "scratch",
    "sweep",
    "validate",
    "worklogs",
    "write_json",
    "write_rows",
    "write_text",
]
