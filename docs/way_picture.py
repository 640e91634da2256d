"""Draw the picture of the way ahead in docs/lane.md from a finished demo.

    gpimaging demo --out demo
    python docs/way_picture.py demo

Three rendered scenes of the demo's unseen material, larger than the demo's, as the demo's bundle sees them
with `gpimaging lane predict --direction`: a free lane, one with an object on it, and one that is blocked.
"""
# ruff: noqa: INP001 - a script, not a package

import io
import sys
import tempfile
from pathlib import Path

import cv2
from rich.console import Console

from data_prep.files.atomic import atomic_file
from data_prep.files.images import read_image
from data_prep.lane.scene_materials import OBSTACLES
from data_prep.lane.scenes import write_scenes
from pipelines.lane.demo import UNSEEN_TEXTURE
from pipelines.lane.prediction import LANE_PREDICTION
from pipelines.lane.settings import PredictSettings
from pipelines.scores.pictures import side_by_side

PICTURE = Path(__file__).parent / "images" / "lane_way.jpg"
SIZE = (240, 320)
SCENES = ((False, 20), (True, 15), (True, 3))
"""Whether an obstacle stands on the lane, and the number of the scene, of those shown."""


def main() -> None:
    """Render, predict and draw."""
    bundle = Path(sys.argv[1]) / "bundle"
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        overlays = []
        for obstructed in (False, True):
            scenes, out = work / f"scenes_{obstructed}", work / f"out_{obstructed}"
            chosen = OBSTACLES if obstructed else ()
            names = write_scenes(
                scenes, count=24, seed=5, lane_textures=[UNSEEN_TEXTURE], obstacles=chosen, size=SIZE
            )
            settings = PredictSettings(direction=True)
            console = Console(file=io.StringIO())
            LANE_PREDICTION(settings, inputs=[scenes / "images"], model=bundle, out=out, console=console)
            overlays.append([read_image(out / "overlays" / f"{name}.jpg") for name in names])
        picture = side_by_side([overlays[obstructed][number] for obstructed, number in SCENES])
        with atomic_file(PICTURE) as temporary:
            temporary.write_bytes(cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])[1])


if __name__ == "__main__":
    main()
