"""A prepared folder of another organ helps one with few labels: the whole way, by the commands."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tensorflow.python.framework.config import disable_op_determinism
from typer.testing import CliRunner

from data_prep.histopathology.stains import REFERENCE_STAINS, from_density
from pipelines.cli import make_app
from pipelines.labelled import sources

pytestmark = pytest.mark.slow

TINY = {
    "heads": "[linear]",
    "pretraining_epochs": 1,
    "head_epochs": 1,
    "steps_per_epoch": 5,
    "components": 6,
    "svms": "[]",
    "panel_images": 0,
}
SETTINGS = [text for key, value in TINY.items() for text in ("--set", f"{key}={value}")]
PATCH, SHAPE = 32, (64, 96)


def run(*arguments: object, expected: int = 0) -> str:
    """Call a command in this process; return what it said."""
    try:
        texts = [str(argument) for argument in arguments]
        result = CliRunner(env={"COLUMNS": "400"}).invoke(make_app(), texts)
    finally:
        disable_op_determinism()  # other tests go on without
    assert result.exit_code == expected, (result.output, result.exception)
    return result.output


def tissue(seed: int, *, tumour: bool, pale: float) -> np.ndarray:
    """Two stains in random amounts; a tumour has more haematoxylin, in finer grains."""
    rng = np.random.default_rng(seed)
    grain = 2 if tumour else 8
    amounts = rng.uniform(0.1, 1.0, (SHAPE[0] // grain + 1, SHAPE[1] // grain + 1, 2))
    amounts = pale * np.kron(amounts * ((1.4, 0.5) if tumour else (0.6, 1.0)), np.ones((grain, grain, 1)))
    return from_density(amounts[: SHAPE[0], : SHAPE[1]] @ REFERENCE_STAINS)


def prepare(folder: Path, *, images: int, first: int, classes: tuple[str, str], pale: float) -> Path:
    lines = ["file,label,patient"]
    (folder / "images").mkdir(parents=True)
    for number in range(first, first + images):
        Image.fromarray(tissue(number, tumour=number % 2 == 1, pale=pale)).save(
            folder / "images" / f"{number}.png"
        )
        lines.append(f"{number}.png,{classes[number % 2]},P{number // 2}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    paths = ("--images", folder / "images", "--labels", folder / "labels.csv", "--out", folder / "prepared")
    size = ("--patch-size", PATCH, "--set", "size=[32, 32]", "--jobs", 1)
    run("histopathology", "prepare", *paths, *size)
    return folder / "prepared"


@pytest.fixture(scope="module")
def organs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Prepared folders of three organs; the kidney has other names for its classes."""
    folder = tmp_path_factory.mktemp("organs")
    colon = prepare(folder / "colon", images=16, first=0, classes=("benign", "tumour"), pale=0.7)
    breast = prepare(folder / "breast", images=12, first=100, classes=("benign", "tumour"), pale=1.0)
    kidney = prepare(folder / "kidney", images=8, first=200, classes=("normal", "tumour"), pale=0.9)
    return {"colon": colon, "breast": breast, "kidney": kidney, "folder": folder}


def test_the_whole_way_needs_the_source_once(organs, tmp_path):
    source = tmp_path / "lent"
    shutil.copytree(organs["colon"], source)
    data, trained = ("--data", organs["breast"]), tmp_path / "run"
    said = run("histopathology", "train", *data, "--source", source, "--out", trained, *SETTINGS)
    assert "Source lent: 96 examples" in said
    assert "What the sources gave: lent gives " in said
    shutil.rmtree(source)
    description = json.loads((trained / "run.json").read_text())
    assert description["heads"] == ["linear", "atl_dgp"]
    assert description["sources"][0]["rows"] == 96
    judged = ("--model", trained, "--out", tmp_path / "of the source")
    run("histopathology", "evaluate", "--data", organs["colon"], *judged)
    of_source = json.loads((tmp_path / "of the source" / "metrics.json").read_text())
    assert any("were used in training" in warning for warning in of_source["warnings"])
    evaluation, bundle = tmp_path / "evaluation", tmp_path / "bundle"
    run("histopathology", "evaluate", *data, "--model", trained, "--out", evaluation)
    metrics = json.loads((evaluation / "metrics.json").read_text())
    assert "ATL-DGP" in metrics["methods"]
    assert "what the sources gave" in (evaluation / "report.html").read_text(encoding="utf-8")
    run("histopathology", "export", "--model", trained, "--out", bundle, "--set", "head=atl_dgp")
    run("verify", bundle)
    new = organs["breast"].parent / "images"
    said = run("histopathology", "predict", "--model", bundle, "--input", new, "--out", tmp_path / "said")
    assert (tmp_path / "said" / "predictions.csv").read_text().count("\n") == 13


def test_two_sources_whose_classes_have_other_names(organs, tmp_path):
    both = ("--source", organs["colon"], "--source", organs["kidney"])
    arguments = ("histopathology", "train", "--data", organs["breast"], *both, "--out", tmp_path / "run")
    said = run(*arguments, "--set", "source_classes={odd: benign}", *SETTINGS, expected=2)
    assert "source_classes says odd: benign, but the sources have the classes benign, normal, tumour" in said
    said = run(*arguments, "--set", "source_classes={normal: benign}", *SETTINGS)
    assert "Source colon/prepared: 96 examples" in said
    assert "Source kidney/prepared: 48 examples" in said
    twice = (*arguments[:6], "--source", organs["colon"], "--out", tmp_path / "twice")
    assert "holds the same prepared data" in run(*twice, *SETTINGS, expected=2)


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, int]]]:
    """Collect, of each source of a run by its folder, the images and the labels that heads learn from."""
    found: dict[str, list[tuple[str, int]]] = {}
    original = sources._source

    def collecting(data, splits, settings, source):
        made = original(data, splits, settings, source)
        # a patch is of an image; an image is named as its file is
        images = {one.name: getattr(one, "source", one.name) for one in source.manifest.examples}
        labels = np.concatenate([label.numpy() for _, label in made.batches()])
        pairs = zip(made.names, labels.tolist(), strict=True)
        found[source.folder.parent.name] = [(images[name], label) for name, label in pairs]
        return made

    monkeypatch.setattr(sources, "_source", collecting)
    return found


def test_examples_of_renamed_classes_have_the_labels_of_the_data(organs, tmp_path, lent):
    # names whose order is that of the data turned round, and a class that the data do not have
    names = ("zebra", "apple")
    other = prepare(tmp_path / "other", images=8, first=400, classes=names, pale=0.8)
    renamed = "source_classes={zebra: benign, apple: tumour, normal: benign}"
    folders = ("--data", organs["breast"], "--source", other, "--source", organs["kidney"])
    out = ("--out", tmp_path / "run")
    run("histopathology", "train", *folders, *out, "--set", renamed, *SETTINGS)
    assert set(lent) == {"other", "kidney"}
    for folder, rows in (("other", 48), ("kidney", 48)):
        assert len(lent[folder]) == rows
        for image, label in lent[folder]:
            assert label == int(Path(image).stem) % 2, (folder, image)  # odd images are tumours, label 1
    lent.clear()
    run("histopathology", "train", *folders[:4], "--out", tmp_path / "one", *SETTINGS,
        "--set", "source_classes={zebra: tumour}")  # fmt: skip
    assert {(int(Path(image).stem) % 2, label) for image, label in lent["other"]} == {(0, 1)}


def test_images_of_renamed_classes_have_the_labels_of_the_data(tmp_path, lent):
    rng = np.random.default_rng(0)
    for name, classes in {"data": ("dark", "light"), "source": ("night", "day", "dusk")}.items():
        for number in range(21):
            folder = tmp_path / name / classes[number % len(classes)]
            folder.mkdir(parents=True, exist_ok=True)
            grey = rng.integers(0, 100, (32, 32, 3)) + 120 * (number % len(classes))
            Image.fromarray(np.minimum(grey, 255).astype(np.uint8)).save(folder / f"{name}{number}.png")
        paths = ("--images", tmp_path / name, "--out", tmp_path / f"of {name}" / "prepared")
        run("classify", "prepare", *paths, "--size", "32x32")
    paths = ("--data", tmp_path / "of data" / "prepared", "--source", tmp_path / "of source" / "prepared")
    few = {"network": "FE1", "heads": "[linear]", "pretraining_epochs": 1, "head_epochs": 1}
    few |= {"steps_per_epoch": 2, "batch_size": 4, "panel_images": 0}
    settings = [text for key, value in few.items() for text in ("--set", f"{key}={value}")]
    renamed = ("--set", "source_classes={night: dark, day: light}")
    run("classify", "train", *paths, "--out", tmp_path / "run", *settings, *renamed)
    expected = {"night": 0, "day": 1}  # dusk is no class of the data
    found = [(Path(image).parts[-2], label) for image, label in lent["of source"]]
    assert sorted(found) == sorted((name, label) for name, label in expected.items() for _ in range(7))


def test_a_resumed_run_repeats_nothing(organs, tmp_path):
    arguments = ("histopathology", "train", "--data", organs["breast"], "--source", organs["colon"])
    out = ("--out", tmp_path / "run")
    run(*arguments, *out, *SETTINGS)
    weights = tmp_path / "run" / "heads" / "atl_dgp" / "best.weights.h5"
    before = weights.read_bytes()
    run(*arguments, *out, *SETTINGS, "--resume")
    assert weights.read_bytes() == before
    other = (*arguments[:4], "--source", organs["kidney"], "--set", "source_classes={normal: benign}")
    assert "sources changed" in run(*other, *out, *SETTINGS, "--resume", expected=2)


def test_a_shared_image_is_found_behind_a_trunk(tmp_path):
    rng = np.random.default_rng(0)
    for name, images in {"data": 20, "source": 20}.items():
        for number in range(images):
            folder = tmp_path / name / ("dark", "light")[number % 2]
            folder.mkdir(parents=True, exist_ok=True)
            grey = rng.integers(0, 100, (32, 32, 3)) + 120 * (number % 2)
            Image.fromarray(grey.astype(np.uint8)).save(folder / f"{number}.png")
    shutil.copy(tmp_path / "data" / "dark" / "2.png", tmp_path / "source" / "dark" / "copy.png")
    for name in ("data", "source"):
        paths = ("--images", tmp_path / name, "--out", tmp_path / f"prepared {name}")
        run("classify", "prepare", *paths, "--size", "32x32")
    paths = ("--data", tmp_path / "prepared data", "--source", tmp_path / "prepared source")
    said = run("classify", "train", *paths, "--out", tmp_path / "run", "--set", "network=FE1", expected=2)
    assert "has 1 examples that are in" in said


def test_what_cannot_be_a_source_is_refused(organs, tmp_path):
    arguments = ("histopathology", "train", "--data", organs["breast"], "--out", tmp_path / "run", *SETTINGS)

    def refused(*more: object) -> str:
        return run(*arguments, *more, expected=2)

    assert "holds the same prepared data" in refused("--source", organs["breast"])
    assert "none of which is one of the data's" in refused(
        *("--source", prepare(tmp_path / "x", images=4, first=300, classes=("a", "b"), pale=1.0))
    )
    mixed = tmp_path / "mixed"
    shutil.copytree(organs["colon"].parent / "images", mixed / "images")
    shutil.copy(organs["breast"].parent / "images" / "101.png", mixed / "images" / "101.png")
    lines = (organs["colon"].parent / "labels.csv").read_text() + "101.png,tumour,P99\n"
    (mixed / "labels.csv").write_text(lines)
    paths = ("--images", mixed / "images", "--labels", mixed / "labels.csv", "--out", mixed / "prepared")
    run("histopathology", "prepare", *paths, "--patch-size", PATCH, "--set", "size=[32, 32]", "--jobs", 1)
    assert "6 examples that are in" in refused("--source", mixed / "prepared")
    assert "with --source" in refused("--set", "heads=[linear, atl_dgp]")
    missing = refused("--source", tmp_path / "none")
    assert (
        f"{tmp_path / 'none'} does not exist. Check the path: pass a folder written by `prepare`." in missing
    )
    assert not (tmp_path / "run").exists()
