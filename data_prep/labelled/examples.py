"""An example with one label, as it is cut out of a file and before it is stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.labelled.views import Views


@dataclass(frozen=True)
class ExampleFacts:
    """What the manifest says of an example.

    Attributes:
        name: Name of the example.
        source: Name of what it was cut out of.
        label: Index of the example's class.
        height: Height in pixels, before resizing.
        width: Width in pixels, before resizing.
        others: Further fields of the application's examples.
    """

    name: str
    source: str
    label: int
    height: int
    width: int
    others: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PreparedExample:
    """An example as a worker returns it.

    Attributes:
        facts: What the manifest says of it.
        image: uint8 [height, width, 3], or [frames, height, width, 3].
        views: Views of it for `features.npz`, where the application computes any.
    """

    facts: ExampleFacts
    image: npt.NDArray[np.uint8]
    views: Views | None = None
