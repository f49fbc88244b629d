"""Three TF32 products for one of fp32: how fast, and how exact."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.findings.sources import ALIKE, Sources, Statement
from analysis.quantities.machine import SIZE, Missing
from contracts import registry

DATA = ("uniform", "positive")  # of error_over_k.csv: sums of both signs, and of one; fp32's accuracy is held to these
WIDE = "wide"  # and exponents spread over sixty powers of two, where few products make a sum
SPLIT = "fp32_tensor"  # the experiment of fp32 on tensor cores
PLAIN = "sgemm_naive"  # its sums are one fp32 multiply-add after another
OF_ERRORS = ("sgemm_", "tf32gemm_")  # families of what error_over_k.csv has, fp32 inputs all


def compute(of: Sources) -> Statement:
    timed = of.timed[(of.timed["experiment"] == SPLIT) & of.timed["tensor"].astype(bool)]
    timed = timed[timed["kind"] == "kernel"].sort_values("order", kind="stable")
    if timed[timed["n"] == SIZE].empty:
        raise Missing(f"{SPLIT} was not timed at n = {SIZE}")
    name = str(timed["variant"].iloc[-1])
    own = timed[timed["variant"] == name].set_index("n")
    shares = 100 * own["share_of_baseline"].astype(float)
    numbers: dict[str, Any] = {
        "label": str(own["label"].iloc[0]),
        "n": SIZE,
        "tflops": float(own["tflops"][SIZE]),
        "percent": float(shares[SIZE]),
        "least_factor": float(shares.min()) / 100,
        "most_factor": float(shares.max()) / 100,
    }
    if of.has("cublas_fp32", "tflops"):
        numbers["library_tflops"] = of.get("cublas_fp32", "tflops")
    summary = (
        f"`{numbers['label']}` makes three TF32 products of each and adds them up outside of the tensor cores: "
        f"{numbers['least_factor']:.1f} to {numbers['most_factor']:.1f} times the speed of cuBLAS in fp32, "
        f"{numbers['tflops']:.0f} TFLOP/s at n = {SIZE}"
    )
    exact, rows = True, []
    errors = of.inputs.rows("error_over_k") if "error_over_k" in registry.tables() else pd.DataFrame()
    if not errors.empty and {name, PLAIN} <= set(errors["variant"]):
        errors = errors[errors["variant"].str.startswith(OF_ERRORS)]
        longest = int(errors["k"].max())
        kinds = (*DATA, WIDE)
        rms = {key: errors[errors["data"] == key].pivot(index="k", columns="variant", values="rms") for key in kinds}
        ratios = {key: rms[key][name] / rms[key][PLAIN] for key in kinds}
        exact = all(bool((ratios[key] <= 1).all()) for key in DATA)
        inside = str(timed["variant"].unique()[-2:][0])  # the rung before, whose sums stay inside
        numbers |= {"longest_k": longest, "emulated": bool((errors["device"] == "ptxsim").all())}
        for key in kinds:
            numbers[f"{key}_error_of_fp32"] = float(ratios[key][longest])
            numbers[f"{key}_most_error_of_fp32"] = float(ratios[key].max())
            if inside in rms[key]:
                numbers[f"{key}_inside_error_of_fp32"] = float((rms[key][inside] / rms[key][PLAIN])[longest])
        share = numbers["positive_error_of_fp32"]
        summary += f", with {share:.2f} of the RMS error of fp32 sums over {longest} positive products"
        at = rms["positive"].loc[SIZE]
        for variant in (name for name in at.index if of.has(name, "tflops")):
            row = {"variant": variant, "label": of.variants[variant]["label"]}
            row |= {"tensor": bool(of.variants[variant]["tensor"]), "tflops": of.get(variant, "tflops")}
            rows.append(row | {"error_of_fp32": float(at[variant] / at[PLAIN])})
    return Statement(
        holds=numbers["least_factor"] > 1 + ALIKE and exact, summary=f"{summary}.", numbers=numbers, rows=rows
    )
