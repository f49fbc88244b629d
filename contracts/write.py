"""A JSON document from standard input, written whole and checked by its schema.

python -m contracts.write inputs results/inputs.json < DOCUMENT
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from contracts.errors import UserError, run_command
from contracts.tables import write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", metavar="KIND", help="its schema, contracts/schemas/KIND.schema.yaml")
    parser.add_argument("out", type=Path, metavar="FILE.json")
    args = parser.parse_args()
    try:
        document = json.load(sys.stdin)
    except json.JSONDecodeError as error:
        raise UserError(f"standard input: not JSON: {error}") from None
    write_json(args.out, args.kind, document)


if __name__ == "__main__":
    run_command(main)
