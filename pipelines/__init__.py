"""Applications: each module joins `data_prep` and `gpmodels` into commands, reports and bundles."""
