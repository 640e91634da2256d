"""Published accuracies, per cent, and what is wanted of a model of transfer here.

± of GFK, MMDT and KBTL are standard errors over the 20 splits, those of the other columns standard
deviations: the paper copied the former from Gönen and Margolin (2014), Table 1.
"""

from __future__ import annotations

COLUMNS = ("NGP-S", "NGP-T", "STL-DGP", "GFK", "MMDT", "KBTL", "ATL-DGP")

TABLE_1 = {
    "caltech-amazon": (40.3, 52.1, 50.4, 44.7, 49.4, 52.9, 53.9),
    "webcam-amazon": (37.7, 52.5, 50.5, 44.1, 47.7, 53.4, 51.8),
    "amazon-caltech": (40.1, 35.5, 33.9, 36.0, 36.4, 35.9, 40.1),
    "webcam-caltech": (33.1, 33.1, 30.6, 31.1, 32.2, 34.0, 37.9),
    "amazon-webcam": (37.3, 67.0, 67.5, 58.6, 64.6, 69.8, 68.9),
    "caltech-webcam": (35.2, 64.9, 64.5, 63.7, 63.8, 68.5, 65.9),
}
"""Of the six pairs whose images are at hand, in the order of `COLUMNS`."""

TABLE_2_COLUMNS = ("breast → esophagus", "esophagus → breast")

TABLE_2 = {
    "NGP-S": (63.4, 59.3),
    "NGP-T": (64.7, 59.4),
    "STL-DGP": (64.3, 55.4),
    "FMTL": (58.2, 59.6),
    "GFK": (56.1, 56.6),
    "MMDT": (65.0, 59.1),
    "KBTL": (57.8, 54.7),
    "ATL-DGP": (67.2, 61.1),
}
"""Accuracy on patches, of 5 labelled target patches a class; patients were not kept apart."""
