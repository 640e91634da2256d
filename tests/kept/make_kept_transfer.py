"""How the files in ``data/transfer`` were made: the estimators that learn from other domains.

They are younger than those of `make_kept`, which runs with the modules of its time alone. As there, what is
written once is never made again; the script refuses to write where something is.

    PYTHONPATH=<the code> python make_kept_transfer.py <out>
"""

import sys
from pathlib import Path

import numpy as np

from gpmodels import ATLDGPClassifier, ATLDGPRegressor, STLDGPClassifier, STLDGPRegressor

ESTIMATORS = {
    "atl_dgp_classifier": ATLDGPClassifier(random_state=0),
    "atl_dgp_classifier_of_3_classes": ATLDGPClassifier(scaling="joint", mixing=[0.3, 0.2]),
    "atl_dgp_classifier_alone": ATLDGPClassifier(),
    "atl_dgp_regressor": ATLDGPRegressor(scaling="joint", noise_variance=0.1),
    "stl_dgp_classifier": STLDGPClassifier(max_iterations=3, random_state=0),
    "stl_dgp_regressor": STLDGPRegressor(max_iterations=3, random_state=0, scaling="joint"),
}


def keep_transfer(out: Path) -> None:
    """Write ``transfer/*.npz``, and inputs and outputs in ``transfer/expected.npz``."""
    folder = out / "transfer"
    folder.mkdir()
    expected: dict[str, np.ndarray] = {}
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(30, 3)) * [1.0, 30.0, 0.1] + [5.0, 0.0, 0.0], 2)
    domain = np.r_[np.repeat([0, 3, -1], [6, 5, 9]), np.full(10, -2)]  # ten rows are not learned from
    expected["inputs"] = x[-10:]
    for name, estimator in ESTIMATORS.items():
        rows = np.flatnonzero(domain == -1 if name.endswith("alone") else domain > -2)
        numbers = None if name.endswith("alone") else domain[rows]
        if "classifier" in name:
            classes = np.digitize(x[:, 0], [4.7, 5.3]) if "3" in name else (x[:, 0] > 5.0).astype(int)
            labels = np.array(["cat", "Hündin"])[classes] if name == "atl_dgp_classifier" else classes
            estimator.fit(x[rows], labels[rows], sample_domain=numbers)
            expected[f"{name}/predict_proba"] = estimator.predict_proba(x[-10:])
            expected[f"{name}/predict"] = estimator.predict(x[-10:])
            for key, value in estimator.predict_distribution(x[-10:]).items():
                expected[f"{name}/distribution/{key}"] = np.asarray(value)
        else:
            estimator.fit(x[rows], 100.0 * np.sin(x[rows, 0]) + x[rows, 1], sample_domain=numbers)
            mean, deviation = estimator.predict(x[-10:], return_std=True)
            expected |= {f"{name}/predict": mean, f"{name}/deviation": deviation}
        for key in ("mixing_", "mixing_std_", "transfer_weight_", "leave_one_out_"):
            expected[f"{name}/{key}"] = np.array(getattr(estimator, key))
        estimator.save(folder / f"{type(estimator).__name__}.{name}.npz")
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    keep_transfer(Path(sys.argv[1]))
