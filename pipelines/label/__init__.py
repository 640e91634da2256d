"""A learner of labels: what to ask next, what each answer teaches, and what the answers have bought."""
