"""The prepared folder: its manifest, its shards, and reading them ahead."""
