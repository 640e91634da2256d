"""Small labelled domains for tests of the transfer classifiers."""

import numpy as np


def shifted_domains(
    *, num_sources: int = 1, source_rows: int = 40, target_rows: int = 12, num_classes: int = 3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes round centres that move from domain to domain: inputs, labels, numbers of domains."""
    rng = np.random.default_rng(seed)
    centres = 2.0 * rng.normal(size=(num_classes, 4))
    sizes = [*[source_rows] * num_sources, target_rows]
    numbers = np.repeat([*range(num_sources), -1], sizes)
    label = np.concatenate([np.arange(size) % num_classes for size in sizes])
    moved = np.array([0.4 * rng.normal(size=4) for _ in sizes])[np.repeat(range(len(sizes)), sizes)]
    return centres[label] + moved + rng.normal(size=(len(label), 4)), label, numbers
