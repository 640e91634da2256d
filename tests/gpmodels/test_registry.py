"""Every family makes its head from its settings and the task."""

import pytest

from gpmodels.registry import HeadTask, families, head_family

TASK = HeadTask(
    num_classes=3,
    likelihood="softmax",
    views=(slice(0, 2), slice(2, 5)),
    seed=7,
    kernel_variance=100.0,
    domain_rows=(20, 30),
)

OF_TASK = {
    "dropout": {"seed": 7},
    "sngp": {"seed": 7},
    "svgp": {"likelihood": "softmax", "kernel_variance": 100.0},
    "autogp": {"likelihood": "softmax", "kernel_variance": 100.0},
    "svdkl": {"seed": 7},
    "hgp": {"likelihood": "softmax", "kernel_variance": 100.0},
    "random_features": {"likelihood": "softmax", "kernel_variance": 100.0, "seed": 7},
    "deep_gp": {"likelihood": "softmax", "kernel_variance": 100.0, "seed": 7},
    "dfgp": {"views": None},
    "dfgp_mkl": {"views": [[0, 1], [2, 3, 4]]},
    "atl_dgp": {"domain_rows": [20, 30]},
}
"""What a head takes of the task besides the number of classes."""

CHANGED = {
    "num_inducing": 11,
    "num_experts": 4,
    "global_weight": 0.25,
    "expert_variance": "thesis",
    "kernel": "arc_cosine1",
    "num_features": 13,
    "num_layers": 3,
    "num_samples": 17,
    "num_prediction_samples": 5,
    "num_components": 2,
    "posterior": "diagonal",
    "mean": "none",
    "output_kernel": "rbf",
    "hidden_kl_weight": 0.5,
    "rate": 0.4,
    "num_gps": 2,
    "mixing": 0.3,
    "noise_variance": 0.2,
}
"""Settings that differ from every default; of a head those that its family has."""


@pytest.mark.parametrize("name", list(families()))
def test_a_head_has_the_settings_and_the_task(name):
    family = head_family(name)
    fields = {} if family.settings is None else family.settings.model_fields
    changed = {key: value for key, value in CHANGED.items() if key in fields}
    if name == "svdkl":
        changed["kernel"] = "matern32"
    if family.own_table and family.settings is not None:
        assert changed
    head = family.make(None if family.settings is None else family.settings(**changed), TASK)
    config = head.get_config()
    assert head.name == name
    assert config["num_classes"] == 3
    for key, value in (changed | OF_TASK.get(name, {})).items():
        found = config[key]
        assert (list(found) if isinstance(found, tuple) else found) == value, key


@pytest.mark.parametrize("name", ["deep_gp", "random_features"])
def test_a_width_is_that_of_every_inner_layer(name):
    family = head_family(name)
    assert family.make(family.settings(num_layers=3, width=4), TASK).widths == (4, 4)
    assert family.make(family.settings(num_layers=3), TASK).widths is None
