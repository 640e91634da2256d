"""Which judged examples a method calls unfamiliar."""

from types import SimpleNamespace

import numpy as np

from pipelines.evaluation.unfamiliar import UnfamiliarCollector


def collected(*, flags: bool) -> UnfamiliarCollector:
    collector = UnfamiliarCollector(flags)
    for name, familiarity in (("usual", 0.6), ("strange", 0.004), ("stranger", 0.002), ("rare", 0.02)):
        collector.add(SimpleNamespace(name=name), {"familiarity": np.array(familiarity)})
    return collector


def test_the_least_familiar_come_first_and_only_flagged_ones_count():
    assert collected(flags=True).unfamiliar(3) == ("stranger", "strange")
    assert collected(flags=True).unfamiliar(1) == ("stranger",)


def test_a_map_counts_as_predict_counts_it():
    """Twice the median of its pixels, not their mean."""
    collector = UnfamiliarCollector(flags=True)
    collector.add(SimpleNamespace(name="map"), {"familiarity": np.array([[0.001, 0.001], [0.9, 0.001]])})
    collector.add(SimpleNamespace(name="usual"), {"familiarity": np.array([[0.001, 0.006], [0.006, 0.9]])})
    assert collector.unfamiliar(2) == ("map",)


def test_a_method_that_can_call_nothing_unfamiliar_shows_nothing():
    assert collected(flags=False).unfamiliar(3) == ()
