"""What a claim's expression may ask of one machine's tables.

Each function gives an estimate (a value and its interval), a name or sizes. Its docstring's first line is what
`python -m analysis.claims.judge --functions` prints. Problems are square: n = m = k.

Intervals: of times and shares the 95% bootstrap interval of the median; of the SM clock the 5th to 95th percentile over
samples; of watts and work per joule all windows of a variant at a size. Counters, resources and temperatures are single
readings and stand as exact; what is derived from times has the interval of the time alone.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

from analysis.claims import estimates
from analysis.claims.estimates import Estimate, Truth, Undefined
from analysis.claims.machine_tables import Missing
from analysis.claims.vocabulary_counts import Counts
from analysis.claims.vocabulary_times import Times
from contracts import UserError, choose, schema


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with what it gave for the same arguments kept: 1, 1.0 and true are not the same."""
    known: dict[Any, Any] = {}

    @functools.wraps(function)
    def looked_up(*values: Any, **named: Any) -> Any:
        key = tuple((name, type(value), value) for name, value in (*enumerate(values), *named.items()))
        try:
            return known[key]
        except KeyError:
            known[key] = found = function(*values, **named)
            return found
        except TypeError:  # a list is no key
            return function(*values, **named)

    return looked_up


class Vocabulary(Times, Counts):
    """All functions, for one machine."""

    @classmethod
    def methods(cls) -> dict[str, Callable[..., Any]]:
        """The functions by the name that an expression calls them by; a name of Python's has an underscore here."""
        of_class = [vars(part).items() for part in (Times, Counts, cls)]
        public = {n: value for part in of_class for n, value in part if inspect.isfunction(value) and n[0] != "_"}
        return {name.rstrip("_"): value for name, value in public.items() if name != "functions"}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The same, of this machine; each looks a thing up once, however often claims ask for it."""
        return {name: _once(getattr(self, function.__name__)) for name, function in self.methods().items()}

    def machine(self, key: str) -> Estimate | str:
        """An entry of machine.json, its ceilings' too: sm_count, l2_bytes, fp32_fma_tflops, dram_copy_gb_per_s, ..."""
        found = self._machine.measured.machine
        known = {**schema("machine")["properties"], **schema("machine")["properties"]["ceilings"]["properties"]}
        known.pop("ceilings")
        choose(known, key, "key", "machine.json")
        value = (found | found["ceilings"]).get(key)
        if value is None:
            raise Missing(f"machine.json has no {key}")
        return value if isinstance(value, str) else Estimate.of(value)

    def check_worst(self, v: str, device: str = "gpu") -> Estimate:
        """The largest error of a variant's checks as a fraction of its rounding bound; device "gpu" or "ptxsim"."""
        choose(dict.fromkeys(schema("checks")["properties"]["device"]["enum"]), device, "device", "checks.csv")
        rows = self._machine.rows("checks")
        rows = rows[(rows["variant"] == self._known(v)) & (rows["device"] == device)]
        rows = rows[rows["worst_error_share"].notna()].sort_values("stale", ascending=False)
        self._one("checks", rows, f"{v} on {device}")
        return Estimate.of(float(rows["worst_error_share"].astype(float).max()))

    def sanitizer_errors(self, v: str, tool: str = "memcheck") -> Estimate:
        """How many errors a tool of compute-sanitizer found: memcheck, racecheck, initcheck or synccheck."""
        rows = self._machine.rows("sanitizer")
        rows = rows[(rows["variant"] == self._known(v)) & (rows["tool"] == tool)]
        self._one("sanitizer", rows.sort_values("stale", ascending=False), f"{v}, {tool}")
        return Estimate.of(float(rows["errors"].sum()))

    def analytic(self, case: str, quantity: str) -> Any:
        """What a case of analytic.yaml comes to: analytic("a-occupancy-64x64", "occupancy")."""
        cases = dict.fromkeys(name for name, _ in self._analytic)
        choose(cases, case, "case", "analytic.csv")
        of_case = {q: value for (name, q), value in self._analytic.items() if name == case}
        return choose(of_case, quantity, "quantity", f"analytic.csv: {case}")

    def compiled(self, v: str, arch: str, column: str) -> Estimate | str:
        """A column of compiled.csv: what nvcc makes of a kernel for "sm_86", say: registers, lds_32, blocks_per_sm."""
        choose(schema("resources")["properties"], column, "column", "compiled.csv")
        choose(self._variants, v, "variant", "kernels/catalogue.yaml")
        if (v, arch) not in self._compiled:
            raise Missing(f"compiled.csv has no row of {v} for {arch}")
        value = self._compiled[v, arch][column]
        if value is None:
            raise Missing(f"compiled.csv has no {column} of {v} for {arch}")
        return value if isinstance(value, str) else Estimate.of(float(value))

    def published(self, id: str) -> Estimate:
        """A worklog's number, by its id in published.csv."""
        return Estimate.of(choose(self._published, id, "id", "published.csv"))

    def contains(self, text: Any, part: Any) -> Truth:
        """Whether a text has a part, as a comparison: contains(kernel_name("cublas_fp32"), "splitk")."""
        if not (isinstance(text, str) and isinstance(part, str)):
            raise UserError(f"contains compares texts, not {text} and {part}")
        return Truth(part.lower() in text.lower(), f"{part!r} in {text}")

    def min_(self, *values: Any) -> Estimate:
        """The smallest of its arguments, or of a list."""
        return estimates.least(_several(values))

    def max_(self, *values: Any) -> Estimate:
        """The largest of its arguments, or of a list."""
        return estimates.greatest(_several(values))

    def sum_(self, *values: Any) -> Estimate:
        """The sum of its arguments, or of a list."""
        return estimates.total(_several(values))

    def tuple_(self, values: Any) -> tuple[Any, ...]:
        """Sizes, picked: tuple(n for n in sizes("sgemm_warptile") if n >= 1024)."""
        if isinstance(values, (str, Estimate)):
            raise UserError(f"tuple takes sizes, not {values}")
        return tuple(values)

    def abs_(self, value: Any) -> Estimate:
        """Without its sign."""
        return abs(Estimate.of(value))

    def log2(self, value: Any) -> Estimate:
        """Logarithm to base two."""
        if Estimate.of(value).low <= 0:
            raise Undefined(f"log2 of {value}, which may not be above zero")
        return Estimate.of(value).map(math.log2)


def _several(values: tuple[Any, ...]) -> list[Any]:
    found = list(values[0]) if len(values) == 1 and isinstance(values[0], (tuple, list)) else list(values)
    if not found:
        raise UserError("nothing to choose from")
    return found
