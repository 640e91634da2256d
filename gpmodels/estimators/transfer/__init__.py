"""Transfer GPs: rows of other domains help a target that has few labels."""
