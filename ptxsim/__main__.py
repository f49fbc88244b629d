"""`python -m ptxsim`."""

import sys

from .cli import main

sys.exit(main())
