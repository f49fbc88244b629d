"""Numbers by name: `sgemm_warptile.share[4096]` means the same in documents, claims, findings, figures and explorer.

`registry` lists the quantities, `machine` looks them up in one machine's tables, `expressions` is the grammar and its
evaluator, and `estimates` is the arithmetic on values with intervals.
"""
