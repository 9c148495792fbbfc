"""The worlds that questions are about: one for all, or several that questions name in ``meta.world``.

A name is that of a world that was given, or a directory of its own. Every world is opened once in each process, as agents meet
it. Knows no model.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.record import Question
from sanderling.data.questions import read_questions, require_distinct
from sanderling.tools.contract import Tool
from sanderling.tools.page_reader import PageReader
from sanderling.tools.world_tools import world_tools
from sanderling.world.disk.store import read_manifest
from sanderling.world.opening import open_as_met

WORLD = "world"
"""Where a question's ``meta`` says which world it is about."""


@dataclass(frozen=True)
class Place:
    """A world and the tools that ask it."""

    name: str
    fingerprint: str
    tools: Mapping[str, Tool]


@dataclass(frozen=True)
class Dynamics:
    """How worlds behave."""

    profile: str = ""
    """Empty: still."""
    seed: int = 0


def read_all(files: Sequence[Path], what: str) -> list[Question]:
    """Questions of several files in order. Raises UserError where two have one id, and for a file that cannot be read whole."""
    if folder := next((file for file in files if file.is_dir()), None):
        raise UserError(f"{folder} is a directory: name its files, as in {folder / '*.jsonl'}.")
    questions = [question for file in files for question in read_questions(file, whole=True)]
    if not questions:
        named = " and ".join(map(str, files))
        raise UserError(f"There are no {what}: {f'{named} holds none' if named else 'name a file of questions'}.")
    require_distinct(questions)
    return questions


def directories(worlds: Sequence[Path], questions: Iterable[Question]) -> dict[str, Path]:
    """Each question's world by the name that its ``meta`` has; a single given world is everybody's, under an empty name.

    Raises UserError for a question without a world, a world that is not there, and two worlds of one name.
    """
    if len(worlds) == 1:
        _name_of(worlds[0])
        return {"": worlds[0]}
    known: dict[str, Path] = {}
    for world in worlds:
        name = _name_of(world)
        if name in known:
            raise UserError(
                f"{known[name]} and {world} are both worlds named {name!r}, and questions cannot tell them apart: leave one "
                "out, or build it under another name."
            )
        known[name] = world
    found: dict[str, Path] = {}
    for question in questions:
        name = str(question.meta.get(WORLD) or "")
        if name in found:
            continue
        path = known.get(name) or (Path(name) if name else None)
        if path is None:
            told = "give one alone with --world" if known else "give one with --world"
            raise UserError(f"Question {question.id!r} names no world: {told}, or name it in meta.{WORLD}.")
        if name not in known:
            _check_there(question, name, path, known)
        found[name] = path
    return found


def warn_of_others(worlds: Sequence[Path], questions: Sequence[Question]) -> None:
    """Warn where the only world that is given is not the one that questions name: they are asked there all the same."""
    if len(worlds) != 1:
        return
    own, place = _name_of(worlds[0]), worlds[0].resolve()
    about = [str(question.meta.get(WORLD) or own) for question in questions]
    others = [name for name in about if name != own and Path(name).resolve() != place]
    if others:
        found = list(dict.fromkeys(others))
        names = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        warnings.warn(
            f"{len(others):,} of {len(questions):,} questions name another world in meta.{WORLD} ({names}) than the "
            f"one that is given ({own}), and are asked there, where their answers may be missing: give every "
            "world with a --world of its own.",
            stacklevel=2,
        )


def _check_there(question: Question, name: str, path: Path, known: Mapping[str, Path]) -> None:
    if not path.is_dir():
        told = f"the worlds given are {', '.join(known)}; give it with --world, too" if known else "give it with --world"
        raise UserError(f"Question {question.id!r} is about the world {name!r}, which is not there: {told}.")
    _name_of(path)


def _name_of(world: Path) -> str:
    """What a world calls itself. Raises UserError when there is none."""
    return read_manifest(world).name


class Places:
    """Opened worlds; each question finds its own."""

    def __init__(self, found: Mapping[str, Path], profile: Profile, dynamics: Dynamics, extractor: PageReader | None) -> None:
        opened: dict[Path, Place] = {}
        for path in found.values():
            if path not in opened:
                world = open_as_met(path, dynamics.profile or None, dynamics.seed)
                opened[path] = Place(world.name, world.fingerprint, world_tools(world, profile, extractor))
        self._places = {name: opened[path] for name, path in found.items()}

    def of(self, question: Question) -> Place:
        """Where a question is researched."""
        return self._places.get("") or self._places[str(question.meta[WORLD])]


def fingerprints(found: Mapping[str, Path]) -> dict[str, str]:
    """What stands for the content of each world."""
    return {name: read_manifest(path).fingerprint for name, path in found.items()}
