"""Files to arrays and shards: one module per modality. Never imports `gpmodels`."""
