"""Estimators survive the way through a file, and files that are not theirs are refused with a reason."""

import copy
import functools
import json
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from gpmodels import (
    AutoGPClassifier,
    HGPClassifier,
    HGPRegressor,
    SVGPClassifier,
    SVGPRegressor,
    VMGPClassifier,
    VMGPRegressor,
)
from tests.gpmodels.estimators.small import SMALL

CLASSIFIERS = (HGPClassifier, VMGPClassifier, SVGPClassifier)
REGRESSORS = (SVGPRegressor, VMGPRegressor, HGPRegressor)


def data(num_classes=2):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) * [1.0, 30.0] + [5.0, 0.0]
    return x, np.digitize(x[:, 0], np.quantile(x[:, 0], np.arange(1, num_classes) / num_classes))


def make(cls, **changes):
    experts = {} if cls.__name__.startswith("SVGP") else {"num_experts": 2}
    if cls.__name__.startswith("HGP"):
        experts["num_expert_inducing"] = 4
    return cls(**{**SMALL, **experts, **changes})


@functools.cache
def fitted_to_data(cls):
    x, y = data()
    return make(cls).fit(x, y if cls in CLASSIFIERS else 100.0 * np.sin(x[:, 0]))


@pytest.fixture
def classifier():
    return fitted_to_data(SVGPClassifier)


@pytest.fixture
def regressor():
    return fitted_to_data(HGPRegressor)


def assert_same_predictions(first, second, x):
    expected, found = first.predict_distribution(x), second.predict_distribution(x)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == value.dtype


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS])
def test_loaded_estimator_equals_the_saved_one(cls, tmp_path):
    x, _ = data()
    fitted = fitted_to_data(cls)
    fitted.save(tmp_path / "model.npz")
    loaded = cls.load(tmp_path / "model.npz")
    assert_same_predictions(fitted, loaded, x)
    assert loaded.get_params() == fitted.get_params()
    assert (loaded.n_iter_, loaded.n_experts_) == (fitted.n_iter_, fitted.n_experts_)
    np.testing.assert_equal(loaded.learning_curve_, fitted.learning_curve_)
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "labels",
    [
        np.array([False, True]),
        np.array([3, 7], np.uint8),
        np.array([-1.0, 1.0]),
        np.array(["cat", "Hündin"]),
        np.array(["cat", "Hündin"], dtype=object),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_keep_their_type(labels, tmp_path):
    x, y = data()
    fitted = make(SVGPClassifier).fit(x, labels[y])
    fitted.save(tmp_path / "model.npz")
    predicted = SVGPClassifier.load(tmp_path / "model.npz").predict(x)
    assert predicted.dtype == labels.dtype
    np.testing.assert_array_equal(predicted, fitted.predict(x))


@pytest.mark.slow
def test_dropped_experts_stay_dropped(tmp_path):
    x, _ = data()
    fitted = copy.copy(fitted_to_data(HGPRegressor))
    head = fitted._trained_engine().head
    head.drop_experts(np.array([1]))
    fitted.weights_, fitted.n_experts_ = head.get_weights(), len(head.active_experts)
    fitted.save(tmp_path / "model.npz")
    loaded = HGPRegressor.load(tmp_path / "model.npz")
    assert loaded.n_experts_ == 1
    assert_same_predictions(fitted, loaded, x)


@pytest.mark.slow
def test_parameters_and_feature_names_return(tmp_path):
    x, y = data(3)
    weight = {0: 1.0, 1: 2.0, 2: 1.5}
    fitted = make(SVGPClassifier, class_weight=weight, num_inducing=np.int64(8)).fit(x, y)
    fitted.feature_names_in_ = np.array(["age", "mass"], dtype=object)
    fitted.save(tmp_path / "model.npz")
    loaded = SVGPClassifier.load(tmp_path / "model.npz")
    assert loaded.class_weight == weight
    assert loaded.num_inducing == 8
    assert loaded.feature_names_in_.tolist() == ["age", "mass"]
    assert loaded.feature_names_in_.dtype == object


@pytest.mark.slow
def test_what_belongs_to_one_machine_is_not_stored(tmp_path):
    x, y = data()
    state = np.random.RandomState(0)
    fitted = make(SVGPClassifier, random_state=state, log_dir=str(tmp_path / "log")).fit(x, y)
    fitted.save(tmp_path / "model.npz")
    loaded = SVGPClassifier.load(tmp_path / "model.npz")
    assert loaded.random_state is None
    assert loaded.log_dir is None


def test_saving_what_a_file_cannot_hold_is_refused_and_leaves_nothing(classifier, tmp_path):
    with pytest.raises(NotFittedError):
        SVGPClassifier().save(tmp_path / "model.npz")
    odd = copy.copy(classifier)
    odd.classes_ = np.array([1, "two"], dtype=object)
    with pytest.raises(ValueError, match=r"\['int', 'str'\] in an object array"):
        odd.save(tmp_path / "model.npz")
    odd.classes_ = np.array(["a", "a\0"], dtype=object)
    with pytest.raises(ValueError, match="NUL"):
        odd.save(tmp_path / "model.npz")
    with pytest.raises(FileNotFoundError):
        classifier.save(tmp_path / "missing" / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing_is_named(classifier, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing: there is no such folder\. Make it first"):
        classifier.save(tmp_path / "missing" / "model.npz")


def test_an_interrupted_save_keeps_the_former_file(classifier, tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    path.write_bytes(b"former")

    def full(file, **arrays):  # noqa: ARG001 - as NumPy calls it
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="disk full"):
        classifier.save(path)
    assert path.read_bytes() == b"former"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_of_another_class_is_refused(classifier, tmp_path):
    classifier.save(tmp_path / "model.npz")
    with pytest.raises(
        ValueError, match=r"is of SVGPClassifier, not of VMGPClassifier\. Call SVGPClassifier"
    ):
        VMGPClassifier.load(tmp_path / "model.npz")
    with pytest.raises(FileNotFoundError):
        SVGPClassifier.load(tmp_path / "other.npz")


def altered(estimator, path, change):
    """Save an estimator, apply `change(description, arrays)`, and write the file again."""
    estimator.save(path)
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    description = json.loads(str(arrays.pop("description")))
    change(description, arrays)
    np.savez_compressed(path, description=np.array(json.dumps(description)), **arrays)
    return path


def put(part, key, value):
    def change(description, arrays):
        (arrays if part == "arrays" else description if part is None else description[part])[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(None, "format", "other"), "not a file of an estimator"),
        (put(None, "format_version", 99), "format version 99, but this release reads 1"),
        (put(None, "parameters", None), "lacks parameters"),
        *((put(None, *change), "was altered") for change in (("iterations", "many"), ("kept_iteration", 3))),
        (put("parameters", "colour", "red"), "was altered"),
        (put("head_settings", "num_inducing", 10**9), "was altered"),
        (put("head_settings", "kernel", ["x"]), "was altered"),
        (put(None, "weight_names", list("abcdefg")), "was altered"),
        (put("arrays", "weight_0", np.zeros((2, 2))), "was altered"),
        (put("arrays", "input_mean", np.array([0.0, np.nan])), "was altered"),
        (put("arrays", "input_scale", np.array([1.0, 0.0])), "was altered"),
        (put("arrays", "target_moments", np.array([0.0, -1.0])), "was altered"),
        (put("arrays", "feature_names", np.array(["a"])), "was altered"),
        (put("arrays", "learning_curve", np.zeros((3, 2))), "was altered"),
        (lambda _, arrays: arrays.pop("input_mean"), "was altered"),
        (lambda _, arrays: arrays["weight_0"].fill(np.inf), "was altered"),
    ],
)
def test_an_altered_file_is_refused_with_the_reason(regressor, tmp_path, change, message):
    path = altered(regressor, tmp_path / "model.npz", change)
    with pytest.raises(ValueError, match=message) as raised:
        HGPRegressor.load(path)
    assert str(path) in str(raised.value)


def forged(change):
    """Return what alters a file as one does who leaves out the digest, too."""

    def forge(description, arrays):
        del description["digest"]
        change(description, arrays)

    return forge


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("parameters", "colour", "red"), r"parameters \['colour'\], which HGPRegressor does not have"),
        (put("parameters", "kernel", {"other": 1}), "is not what HGPRegressor.save writes"),
        (put("head_settings", "colour", "red"), "Unrecognized keyword arguments passed to HGPHead"),
        (put("head_settings", "num_inducing", 10**9), "ask for more weights than the"),
        (put("head_settings", "num_expert_inducing", 10**9), "ask for more weights than the"),
        (put("head_settings", "num_inducing", 4), "shape"),
        (put("head_settings", "kernel", "cosine"), "cosine"),
        (put(None, "weight_names", list("abcdefg")), "holds the weights"),
        (put(None, "weight_names", list("abcdefghijklmnopqrstuvwxyz")), "is not what .* writes.*weight_"),
        (put("arrays", "weight_0", np.zeros((2, 2))), "shape"),
        (lambda _, arrays: arrays.pop("input_mean"), "is not what .* writes.*input_mean"),
    ],
)
def test_a_forged_file_that_makes_no_estimator_is_refused(regressor, tmp_path, change, message):
    path = altered(regressor, tmp_path / "model.npz", forged(change))
    with pytest.raises(ValueError, match=message) as raised:
        HGPRegressor.load(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        put("arrays", "classes", np.array([1, 0])),
        put("arrays", "classes", np.array([0, 1, 2])),
        put("parameters", "class_weight", {"pairs": [1]}),
    ],
)
def test_altered_labels_are_refused(classifier, tmp_path, change):
    with pytest.raises(ValueError, match="was altered"):
        SVGPClassifier.load(altered(classifier, tmp_path / "model.npz", change))


def test_other_and_broken_files_are_refused(regressor, tmp_path):
    path = tmp_path / "model.npz"
    regressor.save(path)
    whole = path.read_bytes()
    for content in (b"", b"text", whole[: len(whole) // 2], whole[:-30]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"not a complete file|damaged"):
            HGPRegressor.load(path)
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(ValueError, match="not a complete file"):
        HGPRegressor.load(tmp_path / "array.npy")


def test_any_flipped_byte_is_noticed_or_harmless(regressor, tmp_path):
    path = tmp_path / "model.npz"
    regressor.save(path)
    whole = bytearray(path.read_bytes())
    x, _ = data()
    for position in np.random.default_rng(0).integers(len(whole), size=25):
        broken = whole.copy()
        broken[position] ^= 0xFF
        path.write_bytes(broken)
        try:
            loaded = HGPRegressor.load(path)
        except ValueError:
            continue
        assert np.isfinite(loaded.predict(x)).all()


def test_pickled_objects_are_never_read(regressor, tmp_path):
    path = tmp_path / "model.npz"
    regressor.save(path)
    np.save(tmp_path / "object.npy", np.array([{"any": "object"}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(tmp_path / "object.npy", "extra.npy")
    with pytest.raises(ValueError, match="allow_pickle=False"):
        HGPRegressor.load(path)


# Whether the posterior of an AutoGP is solved, which leaving out needs


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def with_flag(source, target, value):
    """Write a file again with another `posterior_is_solved`, or without it."""
    with np.load(source) as archive:
        arrays = dict(archive)
    description = json.loads(str(arrays["description"]))
    del description["posterior_is_solved"]
    if value is None:
        del description["digest"]  # earlier files have neither
    else:
        description["posterior_is_solved"] = value
    np.savez_compressed(target, **arrays | {"description": np.array(json.dumps(description))})


@pytest.mark.slow
def test_files_of_before_do_not_say_whether_the_posterior_is_solved(iris, tmp_path):
    model = AutoGPClassifier(**SMALL).fit(*iris)
    model.save(tmp_path / "model.npz")
    with_flag(tmp_path / "model.npz", tmp_path / "before.npz", None)
    before = AutoGPClassifier.load(tmp_path / "before.npz")
    assert before.posterior_is_solved_ is None
    assert np.isfinite(before.leave_one_out(*iris)).all()
    with_flag(tmp_path / "model.npz", tmp_path / "altered.npz", 1)
    with pytest.raises(ValueError, match="was altered"):
        AutoGPClassifier.load(tmp_path / "altered.npz")


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("num_components", [1, 2])
def test_a_loaded_model_leaves_out_as_the_saved_one(num_components, iris, tmp_path):
    model = AutoGPClassifier(num_components=num_components, **SMALL).fit(*iris)
    model.save(tmp_path / "model.npz")
    loaded = AutoGPClassifier.load(tmp_path / "model.npz")
    assert loaded.posterior_is_solved_ == model.posterior_is_solved_ == (num_components == 1)
    np.testing.assert_allclose(loaded.leave_one_out(*iris), model.leave_one_out(*iris))
    np.testing.assert_array_equal(loaded.suspicious_labels(*iris), model.suspicious_labels(*iris))
