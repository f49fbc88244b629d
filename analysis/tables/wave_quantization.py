"""Waves of blocks, and how evenly they load the SMs: wave_quantization.csv, as computed and as measured.

The model: all blocks take alike long, and each goes to the SM that has had fewest. Then the busiest SM gets
ceil(blocks / SMs) of them and the idlest floor(blocks / SMs), while the mean is blocks / SMs.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.data import Measured, metric_names, wide
from analysis.metrics import column, percent


def load_balance(measured: Measured, resources: pd.DataFrame) -> pd.DataFrame:
    """One row per variant and size with counters, in the catalogue's order.

    Columns: variant, label, kind, dtype, n, stale; computed, empty for libraries and dispatchers, whose grids are not
    known beforehand: blocks, blocks_per_sm (both from this tree), waves, last_wave_empty_percent (of the places that
    the last wave has on all SMs), busiest_percent and idlest_percent (over the mean SM, by the model above); measured
    by Nsight Compute: measured_waves, measured_busiest_percent, measured_idlest_percent.
    """
    counted = wide(measured.counters, metric_names())
    sms = int(measured.machine["sm_count"])
    known = measured.variants[["variant", "tile_m", "tile_n"]].merge(
        resources[["variant", "blocks_per_sm"]], on="variant", how="left"
    )
    rows = counted[["variant", "n"]].merge(known, on="variant", how="left").astype({"n": int})
    across, down, resident = (rows[name].astype(float) for name in ("tile_n", "tile_m", "blocks_per_sm"))
    blocks = np.ceil(rows["n"] / across) * np.ceil(rows["n"] / down)
    waves = blocks / (sms * resident)
    share = blocks / sms
    return pd.DataFrame(
        {
            **{name: counted[name] for name in ("variant", "label", "kind", "dtype", "n")},
            "stale": counted["stale"].astype(bool),
            "blocks": blocks.astype("Int64"),
            "blocks_per_sm": resident.astype("Int64"),
            "waves": waves,
            "last_wave_empty_percent": 100 * (np.ceil(waves) - waves),
            "busiest_percent": 100 * np.ceil(share) / share - 100,
            "idlest_percent": 100 * np.floor(share) / share - 100,
            "measured_waves": column(counted, "waves"),
            "measured_busiest_percent": percent("sm_cycles_most", "sm_cycles_mean")(counted) - 100,
            "measured_idlest_percent": percent("sm_cycles_least", "sm_cycles_mean")(counted) - 100,
        }
    )
