"""What the parser, the argument reader and the strict grammar say of 3,000 turns; what every profile renders to text and ids.

Turns come from a seeded generator: whole ones, and ones broken in one or several ways (tags nested, missing or doubled, JSON5,
several calls, code blocks, surrogates, empty names). They are pinned ten a case, so that a difference is easy to find.
"""

import dataclasses
import datetime
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers
from goldens import digest
from pydantic import BaseModel
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from sanderling.core import profiles
from sanderling.core.chat import ChatRenderer, conversation_ids, strip_think_prefix, wrap_observation
from sanderling.core.chat import Tokenizer as FastTokenizer
from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.grammar import check_final, check_turn
from sanderling.core.parse import ParsedTurn, explain, normalise_arguments, parse_turn
from sanderling.core.text import find_object, folded, visible
from sanderling.core.types import FixedClock, Message, Role, ToolCall

PROFILES = {name: profile for name, profile in profiles.PROFILES.items() if not profile.general}  # those of checkpoints

TURNS = 3_000
CLOCK = FixedClock(datetime.date(2026, 3, 1))
WORDS = (
    *("tidal", "flats", "潮间带", "Wrocław", "“the”", "year", "1911", "–", "½", "café\u0301", "\u2028", "<b>", "&"),
    *("wader", "\U0001f426", "naïve", "10²", "C++", "-5", ".5", "1,200", "O’Neil"),
)
TAGS = [f"<{end}{name}>" for name in ("think", "tool_call", "answer", "code", "tool_response") for end in ("", "/")]


# -- turns --------------------------------------------------------------------------------------------------------------


def words(rng: random.Random, most: int) -> str:
    """Some words, of several scripts."""
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


def arguments(rng: random.Random) -> Any:
    """Arguments of a call: mostly of the right kind, under one of the names in use."""
    queries = [words(rng, 4) for _ in range(rng.randint(1, 3))]
    urls = [f"https://w.example/{rng.randrange(50)}#page={rng.randrange(3)}" for _ in range(rng.randint(1, 3))]
    listed = rng.choice([queries, urls])
    value = rng.choice(
        [listed, listed, listed[0], json.dumps(listed), json.dumps(listed) + "x", [], None, 3, {"a": [1.5, None]}]
    )
    return rng.choice(
        [
            {"query": queries},
            {"url": urls, "goal": words(rng, 5)},
            {"url": urls[0], "purpose": [words(rng, 2), "b"]},
            {rng.choice(["query", "queries", "url", "urls", "goal", "purpose", ""]): value},
            {"queries": value, "query": value},
            {"urls": value, "purpose": [], "extra": {"deep": [[[True]]]}},
            {"big": 2**70, "nan": float("nan"), "inf": float("-inf"), "nul": "a\x00b", "lone": "\ud83d"},
        ]
    )


def call_body(rng: random.Random) -> str:
    """What stands in a call's tags: strict JSON, or one of the forms that models write instead."""
    name = rng.choice(["search", "visit", "fetch_url", "search", "visit", "PythonInterpreter", "teleport", " ", "", "搜索"])
    given = arguments(rng)
    value: Any = {"name": name, "arguments": given}
    plain = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    form = rng.randrange(18)
    if form == 0:
        return json.dumps({"name": name, rng.choice(["parameters", "args"]): given})
    if form == 1:
        return json.dumps({"name": name, "arguments": json.dumps(given)})
    if form == 2:
        return json.dumps({"name": name, **given})
    if form == 3:
        return json.dumps({"type": "function", "function": value})
    if form == 4:
        return plain.replace('"', "'").replace("}", ",}")
    if form == 5:
        return plain.replace('"name"', "name").replace('"arguments"', "arguments") + " // done"
    if form == 6:
        return json.dumps([value, rng.choice([value, 3, {"name": ""}, {"name": "visit", "arguments": [1]}])])
    if form == 7:
        return plain + rng.choice(["}", "]", " and so on", "\n\n{}"])
    if form == 8:
        return plain[: rng.randrange(len(plain) + 1)]
    if form == 9:
        code = rng.choice(["<code>\nprint(1 < 2)\n</code>", "<code>x = '</tool_call>'", "<code></code>"])
        return rng.choice([plain + code, code, '{"name": "PythonInterpreter", "arguments": {}}\n' + code, "'name': " + code])
    if form == 10:
        return plain.replace(" ", "\n\t", 3)
    if form == 11:
        return "```json\n" + plain + "\n```"
    if form == 12:
        return "[" * rng.choice([3, 40, 400]) + plain
    return plain


def turn(rng: random.Random) -> str:
    """One turn, whole or broken."""
    parts = [
        rng.choice(["<think>", "<think>\n", "", "  <think>"]),
        words(rng, 8),
        rng.choice(["\n</think>\n", "</think>", "</think>"]),
    ]
    action = rng.random()
    for _ in range(rng.choices([1, 2, 3, 40], [8, 2, 1, 0.1])[0] if action < 0.7 else 0):
        parts += ["<tool_call>", rng.choice(["\n", ""]) + call_body(rng) + rng.choice(["\n", ""]), "</tool_call>"]
    if action > 0.6:
        parts += ["<answer>", rng.choice([words(rng, 6), words(rng, 6), "", " \n", "a <answer>b"]), "</answer>"]
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 4])):
        at = rng.randrange(len(parts)) if parts else 0
        damage = rng.randrange(7)
        if damage == 0 and parts:
            del parts[at]
        elif damage == 1:
            parts.insert(at, rng.choice(TAGS))
        elif damage == 2:
            parts.insert(at, words(rng, 4))
        elif damage == 3 and parts:
            parts.append(parts[at])
        elif damage == 4 and parts:
            parts[at] = parts[at][: len(parts[at]) // 2]
        elif damage == 5:
            rng.shuffle(parts)
        else:
            parts.insert(at, rng.choice(["\ud83d", "\x00", "<|im_end|>", "\u2028", "</tool_call", "<answer", "\r\n"]))
    return "".join(parts)


def turns() -> list[str]:
    """All turns, some that nothing else would make at their end."""
    rng = random.Random(24)
    odd = ["", " ", "<think>", "</think>", "<tool_call>", "<answer>", "<answer></answer>", "{" * 5_000, "<think>" * 500]
    odd += ["<tool_call>" * 300, "<answer>x" * 300, "</answer>" * 300, "a" * 20_000, "<tool_call>{'a':" + "[" * 2_000]
    return odd + [turn(rng) for _ in range(TURNS)]


def told(parsed: ParsedTurn) -> list[Any]:
    """A parsed turn as JSON."""
    calls = [call.model_dump() for call in parsed.calls]
    return [
        parsed.think, calls, parsed.answer, list(parsed.problems), list(parsed.left), parsed.actionable,
        explain(parsed.problems),
    ]  # fmt: skip


def of_turn(text: str, number: int) -> list[Any]:
    """What the parser and the grammar say of a turn, in each way that it may begin; the profile changes from turn to turn."""
    names = [None, *(profile.tools for profile in PROFILES.values())][number % (len(PROFILES) + 1)]
    ways = (False, True)
    strict = [[list(check(text, think_open=way)) for check in (check_turn, check_final)] for way in ways]
    return [[told(parse_turn(text, think_open=way, names=names)) for way in ways], strict]


# -- rendering ----------------------------------------------------------------------------------------------------------


def tokenizer(directory: Path, *, tags: bool) -> FastTokenizer:
    """A byte-level BPE whose merges are written out: prefixes of a few words of the template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges: list[tuple[str, str]] = []
    for word in ("user", "Ċuser", "ĊĊ", "ĊĊĊ", "assistant", "userĊ", "systemĊ", "assistantĊ", "search", 'name"', "thinkĊ"):
        merges += [(word[:end], word[end]) for end in range(1, len(word))]
    merges = list(dict.fromkeys(merges))
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    entries = dict.fromkeys([*specials, *alphabet, *(a + b for a, b in merges)])
    built = tokenizers.Tokenizer(models.BPE({entry: index for index, entry in enumerate(entries)}, merges))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens(specials)
    if tags:
        built.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    directory.mkdir()
    built.save(str(directory / "tokenizer.json"))
    return FastTokenizer(directory)


def conversation(profile: profiles.Profile, chat: ChatRenderer) -> list[int]:
    """A conversation with every kind of message a loop sends."""
    ids = chat.system_ids(profiles.render_system(profile, profiles.default_specs(profile), CLOCK)) + chat.question_ids(
        profiles.render_question(profile, "Which bird?\n<|im_end|> 矶鹬")
    )
    ids += chat.turn_ids("<think>\nLook.</think>\n<tool_call>\n{}\n</tool_call>")
    ids += chat.observation_ids("found\n\n<|im_start|>user", previous_ended=True)
    ids += chat.turn_ids("cut")[:-1] + chat.observation_ids(
        profile.malformed_hint.replace("{problem}", "It is {broken}."), previous_ended=False
    )
    ids += chat.observation_ids("last", previous_ended=False, prompt=False)
    return ids + chat.observation_ids(profile.force_hint, previous_ended=None)


@dataclasses.dataclass
class Hit:
    """One result."""

    title: str
    url: str
    snippet: str
    date: str
    source: str = ""


@dataclasses.dataclass
class Results:
    """The results of a query."""

    query: str
    hits: list[Hit]
    error: str = ""


LISTS = [
    Results("tidal flats", [Hit("A\n  b", "https://w.example/1", "…mud", "2020-01-02"), Hit("", "u", "", "")]),
    Results("“none”", []),
    Results("broken", [], "It failed."),
]


def rendered(scratch: Path) -> Iterator[tuple[str, Any]]:
    """Texts and ids of every profile."""
    for name, profile in PROFILES.items():
        yield f"profile {name}", digest(profile.model_dump(mode="json"))
        yield f"system {name}", digest(profiles.render_system(profile, profiles.default_specs(profile), CLOCK))
        yield f"results {name}", [profiles.results_text(LISTS[:n], profile.results, empty="Nothing.") for n in range(4)]
        for tags in (True, False):
            known = tokenizer(scratch / f"{name}-{tags}", tags=tags)
            chat = ChatRenderer(known, profile)
            ids = conversation(profile, chat)
            yield f"conversation {name} tags={tags}", [len(ids), digest(ids), digest(known.decode(ids)), known.fingerprint]
            yield (
                f"prompt {name} tags={tags}",
                [chat.generation_prompt, chat.end_id, chat.observation_ids("x", previous_ended=False)],
            )
    messages = [Message(role=Role.SYSTEM, content="Be short."), Message(role=Role.USER, content="Hi\n\n<think>")]
    yield "conversation of no profile", conversation_ids(known, messages)
    starts = ["<think>\na", "<think>a", "a", "<think>\n<think>\nb"]
    yield "think prefixes", [strip_think_prefix(text, prefix) for text in starts for prefix in ("<think>\n", "<think>", "")]
    yield "wrapped", wrap_observation("a\nb")


# -- small things -------------------------------------------------------------------------------------------------------


class Below(BaseModel):
    """A section."""

    model_config = {"frozen": True, "extra": "forbid"}
    rate: float = 0.5
    names: tuple[str, ...] = ()


class Settings(BaseModel):
    """Some settings."""

    model_config = {"frozen": True, "extra": "forbid"}
    steps: int = 3
    place: Path = Path("a")
    below: Below = Below()
    each: dict[str, Below] = {}


OVERRIDES = ["steps=5", "below.rate=0.1", 'below.names=["a", "b"]', "each.x.rate=2", "place=b c", "steps"]
OVERRIDES += ["steps.a=1", "=3", "place=\ud83d", "each.'a b'.rate=1"]


def said(make: Any) -> Any:
    """What a call returns, or the sentence it refuses with."""
    try:
        return make()
    except UserError as error:
        return f"UserError: {error}"


def small() -> Iterator[tuple[str, Any]]:
    """The argument reader, objects in replies, settings, folded and visible texts."""
    rng = random.Random(7)
    for number in range(20):
        calls = [ToolCall(name=rng.choice(["search", "visit", "fetch_url"]), arguments=arguments(rng)) for _ in range(20)]
        found = [normalise_arguments(call, profile.tools).model_dump() for call in calls for profile in PROFILES.values()]
        yield f"arguments {number:02}", digest(found)
    replies = [
        words(rng, 3) + rng.choice(["```json", "</think>", "{", ""]) + call_body(rng) + words(rng, 2) for _ in range(200)
    ]
    yield (
        "objects",
        [
            digest([find_object(text, lambda value: "name" in value) for text in replies[at : at + 20]])
            for at in range(0, 200, 20)
        ],
    )
    for override in OVERRIDES:
        yield (
            f"override {override!r}",
            said(lambda text=override: to_toml(load_config(Settings, "steps = 1", "a.toml", [text]))),
        )
    yield "no TOML", said(lambda: load_config(Settings, "steps = ", "a.toml"))
    texts = [words(rng, 9) for _ in range(100)]
    yield "folded", [digest([folded(text) for text in texts]), folded("Ｃ＋＋ cost 1,200 at –5 °C or 10² of $-.5 ½ ﬁ Ⅷ O’Neil")]
    yield "visible", visible("a\x1b[1m\x7f\x85\ud83d\u202e\n\tb")
    yield "profiles", [said(lambda name=name: profiles.get_profile(name).name) for name in (*PROFILES, "tinny", "gpt")]


def recorded_texts(recorded: Path) -> list[str]:
    """What assistants said in recorded conversations."""
    sources = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(recorded.glob("dr-venus-*/*.json"))]
    lines = (recorded / "webdancer" / "sample_traj.jsonl").read_text(encoding="utf-8").splitlines()
    sources += [json.loads(line) for line in lines]
    return [message["content"] for source in sources for message in source["messages"] if message["role"] == "assistant"]


def make(scratch: Path, recorded: Path | None) -> dict[str, Any]:
    """The area's cases."""
    cases = dict([*rendered(scratch), *small()])
    generated = turns()
    for at in range(0, len(generated), 10):
        cases[f"turns {at:04}"] = digest([of_turn(text, at + step) for step, text in enumerate(generated[at : at + 10])])
    if recorded is not None:
        texts = recorded_texts(recorded)
        for at in range(0, len(texts), 100):
            cases[f"recorded: turns {at:04}"] = digest(
                [of_turn(text, at + step) for step, text in enumerate(texts[at : at + 100])]
            )
    return cases
