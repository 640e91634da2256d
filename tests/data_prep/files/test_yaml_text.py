"""YAML is read without surprises, and whatever is wrong with it is one kind of error."""

import pytest
import yaml

from data_prep.files.yaml_text import parse_yaml


@pytest.mark.parametrize(
    "text",
    [
        "seed: !!int abc",
        "seed: !!float x",
        "seed: ! 3",
        "seed: " + "9" * 5000,
        'name: "\\UFFFFFFFF"',
        'name: "\\U00110000"',
        "%YAML " + "9" * 5000 + ".1\n---\nseed: 1",
        "a: &a [1]\nb: *a",
        "a: 1\na: 2",
        "[1]: 2",
        "a: " + "[" * 5000,
    ],
)
def test_what_cannot_be_read_is_an_error_of_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        parse_yaml(text)


def test_keys_are_names_and_whole_numbers() -> None:
    assert parse_yaml("{0: mine, rock: 1}") == {0: "mine", "rock": 1}
    for text in ("{true: 1}", "{1.5: 1}", "{0: mine, 0: rock}"):
        with pytest.raises(yaml.YAMLError, match=r"found the key|appears twice"):
            parse_yaml(text)
