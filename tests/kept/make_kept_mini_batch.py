"""How the files in ``data/mini_batch`` were made: estimators that learn by mini-batches alone.

They are younger than those of `make_kept`, which runs with the modules of its time alone. As there, what is
written once is never made again; the script refuses to write where something is.

    PYTHONPATH=<the code> python make_kept_mini_batch.py <out>
"""

import sys
from pathlib import Path

import numpy as np

from gpmodels import AutoGPClassifier, AutoGPRegressor, DeepGPClassifier, DeepGPRegressor

SMALL = {"max_iterations": 3, "random_state": 0}

ESTIMATORS = {
    "auto_gp_classifier": AutoGPClassifier(num_inducing=5, kernel="arc_cosine1", kernel_depth=2, **SMALL),
    "auto_gp_classifier_of_3_classes": AutoGPClassifier(
        num_inducing=4, num_components=2, posterior="diagonal", class_kernels="separate", **SMALL
    ),
    "auto_gp_regressor": AutoGPRegressor(num_inducing=5, objective="elbo", **SMALL),
    "deep_gp_classifier_of_3_classes": DeepGPClassifier(num_inducing=4, widths=[2], **SMALL),
    "deep_gp_classifier": DeepGPClassifier(num_inducing=4, inner_kernels="separate", **SMALL),
    "deep_gp_regressor": DeepGPRegressor(approximation="random_features", num_features=4, **SMALL),
}


def keep_mini_batch(out: Path) -> None:
    """Write ``mini_batch/*.npz``, and inputs and outputs in ``mini_batch/expected.npz``."""
    folder = out / "mini_batch"
    folder.mkdir()
    expected: dict[str, np.ndarray] = {}
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(40, 3)) * [1.0, 30.0, 0.1] + [5.0, 0.0, 0.0], 2)
    expected["inputs"] = x[-10:]
    for name, estimator in ESTIMATORS.items():
        if "classifier" in name:
            classes = np.digitize(x[:, 0], [4.7, 5.3]) if "3" in name else (x[:, 0] > 5.0).astype(int)
            estimator.fit(x, np.array(["cat", "dog", "Hündin"])[classes])
            expected[f"{name}/predict_proba"] = estimator.predict_proba(x[-10:])
            expected[f"{name}/predict"] = estimator.predict(x[-10:])
        else:
            estimator.fit(x, 100.0 * np.sin(x[:, 0]) + x[:, 1])
            mean, deviation = estimator.predict(x[-10:], return_std=True)
            expected |= {f"{name}/predict": mean, f"{name}/deviation": deviation}
        for key, value in estimator.predict_distribution(x[-10:]).items():
            expected[f"{name}/distribution/{key}"] = np.asarray(value)
        estimator.save(folder / f"{type(estimator).__name__}.{name}.npz")
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    keep_mini_batch(Path(sys.argv[1]))
