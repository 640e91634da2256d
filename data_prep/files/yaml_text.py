"""YAML by the core schema of YAML 1.2, without what surprises.

`yaml.safe_load` follows YAML 1.1, where `no` is false, `010` is 8, `12:30` is 750, `1e-3` is a text and a
date that does not exist is an error of Python's. Here only `true` and `false` are truth values, numbers are
decimal, and `1e-3` is one. Repeated keys, aliases and tags are refused. The loader is as safe as
`yaml.safe_load`: it makes plain values, lists and mappings only.
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


class _Loader(yaml.SafeLoader):
    """Reads YAML 1.2 plain values; refuses aliases, tags and repeated keys."""

    # Of its own, and empty: that of YAML 1.1 would be added to.
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - types as PyYAML's stubs have them

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node.

        An alias could multiply a small file into more than the memory holds; a tag could demand a number of
        what is none.
        """
        event = self.peek_event()  # type: ignore[no-untyped-call] # not in the stubs
        if isinstance(event, yaml.AliasEvent):
            raise _refused("aliases are not supported: write the value out again", event.start_mark)
        if event.tag is not None:
            raise _refused(f"the tag {event.tag!r} is not supported: write the plain value", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a mapping whose keys are different names or whole numbers."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node)
            if type(key) not in (str, int):
                raise _refused(f"found the key {key!r}, expected a name", key_node.start_mark)
            if key in seen:
                raise _refused(f"the key {key!r} appears twice: remove one", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    """Writes YAML that means the same to this module and to readers of YAML 1.1."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Represent a text; PyYAML would write the line break U+0085 as it is and read it back as a space."""
        style = '"' if "\x85" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)

for _tag, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)
    # Beside those of YAML 1.1: a text that either would read as something else is quoted.
    _Dumper.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)


def parse_yaml(text: str) -> Any:
    r"""Parse one YAML document into plain values, lists and mappings; an empty one is None.

    Args:
        text: The document.

    Raises:
        yaml.YAMLError: The text is no YAML, repeats a key, or uses an alias or a tag.

    Example:
        >>> parse_yaml("learning_rate: 1e-3\nnetwork: no")
        {'learning_rate': 0.001, 'network': 'no'}
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - it derives from SafeLoader
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error
    except (ValueError, OverflowError) as error:  # whole numbers of Python have at most 4300 digits as texts
        raise yaml.YAMLError("has a number with too many digits, or an escape of no character") from error


def format_yaml(values: dict[str, Any]) -> str:
    """Format plain values, lists and mappings as YAML, in their order."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def yaml_problem(error: Exception) -> str:
    """Return what is wrong with a YAML text, and where, on one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem and error.problem_mark:
        return f"{error.problem} (line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1})"
    return " ".join(str(error).split())


def _refused(problem: str, mark: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(problem=problem, problem_mark=mark)
