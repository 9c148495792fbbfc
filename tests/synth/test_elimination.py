"""Questions of elimination: one answer each, ways within their bounds, and a teacher who is right unless it errs."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.agent.agent import Agent
from sanderling.cli.main import build_app
from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.grammar import check_turn
from sanderling.core.profiles import TINY
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.data.questions import read_questions
from sanderling.policy.contract import SampleKey
from sanderling.recipes.tiny import SHIPPED_BASE, TinyConfig, TinyRun, build
from sanderling.rl.config import RolloutConfig
from sanderling.rl.gain import milestones
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.work import in_parallel
from sanderling.synth.elimination import CANDIDATES, Case, Form, elimination_questions
from sanderling.synth.head import EARLY, ModeShares
from sanderling.synth.teacher import TeacherPolicy
from sanderling.synth.verify import CHECKS, Check
from sanderling.tools.world_tools import world_tools
from sanderling.world.disk.store import open_world
from sanderling.world.encyclopedia import (
    EVENT_FORMS,
    ORGANISATION_FORMS,
    WORK_FORMS,
    Encyclopedia,
    Names,
    Site,
    generate_encyclopedia,
    said_of,
)
from sanderling.world.local import LocalWorld

FORMS = list(Form)
VISITS = {Form.SHORT: range(2, 5), Form.LONG: range(10, 11)}
PROFILES = {
    Form.SHORT: RolloutConfig(max_turns=8, context_tokens=1_024).applied(TINY),
    Form.LONG: RolloutConfig(max_turns=40, context_tokens=4_096).applied(TINY),
}


def shares(**forced: float) -> ModeShares:
    none = dict.fromkeys(ModeShares.model_fields, 0.0)
    return ModeShares(**{**none, **forced})


@cache
def world_of(seed: int = 4, names: Names = Names.TRAIN) -> Encyclopedia:
    return generate_encyclopedia(120, seed, names, registers=True)


@cache
def local() -> LocalWorld:
    return LocalWorld.in_memory(world_of().all_pages(), name="registers")


@cache
def questions_of(form: Form) -> list[Question]:
    return elimination_questions(world_of(), 60, 1, form)


async def teach(form: Form, modes: ModeShares, questions: Sequence[Question], attempts: int = 1) -> list[Trajectory]:
    policy = TeacherPolicy(world_of(), {question.id: question for question in questions}, modes)
    agent = Agent(policy, world_tools(local(), PROFILES[form]), PROFILES[form])
    asked = [(question, attempt) for attempt in range(attempts) for question in questions]
    return await in_parallel(lambda one: agent.run(one[0], Seeds(run=3, attempt=one[1])), asked, 4)


def right(found: Sequence[Trajectory]) -> float:
    return sum(trajectory.answer in trajectory.question.answers for trajectory in found) / len(found)


def visited(trajectory: Trajectory) -> list[str]:
    return [url for node in trajectory.turns() for call in node.calls if call.name == "visit" for url in call.arguments["url"]]


@pytest.mark.parametrize("form", FORMS)
def test_exactly_one_candidate_fulfils_all_conditions(form: Form) -> None:
    """By the objects alone: shares no code with the maker."""
    facts = world_of().facts
    for question in questions_of(form):
        case, fulfilled = Case.of(question), Counter[int]()
        for condition in case.conditions:
            at = condition.start
            for relation in condition.way:
                at = int(facts.objects[at, relation])
            for person in case.candidates:
                fulfilled[person] += facts.objects[person, condition.relation] == at
        assert [person for person in case.candidates if fulfilled[person] == len(case.conditions)] == [case.answer]
        assert question.answers[0] == facts.entities[case.answer].name
        assert len({facts.entities[person].name for person in case.candidates}) == CANDIDATES
        assert all(facts.entities[person].mention in question.text for person in case.candidates)


def test_long_questions_name_nothing_that_is_to_be_found_out() -> None:
    """Each object is to be read on the page before, so all are milestones; a short question names them all."""
    for question in questions_of(Form.LONG):
        steps = [fact for fact in question.meta["facts"] if "(register)" not in fact["url"]]
        told = [forms[0] for forms, _ in milestones(question)]
        assert len(steps) == 8 and told == [fact["object"] for fact in steps]
        assert not any(fact["object"] in question.text for fact in steps)
    assert not any(list(milestones(question)) for question in questions_of(Form.SHORT))


@pytest.mark.parametrize("form", FORMS)
def test_the_answer_stands_anywhere_among_the_candidates(form: Form) -> None:
    places = Counter(Case.of(one).candidates.index(Case.of(one).answer) for one in questions_of(form))
    assert len(places) == CANDIDATES and max(places.values()) < 20


@pytest.mark.parametrize("form", FORMS)
def test_same_seed_same_questions(form: Form) -> None:
    again = generate_encyclopedia(120, 4, registers=True)
    assert elimination_questions(again, 60, 1, form) == questions_of(form)
    assert elimination_questions(again, 10, 1, form) == questions_of(form)[:10]
    assert elimination_questions(again, 60, 2, form) != questions_of(form)


@pytest.mark.parametrize("form", FORMS)
def test_no_held_out_name_is_asked_about_in_training(form: Form) -> None:
    forms = {*ORGANISATION_FORMS, *WORK_FORMS, *EVENT_FORMS, "of"}
    words = {word for entity in world_of(7001, Names.HELD_OUT).facts.entities for word in entity.name.split()} - forms
    assert elimination_questions(world_of(7001, Names.HELD_OUT), 5, 1, form)
    shown = [page.text for page in world_of().all_pages()] + [question.text for question in questions_of(form)]
    assert not words & {word.strip(".,?:()") for text in shown for word in text.split()}


@pytest.mark.parametrize("form", FORMS)
async def test_a_faultless_teacher_is_right_within_the_bounds(form: Form) -> None:
    tokenizer, found = load_tokenizer(SHIPPED_BASE), await teach(form, shares(), questions_of(form))
    assert right(found) == 1.0
    for trajectory in found:
        urls = visited(trajectory)
        assert len(set(urls)) in VISITS[form] and len(urls) in VISITS[form]
        assert set(urls) <= {fact["url"] for fact in trajectory.question.meta["facts"]}
        assert (
            sum(len(tokenizer.encode(node.text)) + 5 for node in trajectory.nodes) < PROFILES[form].budgets.max_context_tokens
        )
        assert not any(check_turn(turn.text, think_open=False) or turn.problems for turn in trajectory.turns())


@pytest.mark.parametrize("form", FORMS)
async def test_each_fact_stands_on_its_page(form: Form) -> None:
    for question in questions_of(form)[:20]:
        found = await CHECKS[Check.EVIDENCE](question, local(), local().page)
        assert found.meta["way"] == "facts" and set(found.meta["urls"]) == {fact["url"] for fact in question.meta["facts"]}
        assert all(fact.keys() == {"subject", "relation", "object", "url", "quote"} for fact in question.meta["facts"])


async def test_an_early_guess_is_right_as_often_as_one_of_those_left() -> None:
    """Without a word on the page before it, so that a student learns how likely each is from the page itself."""
    found = await teach(Form.SHORT, shares(stop_early=0.4), questions_of(Form.SHORT), attempts=20)
    early = [one for one in found if list(one.turns())[-1].text.startswith(f"<think>\n{EARLY}\n</think>")]
    for visits, least, most in ((0, 0.08, 0.17), (1, 0.25, 0.45)):
        guessed = [one for one in early if len(visited(one)) == visits]
        assert len(guessed) > 150 and least < right(guessed) < most


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("fault", "share"), [("gazette", 0.4), ("miss", 0.4), ("stop_early", 0.2), ("slip", 0.2)])
async def test_each_fault_shows_and_costs(form: Form, fault: str, share: float) -> None:
    found = await teach(form, shares(**{fault: share}), questions_of(form))
    assert right(found) == 1.0 if fault == "slip" else 0.1 < right(found) < 0.95
    gazette = sum(url.startswith(Site.GAZETTE) for one in found for url in visited(one))
    slips = sum(bool(turn.problems) for one in found for turn in one.turns())
    assert (gazette > 0) == (fault == "gazette") and (slips > 0) == (fault == "slip")


@pytest.mark.parametrize("form", FORMS)
async def test_what_the_teacher_says_of_a_register_stands_there(form: Form) -> None:
    """Also after a page that was wrong has led it to another register."""
    facts, said, nobody = world_of().facts, 0, 0
    for trajectory in await teach(form, shares(gazette=0.4), questions_of(form), attempts=3):
        for turn, after in pairwise(trajectory.turns()):
            urls = [url for call in turn.calls for url in call.arguments["url"] if "(register)" in url]
            names = re.search(r"The register has (?!nobody)(.+?)\. Others out\.", after.text)
            nobody += "The register has nobody." in after.text
            if names:
                members = world_of().register_by_url[urls[0]].members
                assert {*names[1].split(", ")} <= {facts.entities[person].name for person in members}
                said += 1
    assert said > 100 and nobody > 10


def test_registers_list_who_belonged_and_leave_the_world_as_it_was() -> None:
    plain, listed = generate_encyclopedia(120, 4), world_of()
    pages = list(listed.all_pages())
    assert pages[: len(plain.pages)] == list(plain.all_pages()) and listed.facts == plain.facts
    for register in listed.registers:
        told = {
            person
            for (person, relation), value in listed.facts.objects.items()
            if (relation, value) == (register.relation, register.entity)
        }
        if register.page.source == "atlas":
            assert set(register.members) == told
            assert said_of(register.relation, listed.facts.entities[register.entity].mention) in register.page.text
    assert any(
        set(one.members) != set(two.members) for one, two in zip(listed.registers[::2], listed.registers[1::2], strict=True)
    )


def test_what_cannot_be_asked_is_one_sentence() -> None:
    for form in FORMS:
        with pytest.raises(UserError, match="SIZE/SEED/registers"):
            elimination_questions(generate_encyclopedia(120, 4), 5, 1, form)
        with pytest.raises(UserError, match="make it larger or ask fewer"):
            elimination_questions(generate_encyclopedia(40, 245, registers=True), 3, 1, form)
    question = questions_of(Form.SHORT)[0]
    policy = TeacherPolicy(world_of(5), {question.id: question}, shares())
    with pytest.raises(UserError, match="is not of world"):
        policy.open(SampleKey(1, question.id, 0, 0))


@pytest.mark.parametrize("form", FORMS)
def test_from_the_command_line(tmp_path: Path, form: Form) -> None:
    world, questions, out = tmp_path / "w", tmp_path / "q.jsonl", tmp_path / "t.jsonl"
    for command in (
        ["world", "build", "encyclopedia", "--size", 120, "--seed", 4, "--out", world, "--registers"],
        ["synth", "elimination", world, "--out", questions, "--count", 4, "--form", form],
        ["synth", "verify", questions, "--world", world, "--check", "evidence", "--out", tmp_path / "kept.jsonl"],
        [
            "data",
            "generate",
            questions,
            "--world",
            world,
            "--model",
            "teacher:120/4/registers",
            "--judge",
            "exact",
            "--profile",
            "tiny",
            "--out",
            out,
        ],
    ):
        result = CliRunner().invoke(build_app(str(command[0])), list(map(str, command)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
    assert len(read_questions(tmp_path / "kept.jsonl")) == 4
    assert all(one.answer for one in TrajectoryStore(out))


@pytest.mark.parametrize("form", FORMS)
def test_the_tiny_recipe_asks_them(tmp_path: Path, form: Form) -> None:
    config = TinyConfig.model_validate(
        {"questions": {"elimination": form}, "rollout": {"max_turns": 40, "context_tokens": 4_096}}
    )
    run = TinyRun(tmp_path, config)
    assert (run.profile.name, run.profile.budgets.max_turns, run.profile.budgets.max_context_tokens) == ("tiny", 40, 4_096)
    world = build(run, run.training[0])
    assert {question.meta["form"] for question in config.questions.of(world, 3)} == {form}
    stored = open_world(run.world_directory(run.training[0]))
    assert all(stored.page(page.url) is not None for page in world.all_pages())
