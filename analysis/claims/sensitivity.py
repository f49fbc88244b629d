"""What of the verdicts hangs on how strict one is, and how many there are of each kind."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.claims.verdicts import CLAIM, VERDICTS

COLUMNS = ["machine", "id", "worklog", "about", "theirs", "ours", "unit", "if_stricter", "verdict", "if_looser", "why"]
ANYWHERE = "any machine"


def changed(claims: pd.DataFrame) -> pd.DataFrame:
    """The counted claims whose verdict another rule would change."""
    rows = claims[claims["counted"]]
    differ = (rows["if_stricter"] != rows["verdict"]) | (rows["if_looser"] != rows["verdict"])
    return rows.loc[differ, COLUMNS].reset_index(drop=True)


def counts(claims: pd.DataFrame) -> pd.DataFrame:
    """How many counted claims have which verdict and kind, on any machine and on each; under each of the three rules.

    Columns: of (a machine, or "any machine" for claims that none can change), verdict, kind (empty: of all kinds),
    claims, and for a verdict of all kinds if_stricter and if_looser. Definitions and findings stand below, by class.
    """
    found: list[dict[str, Any]] = []
    rows = claims.assign(of=claims["machine"].where(~claims["independent"], ANYWHERE))
    for of, part in rows[rows["counted"]].groupby("of", sort=False):
        for verdict in VERDICTS:
            mine = part[part["verdict"] == verdict]
            other = {f"if_{name}": int((part[f"if_{name}"] == verdict).sum()) for name in ("stricter", "looser")}
            found.append({"of": of, "verdict": verdict, "kind": "", "claims": len(mine), **other})
            found += [
                {"of": of, "verdict": verdict, "kind": str(kind), "claims": int(count)}
                for kind, count in mine["kind"].value_counts().items()
            ]
    first = rows[rows["machine"] == rows["machine"].iloc[0]] if len(rows) else rows
    for name, count in first.loc[first["class"] != CLAIM, "class"].value_counts().items():
        found.append({"of": ANYWHERE, "verdict": f"not counted: {name}", "kind": "", "claims": int(count)})
    cited = int(((first["class"] == CLAIM) & first["same_as"].notna()).sum())
    found.append({"of": ANYWHERE, "verdict": "not counted: same measure as another", "kind": "", "claims": cited})
    return pd.DataFrame(found, columns=["of", "verdict", "kind", "claims", "if_stricter", "if_looser"])
