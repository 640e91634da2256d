"""Simulated held-out predictions, whose probabilities are right but for a slope of their logits."""

import numpy as np

from pipelines.scores.held_out import HeldOut


def simulated(
    rng: np.random.Generator, number: int, *, classes: int = 3, groups: int | None = None, slope: float = 1.0
) -> HeldOut:
    """Draw predictions of Gaussian classes, in groups that share a shift."""
    unit = np.arange(number) if groups is None else np.arange(number) % groups
    truth = rng.integers(0, classes, number)
    noise = rng.normal(size=(number, classes))
    if groups is not None:
        noise = np.sqrt(0.5) * noise + np.sqrt(0.5) * rng.normal(size=(groups, classes))[unit]
    logits = slope * 2.5 * (noise + 2.5 * np.eye(classes)[truth])
    probability = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    entropy = -np.sum(probability * np.log(probability + 1e-12), axis=1)
    return HeldOut(entropy, (probability.argmax(axis=1) != truth).astype(float), unit, truth, probability)
