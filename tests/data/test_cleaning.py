"""Cleaning: what came in is what was kept and dropped, twice is once, at which number each step drops, where token ids stay."""

import datetime
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import trajectories
from typer.testing import CliRunner

from sanderling.cli.data import app
from sanderling.core.errors import UserError
from sanderling.core.parse import parse_turn
from sanderling.core.profiles import Profile, default_specs, get_profile, render_question, render_system
from sanderling.core.record import Node, NodeKind, Question, Trajectory, decode_record, decode_trajectory, encode_record
from sanderling.core.types import FixedClock, Role
from sanderling.data.cleaning import RECIPES, STEPS, Cleaner, CleaningRecipe, CleanReport, Dropped, clean_file
from sanderling.data.cleaning_draft import Reason
from sanderling.runs.jsonl import TrajectoryStore

DR_VENUS = get_profile("dr-venus-4b")
SYSTEM, QUESTION, TURN, SEEN = NodeKind.SYSTEM, NodeKind.QUESTION, NodeKind.TURN, NodeKind.OBSERVATION

# -- small trajectories ---------------------------------------------------------------------------------------------------


def call_text(*calls: tuple[str, dict], think: str = "Look it up.") -> str:
    """A turn that makes calls."""
    bodies = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls]
    return "\n\n".join([f"<think>\n{think}\n</think>", *(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)])


def search(*queries: str, think: str = "Look it up.") -> str:
    return call_text(("search", {"query": list(queries)}), think=think)


def visit(*urls: str, goal: str = "dates") -> str:
    return call_text(("visit", {"url": list(urls), "goal": goal}))


def answer(text: str = "Lisbon") -> str:
    return f"<think>\nSure.\n</think>\n\n<answer>\n{text}\n</answer>"


def results(query: str) -> str:
    hits = [{"title": "A", "url": "https://a.example/x", "snippet": "s", "date": ""}]
    return json.dumps([{"query": query, "web_page_info_list": hits}])


def seen(*blocks: str) -> str:
    """What the tools returned, a block for each call."""
    return "\n".join(f"<tool_response>\n{block}\n</tool_response>" for block in blocks)


def message(kind: NodeKind, text: str, **fields: Any) -> Node:
    """A node without a parent yet; turns are parsed."""
    if kind is TURN:
        parsed = parse_turn(text)
        fields = {"think": parsed.think, "calls": parsed.calls, "answer": parsed.answer} | fields
        fields["problems"] = tuple(problem.value for problem in parsed.problems)
    role = {SYSTEM: Role.SYSTEM, TURN: Role.ASSISTANT}.get(kind, Role.USER)
    return Node(parent=None, role=role, kind=kind, text=text, **fields)


def chain(*nodes: Node, **fields: Any) -> Trajectory:
    """A trajectory of one branch."""
    linked = tuple(node.model_copy(update={"parent": place - 1 if place else None}) for place, node in enumerate(nodes))
    last = linked[-1].answer if linked and linked[-1].kind is TURN else None
    question = Question(id="q", text="Which city?", answers=("Lisbon",))
    about = {"id": "t", "question": question, "leaf": len(linked) - 1 if linked else None, "ending": None, "answer": last}
    return Trajectory(nodes=linked, **(about | fields))


def talk(*texts: str, **fields: Any) -> Trajectory:
    """A conversation: system prompt and question, then turns and what was said to them, in turn."""
    said = [message(SEEN if place % 2 else TURN, text) for place, text in enumerate(texts)]
    return chain(message(SYSTEM, "You are.\nCurrent date: 2025-07-18"), message(QUESTION, "Which city?"), *said, **fields)


def calls(*turns: str) -> Trajectory:
    return talk(*(text for turn in turns for text in (turn, seen("x"))), answer())


class Done(NamedTuple):
    """What one step did."""

    trajectory: Trajectory | None
    reason: Reason | None
    detail: str
    notes: dict[str, int]


def step(name: str, found: Trajectory, profile: Profile = DR_VENUS, **settings: object) -> Done:
    cleaner = Cleaner(CleaningRecipe.model_validate({"steps": [name], **({name: settings} if settings else {})}), profile)
    done, notes = cleaner.clean(found), dict(cleaner.report.steps[0].notes)
    return Done(None, done.reason, done.detail, notes) if isinstance(done, Dropped) else Done(done, None, "", notes)


def clean(found: Iterable[Trajectory], recipe: CleaningRecipe) -> tuple[list[Trajectory], list[str], CleanReport]:
    """What a recipe keeps of these, and the ids of what it drops, for its own profile."""
    cleaner = Cleaner(recipe, get_profile(recipe.profile))
    done = [(one.id, cleaner.clean(one)) for one in found]
    kept = [one for _, one in done if isinstance(one, Trajectory)]
    return kept, [id for id, one in done if isinstance(one, Dropped)], cleaner.report


# -- odd ones: pieces of turns and responses, in odd orders -------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *(
            "", " ", "words", "<think>", "</think>", "<think>\nhm\n</think>", "<tool_call>", "</tool_call>", "<answer>",
            "</answer>",
        ),
        *("<answer>Lisbon</answer>", "<tool_response>", "\ud83d", "\x00", "\\boxed{1}"),
        '{"name": "search", "arguments": {"query": "a"}}',
        '<tool_call>{"name": "google_search", "arguments": {"queries": ["a", "b"]}}</tool_call>',
        '<tool_call>{"name": "search", "arguments": {"query": ["</tool_call><think>"]}}</tool_call>',
        '<tool_call>{"name": "browse", "arguments": {"urls": "https://a.example/(x)", "purpose": ["g"]}}</tool_call>',
        "<tool_call>{'name': 'PythonInterpreter', 'arguments': {}}</tool_call><code>1</code>",
    ]
)  # fmt: skip
WHOLE_TURNS = st.sampled_from([search("a"), search("b"), visit("https://a.example/"), answer()])
TURNS = st.lists(PIECES, max_size=6).map("".join) | WHOLE_TURNS
RESPONSES = st.lists(PIECES, max_size=3).map("".join) | st.sampled_from(
    [
        seen(results("a")),
        results("b"),
        seen(results("a"), "Tool execution timed out after 3 seconds."),
        seen(
            "A Google search for 'it's' found 1 results:\n\n## Web Results\n1. [A [PDF]](https://a.example/(x))\nSource: A\n\nb"
        ),
        seen('[{"query": "a", "web_page_info_list": [{"url": "u", "title": " a\\n b", "snippet": "Source: y\\n"}]}]'),
    ]
)
KINDS = st.sampled_from([TURN, SEEN] * 4 + list(NodeKind))


@st.composite
def conversations(draw: st.DrawFn) -> Trajectory:
    """Trajectories that look like ones, more or less."""
    kinds = draw(st.lists(KINDS, max_size=8))
    nodes = [message(kind, draw(TURNS if kind is TURN else RESPONSES)) for kind in kinds]
    opening = [message(kind, "Which city?") for kind in (SYSTEM, QUESTION)]
    end = [message(TURN, answer("It is Lisbon, " + "as far as anybody knows. " * 5))]
    said = [*draw(st.sampled_from([opening, [], opening[1:]])), *nodes, *draw(st.sampled_from([end, []]))]
    with_ids = draw(st.sampled_from([0, 0, 1, 2]))  # for no message, for every one, for every other one
    ids = {"token_ids": (1, 2), "logprobs": (-0.5, -0.5), "versions": (0, 0)}
    said = [node.model_copy(update=ids) if with_ids and not place % with_ids else node for place, node in enumerate(said)]
    found = chain(*said)
    if not found.nodes or draw(st.booleans()):
        return found
    attempt = message(TURN, draw(TURNS), rejected=True).model_copy(update={"parent": draw(st.integers(0, len(said) - 1))})
    return found.model_copy(update={"nodes": (*found.nodes, attempt)})


ANY = trajectories() | conversations()


@given(st.lists(ANY, max_size=3), st.sampled_from(list(RECIPES)))
def test_what_came_in_is_what_was_kept_and_what_was_dropped_and_twice_is_once(found: list[Trajectory], name: str) -> None:
    before = [one.model_dump() for one in found]
    kept, dropped, report = clean(found, RECIPES[name])
    assert before == [one.model_dump() for one in found], "what was given stays as it was"
    assert report.came_in == len(found) == len(kept) + len(dropped)
    assert (report.kept, report.dropped, sum(report.reasons.values())) == (len(kept), len(dropped), len(dropped))
    assert Counter(one.id for one in found) == Counter([one.id for one in kept] + dropped)
    assert [step.came_in for step in report.steps[1:]] == [step.went_out for step in report.steps[:-1]]
    for one in kept:
        assert decode_trajectory(decode_record(encode_record(one))) == one
    again, dropped, report = clean(kept, RECIPES[name])
    assert (again, dropped, report.changed) == (kept, [], 0)


@given(ANY, st.sampled_from(list(STEPS)))
def test_every_step_alone_is_idempotent(found: Trajectory, name: str) -> None:
    once = step(name, found).trajectory
    if once is not None:
        assert step(name, once).trajectory == once


# -- steps ----------------------------------------------------------------------------------------------------------------

LATE = seen("Tool execution timed out after 120 seconds.")
DEAD = "The useful information in u for user goal g as follows: \n\nEvidence in page: \nThe page could not be accessed."
GOALS = calls(*(visit("https://a.example/", goal=f"{number}") for number in range(4)))
FAILED = talk(search("a"), LATE, search("b"), LATE, search("c"), seen("[]"), answer())
BARE = talk(search("a"), seen("x"), search("a").partition("\n\n")[2], seen("x"), answer())
TWO = calls(search("a"), search("b"))
SIZE = sum(len(node.text) for node in TWO.branch())
USED = calls(search("a"), call_text(("pythoninterpreter", {"code": "1"})))
GUESSED = talk(call_text(("python", {"code": "1"})) + "\n\n<answer>\nPorto\n</answer>", seen("x"), answer())


@pytest.mark.parametrize(
    ("name", "found", "settings", "reason", "detail"),
    [
        ("repeat_limit", calls(*[search("a")] * 3), {}, None, ""),
        ("repeat_limit", calls(*[search("a")] * 4), {}, Reason.REPEATED_CALLS, '4 times ["search", ["a"]]'),
        ("repeat_limit", GOALS, {}, None, ""),
        ("repeat_limit", GOALS, {"with_goal": False}, Reason.REPEATED_CALLS, '4 times ["visit", ["https://a.example/"], null]'),
        ("min_calls", calls(search("a")), {}, Reason.TOO_FEW_CALLS, "1 calls"),
        ("min_calls", calls(search("a"), search("a")), {}, None, ""),
        ("tool_errors", FAILED, {}, None, ""),
        ("tool_errors", FAILED, {"most": 1}, Reason.TOOL_ERRORS, "2 failed calls"),
        ("tool_errors", talk(visit("u"), seen(DEAD), answer()), {"most": 0}, Reason.TOOL_ERRORS, "1 failed calls"),
        ("reasoning", BARE, {}, Reason.NO_REASONING, "turn 2"),
        ("reasoning", calls(search("a", think="Hm.")), {"least_characters": 4}, Reason.NO_REASONING, "turn 1"),
        ("forbidden", USED, {}, Reason.FORBIDDEN_TOOL, "pythoninterpreter"),
        ("prune", GUESSED, {}, Reason.FORBIDDEN_TOOL, "no call is left: all were of other tools"),
        ("length", TWO, {"most_turns": 2}, Reason.TOO_LONG, "3 turns"),
        ("length", TWO, {"most_characters": SIZE}, None, ""),
        ("length", TWO, {"most_characters": SIZE - 1}, Reason.TOO_LONG, f"{SIZE} characters"),
    ],
)
def test_filters_at_their_numbers(name: str, found: Trajectory, settings: dict, reason: Reason | None, detail: str) -> None:
    done = step(name, found, get_profile("literesearcher-4b"), **settings)
    assert (done.reason, done.detail) == (reason, detail) and (reason is not None or done.trajectory is found)


@pytest.mark.parametrize("text", ["\ufffd", "\ud83d", "a\x00b", "it\u00e2\u20ac\u2122s", r"\u6f6e\u95f4"])
def test_garbled_text_of_the_agent(text: str) -> None:
    assert step("artefacts", calls(search("a", think=f"So {text} it is."))).reason is Reason.ARTEFACTS


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffd"), min_size=1))
def test_what_was_misread_is_found(text: str) -> None:
    found = step("artefacts", calls(search("a", think=text.encode("utf-8").decode("latin-1")))).reason
    assert (found is None) == text.isascii()


UNREADABLE = "<think>\nhm\n</think>\n\n<tool_call>\n{broken\n</tool_call>"
BESIDE = answer().replace("<answer>", '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n\n<answer>')


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "minimal"])  # which removes nothing
@pytest.mark.parametrize(
    "turns",
    [
        (UNREADABLE, seen("x"), answer()), (BESIDE,), (BESIDE.replace('"f"', '"search"'),),
        (UNREADABLE + answer().partition("</think>")[2],), (search("a"), answer()),
        (search("a").replace("search", "f"), seen("x"), answer()),
    ],
)  # fmt: skip
def test_without_any_of_its_calls_a_trajectory_is_dropped_in_every_recipe(turns: tuple[str, ...], name: str) -> None:
    kept, dropped, _ = clean([talk(*turns)], RECIPES[name])
    assert not kept and dropped


GOOD = talk(search("a"), seen("x"), answer())


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (chain(), Reason.EMPTY),
        (chain(*GOOD.nodes[1:]), Reason.SYSTEM_NOT_FIRST),
        (chain(GOOD.nodes[0], *GOOD.nodes[2:]), Reason.NO_QUESTION),
        (chain(*GOOD.nodes[:2], GOOD.nodes[3], *GOOD.nodes[2:]), Reason.BROKEN_ORDER),
        (chain(*GOOD.nodes[:4], *GOOD.nodes[3:]), Reason.BROKEN_ORDER),
        (chain(*GOOD.nodes[:3], *GOOD.nodes[4:]), Reason.BROKEN_ORDER),
        (talk(search("a"), "x", answer()), Reason.UNWRAPPED_RESPONSE),
        (talk(search("a"), seen("x")), Reason.NO_ANSWER),
        (talk("<think>hm</think>", seen("x"), answer()), Reason.MALFORMED_TURN),
        (talk(search("a"), seen("x"), "<answer>Lisbon</answer>"), Reason.NO_REASONING),
        (talk(search("a", think=" "), seen("x"), answer()), Reason.NO_REASONING),
        (talk(search("a"), seen("x"), answer() + " So."), Reason.MALFORMED_ANSWER),
        (talk(search("a"), seen("x"), answer(), "Thank you."), Reason.BROKEN_ORDER),
        (chain(*GOOD.nodes, message(NodeKind.RAW, "?")), Reason.UNREADABLE),
    ],
)
def test_what_does_not_keep_to_the_protocol(found: Trajectory, reason: Reason) -> None:
    assert step("validate", found)[:2] == (None, reason)


def sampled(text: str, number: int, **fields: Any) -> Node:
    """A turn with ids, as of a loop: its text begins inside the reasoning, as the prompt's tag has it."""
    ids = {
        "token_ids": tuple(range(number, number + 3)), "logprobs": (-0.5,) * 3, "versions": (1,) * 3,
        "loss_mask": (True,) * 3,
    }  # fmt: skip
    return message(TURN, text, **ids, **fields).model_copy(update={"text": text.removeprefix("<think>\n")})


LISTED = message(SEEN, seen(results("a")), token_ids=(9, 9))


def record(*nodes: Node) -> Trajectory:
    """An episode of our own loop, with ids throughout."""
    prompt = render_system(DR_VENUS, default_specs(DR_VENUS), FixedClock(datetime.date(2026, 3, 1)))
    opening = ((SYSTEM, prompt), (QUESTION, render_question(DR_VENUS, "Which city?")))
    given = [message(kind, text, token_ids=(9, 9)) for kind, text in opening]
    return chain(*given, *nodes, profile=DR_VENUS.name, tokenizer="fingerprint")


def cleaned(found: Trajectory) -> tuple[Trajectory, dict[str, int]]:
    (kept,), _, report = clean([found], RECIPES["dr-venus"])
    return kept, {code: number for one in report.steps for code, number in one.notes.items()}


def test_a_recipe_without_steps_keeps_everything() -> None:
    found = record(sampled(search("a"), 0), LISTED, sampled(answer(), 3))
    assert clean([found], RECIPES["minimal"].model_copy(update={"steps": ()}))[0] == [found]


def test_a_removed_turn_leaves_the_others_their_ids_but_later_ones_no_log_probabilities() -> None:
    kept, counts = cleaned(record(sampled(search("a"), 0), LISTED, sampled(search("a"), 3), LISTED, sampled(answer(), 6)))
    first, last = [node for node in kept.branch() if node.kind is TURN]
    assert (first.logprobs, first.versions) == ((-0.5,) * 3, (1,) * 3)
    assert (last.logprobs, last.versions) == (None, (1,) * 3)
    assert counts["logprobs_dropped"] == 1
    assert kept.token_ids() == [9, 9, 9, 9, 0, 1, 2, 9, 9, 6, 7, 8]


def test_the_whole_order_leaves_ids_throughout_or_none() -> None:
    """Training refuses a record with ids for some messages; turns are then written out with the prompt's tag."""
    odd = search("a").replace('"search"', '"google_search"')
    kept, counts = cleaned(record(sampled(odd, 0), LISTED, sampled(answer(), 3)))
    assert {node.token_ids for node in kept.nodes} == {None}
    assert [node.text for node in kept.turns()] == [search("a"), answer()]
    assert counts["messages_without_ids"] == 4


def test_a_rejected_attempt_stays_where_its_context_stays() -> None:
    base = record(sampled(search("a"), 0), LISTED, sampled(answer(), 3))
    rejected = message(TURN, "no form", rejected=True).model_copy(update={"parent": 3})
    last = base.nodes[4].model_copy(update={"parent": 3})
    for found in (base, base.model_copy(update={"nodes": (*base.nodes[:4], rejected, last), "leaf": 5})):
        assert cleaned(found) == (found, {}), "what is well-formed is not touched"


def test_a_branch_whose_context_changed_is_pruned_and_counted() -> None:
    turns = (sampled(text, place) for place, text in enumerate((search("a"), search("a"), visit("u"), answer())))
    base = record(*[node for turn in turns for node in (turn, LISTED)][:-1])
    early = message(TURN, "no form", rejected=True).model_copy(update={"parent": 3})
    late = message(TURN, "no form", rejected=True).model_copy(update={"parent": 7})
    child = Node(parent=10, role=Role.USER, kind=NodeKind.HINT, text="Malformed.")
    kept, counts = cleaned(base.model_copy(update={"nodes": (*base.nodes, early, late, child)}))
    assert counts["branch_messages_pruned"] == 2
    assert len(kept.nodes) == len(base.nodes) - 2 + 1
    assert kept.leaves() == [kept.leaf, len(kept.nodes) - 1]
    assert kept.nodes[-1].parent == 3 and kept.nodes[-1].rejected


def test_a_step_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "def short(draft, *, most=2):\n    draft.rounds = draft.rounds[-most:]\n    draft.notes['turns_removed'] += 1\n"
    )
    recipe = CleaningRecipe(steps=(f"{file}:short", "validate"))
    (kept,), _, report = clean([calls(search("a"), search("b"))], recipe)
    assert [node.text for node in kept.turns()] == [search("b"), answer()] and report.steps[0].notes == {"turns_removed": 1}
    with pytest.raises(UserError, match="defines no 'long'"):
        Cleaner(CleaningRecipe(steps=(f"{file}:long",)), DR_VENUS)


# -- files ----------------------------------------------------------------------------------------------------------------

BAD = talk(search("a"), seen(results("a")), "I give up. [red]\x1b[31m", id="bad")


def into(out: Path, found: Iterable[Trajectory]) -> None:
    clean_file(found, out, RECIPES["dr-venus"], DR_VENUS, origin=Path("raw.jsonl"))


def test_the_kept_ones_come_last(tmp_path: Path) -> None:
    def in_the_way():
        yield from (GOOD, BAD)
        (tmp_path / "kept.clean.json").mkdir()

    with pytest.raises(UserError, match=r"Cannot write .*kept.clean.json"):
        into(tmp_path / "kept.jsonl", in_the_way())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.clean.json", "kept.dropped.jsonl"]


@pytest.mark.parametrize("name", ["kept.jsonl", "kept.parquet"])
def test_a_failure_leaves_what_stood_there(tmp_path: Path, name: str) -> None:
    def broken():
        yield GOOD
        raise RuntimeError("the source broke")

    into(tmp_path / name, [GOOD, BAD])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RuntimeError):
        into(tmp_path / name, broken())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["clean", *map(str, arguments)], catch_exceptions=False, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.output


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    raw, kept, recipe = tmp_path / "raw.jsonl", tmp_path / "kept.jsonl", tmp_path / "mine.toml"
    TrajectoryStore(raw).append(GOOD)
    recipe.write_text('steps = ["min_calls"]\n[min_calls]\nleast = 3\n')
    assert "dropped 1 too_few_calls" in run(raw, "--out", kept, "--recipe", recipe)
    run(raw, "--out", kept, "--recipe", recipe, "--set", "min_calls.least=1", "--set", "profile=agentcpm-explore-4b")
    assert len(list(TrajectoryStore(kept))) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--out", "FOLDER"], "is a folder"),
        (["--out", "K", "--recipe", "dr-vens"], "did you mean 'dr-venus'"),
        (["--out", "K", "--set", "repeats.goal=true"], "did you mean repeats.with_goal"),
        (["--out", "K", "--set", "min_calls.least=-1"], "min_calls.least"),
        (["--out", "K", "--set", 'steps=["polish"]'], "steps"),
        (["--out", "K", "--recipe", "none.toml"], "There is no file none.toml"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, arguments: list[str], told: str) -> None:
    TrajectoryStore(tmp_path / "raw.jsonl").append(GOOD)
    places = {"K": str(tmp_path / "kept.jsonl"), "FOLDER": str(tmp_path)}
    with pytest.raises(UserError, match=told):
        run(tmp_path / "raw.jsonl", *(places.get(one, one) for one in arguments))
