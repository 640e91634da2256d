"""YAML as settings use it: the core schema of YAML 1.2, without what surprises.

`yaml.safe_load` follows YAML 1.1, where `no` is false, `010` is 8, `12:30` is 750 and `1e-3` is a text. Here
only `true` and `false` are truth values, numbers are decimal and finite, and `1e-3` is one. Repeated keys and
aliases are refused. The loader is as safe as `yaml.safe_load`: plain values, lists and mappings only.
"""

import re
from collections.abc import Hashable
from typing import Any, Final

import yaml

_RESOLVERS: Final = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("tag:yaml.org,2002:int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
        list("-+.0123456789"),
    ),
)


class SettingsLoader(yaml.SafeLoader):
    """Reads YAML 1.2 plain values; refuses aliases and repeated keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - yaml's own

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node; an alias could multiply a small file into more than the memory holds."""
        if self.check_event(yaml.AliasEvent):
            mark = self.get_mark()
            raise yaml.constructor.ConstructorError(
                problem="aliases are not supported: write the value out again", problem_mark=mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a mapping whose keys are different texts."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    problem=f"found the key {key!r}, expected a name", problem_mark=key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key!r} appears twice: remove one", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class SettingsDumper(yaml.SafeDumper):
    """Writes YAML that means the same to this module and to readers of YAML 1.1."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """A text; PyYAML would write the line break U+0085 as it is and read it back as a space."""
        style = '"' if "\x85" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


SettingsDumper.add_representer(str, SettingsDumper.represent_text)

for _tag, _pattern, _first in _RESOLVERS:
    SettingsLoader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)
    # Beside those of YAML 1.1: a text that either would read as something else is quoted.
    SettingsDumper.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)


def parse_yaml(text: str) -> Any:
    r"""Parse one YAML document into plain values, lists and mappings; an empty one is None.

    Raises:
        yaml.YAMLError: the text is no YAML, repeats a key, or uses an alias or a tag.

    Example:
        >>> parse_yaml("learning_rate: 1e-3\nnetwork: no")
        {'learning_rate': 0.001, 'network': 'no'}
    """
    try:
        return yaml.load(text, SettingsLoader)  # noqa: S506 - a SafeLoader
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error


def format_yaml(values: dict[str, Any]) -> str:
    """Format plain values, lists and mappings as YAML, in their order."""
    return yaml.dump(values, Dumper=SettingsDumper, sort_keys=False, allow_unicode=True)
