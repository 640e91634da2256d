"""Small images of two classes, and features of them that need no network."""

from pathlib import Path

import numpy as np
from PIL import Image

from data_prep.labelled.near_duplicates import difference_hashes, small_grey
from pipelines.label.encoding import EncodedPool

CLASSES = ("dark", "light")


def write_images(folder, names, size=(24, 24)):
    """Write noise, dark for every other name and light for the others."""
    rng = np.random.default_rng(0)
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        level = 60 if number % 2 == 0 else 190
        pixels = np.clip(rng.normal(level, 30, (*size, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(path)


def made_features(pool):
    """Return what stands for a network's features: mean levels of parts of each image."""
    rows, features, hashes, grey = [], [], [], []
    for number, image in enumerate(pool.images):
        try:
            levels = np.asarray(Image.open(image.path).convert("L"), np.float32)
        except OSError:
            continue
        rows.append(number)
        features.append(levels.reshape(4, -1).mean(1))
        hashes.append(difference_hashes(levels))
        grey.append(small_grey(levels))
    unreadable = {number: "damaged" for number in range(len(pool.images)) if number not in rows}
    return EncodedPool(
        np.array(rows), np.stack(features), np.stack(hashes), np.stack(grey), unreadable=unreadable
    )


def truth(name):
    """Return the class of an image that `write_images` wrote."""
    return CLASSES[int(Path(name).stem) % 2]
