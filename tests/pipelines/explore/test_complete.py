"""`gpimaging explore --complete` fills in what is missing, says how sure it is, and leaves the rest alone."""

import csv
import json

import numpy as np
import pytest
from PIL import Image
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from data_prep.files.images import read_image
from pipelines.cli import make_app

SIZE = (8, 8)
NUMBER = 40
FAST = ("--set", "max_iterations=60", "--set", "num_dimensions=3")


def run(*arguments, expected=0):
    result = CliRunner().invoke(make_app(), ["explore", "--complete", *map(str, arguments)])
    assert result.exit_code == expected, (result.output, result.exception)
    return result


def ramps() -> np.ndarray:
    """Pictures `[NUMBER, 8, 8]` of a blob that moves sideways, so that one half tells the other."""
    rows, columns = np.indices(SIZE)
    centres = np.linspace(1, 6, NUMBER)
    blob = np.exp(-0.15 * ((columns - centres[:, None, None]) ** 2 + (rows - 3.5) ** 2))
    return np.round(230 * blob + 10).astype(np.uint8)


@pytest.fixture(scope="module")
def completed(tmp_path_factory):
    """Images whose lower half is missing in every fifth one, as they were filled in, and the truth."""
    folder = tmp_path_factory.mktemp("complete")
    (folder / "images" / "a").mkdir(parents=True)
    truth = ramps()
    for number, levels in enumerate(truth):
        alpha = np.full(SIZE, 255, np.uint8)
        if number % 5 == 2:
            alpha[4:] = 0
        alpha[0, 0] = 0  # missing everywhere
        given = np.where(alpha > 0, levels, 77).astype(np.uint8)
        Image.fromarray(np.dstack([given, alpha]), "LA").save(folder / "images" / "a" / f"{number:02d}.png")
    (folder / "images" / "a" / "broken.png").write_bytes(b"no image")
    run("--data", folder / "images", "--out", folder / "out", *FAST)
    return folder / "out", truth


@pytest.mark.slow
def test_missing_pixels_are_near_the_truth_and_others_as_given(completed):
    out, truth = completed
    for number in range(NUMBER):
        mean = read_image(out / "mean" / "a" / f"{number:02d}.png")[..., 0].astype(int)
        std = read_image(out / "std" / "a" / f"{number:02d}.png")[..., 0]
        known = np.ones(SIZE, bool)
        known[0, 0] = False
        known[4:] &= number % 5 != 2
        np.testing.assert_array_equal(mean[known], truth[number][known])
        assert (std[known] == 0).all()
        assert mean[0, 0] == std[0, 0] == 0  # nothing is known of it
        if number % 5 == 2:
            error = np.abs(mean[4:] - truth[number][4:].astype(int))
            spread = np.abs(truth[:, 4:].astype(int) - truth[:, 4:].mean(axis=0)).mean()
            assert error.mean() < 0.5 * spread  # far better than the mean of the others
            assert (std[4:] > 0).any()


def test_tables_and_page_say_what_was_done(completed):
    out, _ = completed
    with (out / "completed.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["file"]: row for row in csv.DictReader(file)}
    assert rows["a/02.png"]["missing"] == "33"
    assert rows["a/02.png"]["filled"] == "32"
    assert rows["a/03.png"]["mean_std"] == ""
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["filled_pixels"] == 8 * 32
    assert metrics["never_seen_pixels"] == 1
    assert metrics["channels"] == 1
    page = (out / "complete.html").read_text(encoding="utf-8")
    assert "1 of 64 pixels are missing in every image" in page
    assert page.count("<figure>") == NUMBER
    assert "http" not in page.replace("http-equiv", "")
    assert "broken.png" in (out / "skipped.csv").read_text(encoding="utf-8")


@pytest.mark.slow
def test_colours_are_filled_in_by_masks(tmp_path):
    tint = np.array([1.0, 0.6, 0.3])
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for number, levels in enumerate(ramps()[::2]):
        colours = np.round(levels[..., None] * tint).astype(np.uint8)
        Image.fromarray(colours).save(tmp_path / "images" / f"{number}.png")
    mask = np.zeros(SIZE, np.uint8)
    mask[:, :3] = 255
    Image.fromarray(mask).save(tmp_path / "masks" / "4.png")
    options = ("--masks", tmp_path / "masks", "--size", "4x4", *FAST)
    run("--data", tmp_path / "images", "--out", tmp_path / "out", *options)
    filled = read_image(tmp_path / "out" / "mean" / "4.png")
    assert filled.shape == (4, 4, 3)
    assert (filled[:, 0, 0] > filled[:, 0, 2]).all()  # red stays above blue
    std = read_image(tmp_path / "out" / "std" / "4.png")[..., 0]
    assert (std[:, 2:] == 0).all()
    assert (std[:, 0] > 0).any()


@pytest.mark.slow
def test_noise_is_said_to_have_nothing_in_common(tmp_path, recwarn):
    rng = np.random.default_rng(0)
    (tmp_path / "noise").mkdir()
    for number in range(60):
        alpha = np.full(SIZE, 255, np.uint8)
        alpha[number % 8, 0] = 0
        levels = np.dstack([rng.integers(0, 256, SIZE, np.uint8), alpha])
        Image.fromarray(levels, "LA").save(tmp_path / "noise" / f"{number}.png")
    out = tmp_path / "out"
    output = " ".join(run("--data", tmp_path / "noise", "--out", out, *FAST).output.split())
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    page = (out / "complete.html").read_text(encoding="utf-8")
    for said in (output, page, metrics["notes"][0]):
        assert "nothing that the images have in common" in said
    assert not [one for one in recwarn if issubclass(one.category, ConvergenceWarning)]


def test_bad_input_is_refused_with_one_message(tmp_path, digits):
    def refused(data, *options) -> str:
        return run("--data", data, "--out", tmp_path / "out", *options, expected=2).output

    assert "no pixel of 60 images is missing" in refused(digits)
    assert "at most 64 x 64 are filled in" in refused(digits, "--size", "65x65")
    assert "expected grey, colour or auto" in refused(digits, "--features", "efficientnet_lite0")
    table = tmp_path / "predictions.csv"
    table.write_text("file,label\n")
    assert "give it without --complete" in refused(digits, "--predictions", table)
    assert "--masks" in refused(digits, "--masks", tmp_path / "nowhere")
