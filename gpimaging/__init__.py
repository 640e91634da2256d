"""gpimaging in Python: `gpimaging.classify.train` does what the command `gpimaging classify train` does.

Each application is a module-like object with a function for each of its steps. A function takes the folders
and the settings of the command by their names, and returns what the step made. `load` opens an exported
bundle, and `features` describes images by a pretrained network.

Example:
    >>> import gpimaging
    >>> gpimaging.classify
    <gpimaging.classify: prepare, train, evaluate, predict, export>
"""

from gpimaging.bundle import Bundle, load
from gpimaging.images import features
from gpimaging.steps import Steps

lane = Steps("lane")
classify = Steps("classify")
measure = Steps("measure")
sonar = Steps("sonar")
video = Steps("video")
histopathology = Steps("histopathology")
cells = Steps("cells")

__all__ = [
    "Bundle",
    "Steps",
    "cells",
    "classify",
    "features",
    "histopathology",
    "lane",
    "load",
    "measure",
    "sonar",
    "video",
]
