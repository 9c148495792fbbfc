"""docs/settings.md says what every command can be set to, made from the models of settings.

``.venv/bin/python tests/test_settings_page.py`` writes the page again.
"""

import re
from collections.abc import Iterator
from enum import Enum
from inspect import isclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_json

from sanderling.agent.opening import AgentConfig, AskConfig
from sanderling.agent.places import PlaceConfig
from sanderling.core.config import docs_of
from sanderling.core.plugins import Choice, settings_of
from sanderling.data.pipeline import DataConfig
from sanderling.evaluate.peers import ScoreConfig
from sanderling.evaluate.run import EvalConfig, RejudgeConfig
from sanderling.judge.book import JudgingConfig
from sanderling.judge.opening import JudgeConfig
from sanderling.merge.settings import MergeSettings
from sanderling.merge.sweep import SweepConfig
from sanderling.policy.budget import BudgetConfig
from sanderling.recipes.tiny import TinyConfig
from sanderling.rl.config import RlConfig, RlRecipe
from sanderling.rl.gain_report import CheckConfig
from sanderling.rl.losses import PolicyLoss
from sanderling.serve.dock.config import DockConfig, PoolConfig
from sanderling.serve.limits import ServerSettings
from sanderling.serve.tools import ToolServerConfig
from sanderling.synth.facts import FactsConfig
from sanderling.synth.generate import DifficultyConfig, GenerateConfig
from sanderling.synth.grow import GrowthConfig
from sanderling.synth.making import GraphSettings
from sanderling.synth.pages import PagesConfig
from sanderling.synth.reading import ReadingConfig
from sanderling.train.config import SftConfig, SupervisedConfig, TrainerConfig
from sanderling.world.disk.dense import DenseSettings
from sanderling.world.sources.base import Limits

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
SECTIONS: dict[str, type[BaseModel]] = {
    "place": PlaceConfig, "agent": AgentConfig, "judge": JudgeConfig, "budget": BudgetConfig, "ask": AskConfig,
    "world build, world add": Limits, "world embed": DenseSettings, "world serve": ServerSettings,
    "tools serve": ToolServerConfig, "dock up": DockConfig, "pools": PoolConfig, "data run": DataConfig,
    "data judge": JudgingConfig, "data generate": GenerateConfig, "synth graph": GraphSettings, "pages": PagesConfig,
    "synth graph with a model": ReadingConfig, "synth facts": FactsConfig, "synth grow": GrowthConfig,
    "synth difficulty": DifficultyConfig, "trainer": TrainerConfig, "supervised": SupervisedConfig,
    "train sft": SftConfig, "loss": PolicyLoss, "rl": RlConfig, "train rl": RlRecipe,
    "rl check-gains": CheckConfig, "eval run": EvalConfig,
    "eval judge": RejudgeConfig, "eval score": ScoreConfig, "merge run": MergeSettings, "merge sweep": SweepConfig,
    "recipe run tiny": TinyConfig,
}  # fmt: skip
"""Commands with what ``--set`` reaches, and sections that several of them have, each before its users."""
INTRODUCTION = """# Settings

Every setting of every command: its type, its default, what it does. A test keeps this page as the code is.

```sh
sanderling ask --set help
sanderling train sft --recipe dr-venus-4b --set help
```

These print all settings of a command as TOML, with the values that the recipe and the other options give them.

Set one with `--set key=value`, or several in a TOML file given with `--config` (`train sft`, `train rl`, `train plan`:
`--recipe`). Options override `--set`, which overrides the file. An unknown key is refused with the nearest one that exists.
A row such as `rl.…` means that the keys of another table apply with `rl.` before them. `–` is no value. A name in brackets
is the `kind` that has the setting. Arguments of commands are in their `--help`.
"""


def written() -> str:
    """The whole page."""
    known: dict[type[BaseModel], str] = {}
    parts = [INTRODUCTION]
    for title, model in SECTIONS.items():
        rows = "\n".join(rows_of(model, "", known))
        parts.append(f"## {title}\n\n|setting|type|default|what it does|\n|---|---|---|---|\n{rows}\n")
        known[model] = title
    return "\n".join(parts)


def rows_of(
    model: type[BaseModel], path: str, known: dict[type[BaseModel], str], kind: str = "", given: BaseModel | None = None
) -> Iterator[str]:
    """A line for each setting, sections after the rest. What another table lists is referred to; arguments are left out.

    ``given``: what the section is by default, where that is not what its class says.
    """
    docs, inner = docs_of(model), list[tuple[str, type[BaseModel], str, BaseModel | None]]()
    base = next((one for one in model.__mro__ if one in known), None)
    if base is not None:
        yield refer(path, known[base], kind)
    for name, field in model.model_fields.items():
        key = f"{path}{name}"
        choices = [mark for mark in field.metadata if isinstance(mark, Choice)]
        below = [part for part in parts_of(field.annotation) if isclass(part) and issubclass(part, BaseModel)]
        is_argument = field.is_required() and not path and not below
        if is_argument or (kind and name == "kind") or (base is not None and same_field(base, name, field)):
            continue
        listed = next((known[one] for part in below for one in part.__mro__ if one in known), "")
        if choices:
            kinds = choices[0].builtins
            inner += [
                (key, settings_of(function, choices[0].base), one, field.default if field.default.kind == one else None)
                for one, function in kinds.items()
            ]
            names = " ".join(f"`{one}`" for one in kinds)
            yield row(
                f"{key}.kind", names, f"`{field.default.kind}`", f"The {choices[0].what}: one of these or `file.py:name`."
            )
        elif listed:
            yield refer(f"{key}.", listed)
        elif below and get_origin(field.annotation) not in (dict, tuple, list):
            inner.append((key, below[0], "", None))
        else:
            default = default_of(field, getattr(given, name, None) if given else _by_class(field))
            yield row(key, type_of(field), default, first_sentence(docs.get(name, "")), kind)
    for key, section, one, its_default in inner:
        yield from rows_of(section, f"{key}.", known, one or kind, its_default)


def same_field(base: type[BaseModel], name: str, field: FieldInfo) -> bool:
    return name in base.model_fields and base.model_fields[name].default == field.default


def refer(path: str, title: str, kind: str = "") -> str:
    return row(f"{path}…", "section", "", f"As [{title}](#{anchor(title)}).", kind)


def row(key: str, of: str, default: str, about: str, kind: str = "") -> str:
    return f"|`{key}`{kind and f' ({kind})'}|{of}|{default}|{about}|"


def anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title).replace(" ", "-")


def parts_of(annotation: Any) -> list[Any]:
    """A type and all that it is made of."""
    return [annotation, *(part for one in get_args(annotation) for part in parts_of(one))]


def type_of(field: FieldInfo) -> str:
    """In a word or three; where few names are allowed, these."""
    parts = [part for part in parts_of(field.annotation) if part is not NoneType]
    if names := allowed(parts):
        return " ".join(f"`{name}`" for name in names)
    words = {bool: "true/false", int: "integer", float: "number", str: "text", Path: "path"}
    found = [word for kind, word in words.items() if kind in parts] or [parts[-1].__name__.lower()]
    origins = {get_origin(part) for part in parts}
    if dict in origins:
        return f"table of {found[0]}s"
    return f"list of {found[0]}s" if origins & {tuple, frozenset} else found[0]


def allowed(parts: list[Any]) -> list[str]:
    names = [one.value for part in parts if isclass(part) and issubclass(part, Enum) for one in part]
    return names + [str(name) for part in parts if get_origin(part) is Literal for name in get_args(part)]


def _by_class(field: FieldInfo) -> Any:
    return field.get_default(call_default_factory=True, validated_data={})


def default_of(field: FieldInfo, value: Any) -> str:
    if value is PydanticUndefined:
        return "needed"
    if isinstance(value, tuple) and value == tuple(allowed(parts_of(field.annotation))) != ():
        return "all"
    value = sorted(value) if isinstance(value, frozenset) else value
    return "–" if value in (None, "", (), {}, []) else f"`{to_json(value).decode()}`".replace('"', "")


def first_sentence(text: str) -> str:
    """What a model says of a field, up to its first full stop."""
    plain = text.replace("``", "`").replace("|", "\\|")
    found = re.match(r"(.*?)[.]?(?=[.]\s|[.]?$)", plain)
    return f"{found[1][:1].upper()}{found[1][1:]}." if found and found[1] else ""


def test_the_page_of_settings_is_what_the_models_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == written(), "write it again: .venv/bin/python tests/test_settings_page.py"


def test_every_setting_says_what_it_does() -> None:
    assert re.findall(r"^\|`([^`]+)`\|[^|]*\|[^|]*\|\|$", written(), flags=re.M) == []


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
