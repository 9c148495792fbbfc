"""Whether gains can teach: the figures on rollouts whose truth is known, and the command on models and recorded files."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_gain import TOKENS, with_facts
from train_records import record
from typer.testing import CliRunner

from sanderling.cli.main import build_app
from sanderling.core.record import NodeKind, ToolEvent, Trajectory
from sanderling.core.types import ToolCall, ToolStatus
from sanderling.recipes.tiny import SHIPPED_SFT
from sanderling.rl.check_gains import BEFORE, FINAL, OTHER, GainCheck, check_gains, turns_worth, visits_bring
from sanderling.rl.credit import Assignment, GrpoConfig, IgpoConfig, build_estimator
from sanderling.rl.gain import GainConfig, Probe, find_targets
from sanderling.rl.gain_report import CheckConfig, dealt, read_rollouts
from sanderling.rl.table import Graded, build_table
from sanderling.runs.jsonl import write_trajectories

FACTS = ({"object": "the Guild", "url": "https://a.example/Ann"}, {"object": "Oslo", "url": "https://a.example/Guild"})


def visiting(pages: str, *, answer: str = "Oslo", question: str = "q", facts=FACTS) -> Trajectory:
    """A rollout that visits pages, a letter each (A: Ann's, G: the Guild's), and answers."""
    one = record("v" * len(pages) + "a", question=question, answer=answer)
    urls = iter(
        {"A": "https://a.example/Ann", "G": "https://a.example/Guild"}.get(page, f"https://b.example/{page}") for page in pages
    )
    calls = iter(pages)
    nodes = []
    for node in one.nodes:
        if node.kind is NodeKind.TURN and node.answer is None:
            node = node.model_copy(update={"calls": (ToolCall(name="visit", arguments={"url": next(calls)}),)})
        if node.kind is NodeKind.OBSERVATION:
            event = ToolEvent(name="visit", role="visit", status=ToolStatus.OK, provenance=(next(urls),))
            node = node.model_copy(update={"events": (event,)})
        nodes.append(node)
    return with_facts(one.model_copy(update={"nodes": tuple(nodes)}), *facts)


def test_needed_visits_are_the_first_to_bring_a_fact():
    assert list(visits_bring(visiting("xAAGG"))) == [OTHER, BEFORE, OTHER, FINAL, OTHER, None]
    assert list(visits_bring(visiting("GA"))) == [FINAL, BEFORE, None]
    assert list(visits_bring(visiting("G", facts=({"url": "https://a.example/Guild", "quote": "In Oslo."},)))) == [FINAL, None]
    others = ({"object": "the Guild", "url": FACTS[0]["url"]}, {"object": "Bergen", "url": FACTS[1]["url"]})
    assert list(visits_bring(visiting("GxAA", facts=others))) == [BEFORE, OTHER, FINAL, OTHER, None], "what completes them"
    told = visiting("xy", facts=())
    nodes = [n.model_copy(update={"text": "It is in Oslo."}) if n.kind is NodeKind.OBSERVATION else n for n in told.nodes]
    assert list(visits_bring(told.model_copy(update={"nodes": tuple(nodes)}))) == [FINAL, OTHER, None], "by the answer's name"


def batch_of(
    *rollouts: tuple[str, float], gains=lambda pages: [None] * len(pages), questions: int = 1, facts=FACTS
) -> list[Graded]:
    """The rollouts, dealt to so many questions."""
    made = []
    for number, (pages, outcome) in enumerate(rollouts):
        group = number % questions
        one = visiting(pages, answer="Oslo" if outcome else "Rome", question=f"q{group}", facts=facts)
        size = len(pages) + 1
        made.append(Graded(one, group, outcome, [0.0] * size, [False] * size, gains=[*gains(pages), None]))
    return made


def test_a_turns_worth_is_the_mean_outcome_of_the_others_that_took_it_less_of_those_that_stood_before_it():
    batch = batch_of(*[("A", 1.0)] * 5, *[("B", 0.0)] * 5, ("C", 1.0))
    worth, weight = turns_worth(batch, build_table(batch))
    assert weight.reshape(-1, 2)[0, 0] == 4 and weight.reshape(-1, 2)[10, 0] == 0, "nobody else took C"
    assert worth[0] == pytest.approx(4 / 4 - 5 / 10) and worth[1] == 0, "the answer is one that all four gave"
    assert worth[10] == pytest.approx(0 / 4 - 6 / 10)


def test_turns_of_a_group_stand_in_one_state_where_the_same_calls_were_run():
    """A rollout on pages A, G and B; as a letter: turns with one letter stand in one state."""
    batch = batch_of(("AG", 1.0), ("AB", 0.0), ("BG", 0.0))
    other = replace(batch[0], group=1)  # the same question once more
    first, hinted = batch[0].trajectory, NodeKind.HINT
    nodes = [n.model_copy(update={"kind": hinted}) if n.kind is NodeKind.OBSERVATION else n for n in first.nodes]
    never_run = replace(batch[0], trajectory=first.model_copy(update={"nodes": tuple(nodes)}))
    states = build_table([*batch, other, never_run]).state
    letters = "abc" + "abd" + "aef" + "ghi" + "ajk"
    assert [[one == two for two in states] for one in states] == [[one == two for two in letters] for one in letters]


def test_credit_is_made_in_groups_as_large_as_training_s_and_worth_by_all():
    batch = batch_of(*[("A", 1.0), ("B", 0.0)] * 5, questions=2)
    groups = [one.group for one in dealt(batch, 2)]
    assert [groups.count(group) for group in dict.fromkeys(groups)] == [2, 2, 2, 2, 1, 1]
    assert len({(one.group, two) for one, two in zip(batch, groups, strict=True)}) == 6, "a group is of one question"
    assert dealt(batch, None) is batch


class Scores:
    """Everything is equally likely, but for what stands behind a probe that is not the policy's."""

    def __init__(self, behind: float = -0.5) -> None:
        self.behind = behind

    def score_many(self, requests):
        return [
            [np.full(end - first, -0.5 if place == 0 else self.behind) for place, (first, end) in enumerate(r.answer_spans)]
            for r in requests
        ]


def checked(batch: list[Graded], scores: Scores, config: GainConfig) -> GainCheck:
    table = build_table(batch)
    credit = build_estimator(IgpoConfig(assignment=Assignment.OWN_TURN, gamma=0.9)).components(table)
    return check_gains(batch, table, credit, find_targets([one.trajectory for one in batch], config), TOKENS, scores, config)


@pytest.mark.parametrize("sees", [True, False])
def test_gains_that_follow_worth_are_worth_it_and_those_that_do_not_see_needed_visits_are_not(sees: bool):
    rng = np.random.default_rng(5)
    rollouts = []
    for _ in range(160):
        first = "AB"[rng.integers(2)]
        second = "GH"[rng.integers(2)]
        rollouts.append((first + second, float(rng.random() < (0.9 if first + second == "AG" else 0.15))))

    def gains(pages: str) -> list[float]:
        return [float(page in "AG") * sees + 0.1 * float(rng.normal()) for page in pages]

    check = checked(batch_of(*rollouts, gains=gains, questions=8), Scores(), GainConfig())
    assert check.is_worth_it is sees, check.sentence
    assert check.advantage_r and check.outcome_r and (check.advantage_r.value > check.outcome_r.value + 0.05) is sees
    assert check.auc_before is not None and check.added_r2 is not None and check.outcome_r2 is not None
    assert check.auc_before.interval is not None and check.added_r2.interval is not None
    assert check.auc_before.interval[0] <= check.auc_before.value <= check.auc_before.interval[1]
    assert (check.added_r2.value > 0.1) is sees
    assert check.needed_r2 is not None and check.needed_r2.value > 0.1, "whatever gains say"
    assert ("worth a try" in check.sentence) is sees and ("do not see needed visits" in check.sentence) is not sees


def test_what_a_discount_loses_of_gains_is_said():
    """The first page decides, and says so; those after it bring large gains, whichever it was."""
    rng = np.random.default_rng(7)
    rollouts = [("AB"[rng.integers(2)] + "GH" * 3, 0.0) for _ in range(160)]
    rollouts = [(pages, float(rng.random() < (0.9 if pages[0] == "A" else 0.1))) for pages, _ in rollouts]
    batch = batch_of(
        *rollouts, gains=lambda pages: [float(page == "A") + (number > 0) for number, page in enumerate(pages)], questions=8
    )
    check = checked(batch, Scores(), GainConfig())
    assert check.own_r2 is not None and check.added_r2 is not None
    assert check.own_r2.value > check.added_r2.value + 0.02, (check.own_r2, check.added_r2)
    assert "a smaller gamma keeps more of it" in check.sentence, check.sentence


def test_gains_that_are_noise_are_never_worth_it():
    """On the rows that it was fitted to, any column adds something to R²."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rollouts = [("AB"[rng.integers(2)], float(rng.random() < 0.5)) for _ in range(160)]
        noise = batch_of(*rollouts, gains=lambda pages, rng=rng: [float(rng.normal())], questions=10, facts=())
        found.append(checked(noise, Scores(), GainConfig()))
    assert not any(check.is_worth_it for check in found), [check.sentence for check in found]
    assert np.mean([check.added_r2.value for check in found if check.added_r2]) < 0


def test_how_much_of_a_batch_is_known_is_told():
    """Worth, by four others that made the same call; company, by one that made the same calls; what wrong rollouts left out."""
    batch = batch_of(*[("AG", 1.0)] * 5, ("AG", 0.0), ("AH", 0.0), ("BG", 0.0), ("xA", None))
    check = checked(batch, Scores(), GainConfig())
    assert check.known == pytest.approx((7 + 6 + 5) / 27), "A; then G; then the answer that five gave"
    assert check.company == pytest.approx((9 + 7 + 6) / 27), "at the question; after A; after A and G"
    assert check.missed == pytest.approx(2 / 3), "one read both pages and is wrong"
    assert checked(batch[:5], Scores(), GainConfig()).missed is None, "nobody is wrong"
    theirs = batch[6].trajectory  # a record of another system, which does not say what was read
    bare = [
        node.model_copy(update={"events": tuple(event.model_copy(update={"provenance": ()}) for event in node.events)})
        for node in theirs.nodes
    ]
    other = replace(batch[6], trajectory=theirs.model_copy(update={"nodes": tuple(bare)}))
    assert checked([*batch[:6], other], Scores(), GainConfig()).missed == 0
    unknown = batch_of(("A", 0.0), ("B", 0.0), facts=())
    assert checked(unknown, Scores(), GainConfig()).missed is None, "which pages are needed is not known"


def test_an_estimator_without_a_part_for_gains_says_nothing_against_gains():
    rollouts = [("A", 1.0)] * 40 + [("B", 0.0)] * 40
    batch = batch_of(*rollouts, gains=lambda pages: [float(pages == "A")], questions=8)
    table = build_table(batch)
    targets = find_targets([one.trajectory for one in batch], GainConfig())
    check = check_gains(batch, table, build_estimator(GrpoConfig()).components(table), targets, TOKENS, Scores(), GainConfig())
    assert check.added_r2 is not None and check.added_r2.value > 0.1, check.sentence


def test_a_probe_behind_which_answers_are_unlikely_is_foreign_and_says_so():
    batch = batch_of(("A", 1.0), ("A", 1.0), ("B", 0.0), gains=lambda pages: [0.1] * len(pages))
    given = GainConfig(probe=Probe(prefix="Well then: "))
    found = checked(batch, Scores(behind=-4.9), given)
    assert found.probe.is_foreign and "the probe is foreign" in found.sentence
    assert (found.probe.own, found.probe.behind, found.probe.written) == (-0.5, -4.9, 0.0)
    own = checked(batch, Scores(), GainConfig())
    assert not own.probe.is_foreign and own.probe.written > 0.5
    assert "share their first calls in too few" in own.sentence


@pytest.mark.parametrize(("asked", "facts"), [("Who of Ann and Bob worked for the Guild?", 0), ("Who worked there?", 1)])
def test_that_there_are_no_milestones_is_told(asked: str, facts: int):
    """As of elimination's short form, whose questions name all that facts tell: gains are the answer's alone."""
    batch = []
    for one in batch_of(("A", 1.0), ("B", 0.0), gains=lambda pages: [0.1], facts=({"subject": "Ann", "object": "the Guild"},)):
        nodes = tuple(node.model_copy(update={"text": "Ann worked for the Guild."}) for node in one.trajectory.nodes)
        question = one.trajectory.question.model_copy(update={"text": asked})
        batch.append(replace(one, trajectory=one.trajectory.model_copy(update={"question": question, "nodes": nodes})))
    found = checked(batch, Scores(), GainConfig(milestones=True))
    assert found.facts == facts and ("there are no milestones" in found.sentence) == (not facts)
    assert "no milestones" not in checked(batch, Scores(), GainConfig()).sentence


def test_without_a_right_rollout_or_a_gain_it_says_what_it_cannot_tell():
    batch = batch_of(("A", 0.0), ("B", 0.0))
    found = checked(batch, Scores(), GainConfig())
    assert found.probe.own is None and found.added_r2 is None and found.auc_final is None
    assert "no turn of these rollouts has one" in found.sentence
    lost = batch[0].trajectory.model_copy(update={"nodes": (), "leaf": None, "answer": None})
    for few in ([], [Graded(lost, 0, None, [], [])], [*batch, Graded(lost, 0, None, [], [])]):
        assert "no turn of these rollouts has one" in checked(few, Scores(), GainConfig()).sentence


def test_what_a_cut_rollout_said_last_is_no_answer():
    one = visiting("A")
    nodes = [node.model_copy(update={"text": "I look for Oslo."}) if node.calls else node for node in one.nodes[:-1]]
    cut = one.model_copy(update={"nodes": tuple(nodes), "leaf": len(nodes) - 1})
    found = checked([Graded(cut, 0, 1.0, [0.0], [False], gains=[0.1])], Scores(), GainConfig())
    assert found.probe.own is None


# -- the command -------------------------------------------------------------------------------------------------------------


def run(*arguments: str | Path):
    return CliRunner().invoke(build_app("rl"), ["rl", "check-gains", *map(str, arguments)])


def test_the_command_measures_a_stores_rollouts_and_writes_a_page(tmp_path: Path):
    rollouts = [visiting(pages, answer=answer) for pages, answer in [("AG", "Oslo")] * 6 + [("AH", "Rome")] * 6]
    made = [one.model_copy(update={"id": str(number), "tokenizer": None}) for number, one in enumerate(rollouts)]
    write_trajectories(tmp_path / "made.jsonl", made)
    store = tmp_path / "made.jsonl"
    result = run(store, "--model", SHIPPED_SFT, "--out", tmp_path / "found", "--set", "gain.milestones=true")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "found" / "gains.json").read_text())
    assert found["rollouts"] == 12 and found["scored"] == 24 and found["right"] == 0.5
    assert not found["worth_it"] and "there are no milestones" in found["sentence"], "nobody names the Guild"
    assert found["sentence"] in result.output.replace("\n", " ")
    page = (tmp_path / "found" / "gains.html").read_text()
    assert found["sentence"] in page and "<svg" in page and "src=" not in page
    result = run(
        store, "--model", SHIPPED_SFT, "--out", tmp_path / "theirs", "--recipe", "dr-venus-4b", "--set", "gain.form=prob"
    )
    assert result.exit_code == 0, result.output
    theirs = json.loads((tmp_path / "theirs" / "gains.json").read_text())
    assert theirs["probe"]["prefix"].startswith("Now there's enough") and theirs["config"]["form"] == "prob"


def test_questions_that_share_an_id_are_told_apart(tmp_path: Path):
    """As the first questions of two files often do."""
    rollouts = [visiting("AG", question="1"), visiting("AG", question="1", answer="Rome")]
    asked = rollouts[1].question.model_copy(update={"text": "which other?", "answers": ("Rome",)})
    write_trajectories(tmp_path / "one.jsonl", [rollouts[0]])
    write_trajectories(tmp_path / "two.jsonl", [rollouts[1].model_copy(update={"question": asked})])
    config = CheckConfig(files=(tmp_path / "one.jsonl", tmp_path / "two.jsonl"), model=SHIPPED_SFT)
    found = read_rollouts(config)
    with pytest.warns(UserWarning, match="Only the first 1 rollouts"):
        assert len(read_rollouts(config.model_copy(update={"most": 1}))) == 1
    with pytest.warns(UserWarning, match="copies of earlier ones: 2 rollouts"):
        assert len(read_rollouts(config.model_copy(update={"files": config.files * 2}))) == 2
    assert len({one.question.id for one, _ in found}) == 2 and [outcome for _, outcome in found] == [1.0, 1.0]


def test_bad_input_is_told_in_one_sentence(tmp_path: Path):
    write_trajectories(tmp_path / "open.jsonl", [record("va", answers=())])
    for arguments, says in (
        ((tmp_path / "no.jsonl", "--model", SHIPPED_SFT), "There is no file"),
        ((tmp_path / "open.jsonl", "--model", SHIPPED_SFT), "accepted answers"),
        ((tmp_path / "open.jsonl", "--model", tmp_path / "no"), "no model directory"),
        ((tmp_path / "open.jsonl", "--model", SHIPPED_SFT, "--set", "gain.form=odd"), "form"),
        (("--model", SHIPPED_SFT), "files"),
        ((tmp_path / "open.jsonl", "--model", SHIPPED_SFT, "--recipe", "tiny"), "measures no gains"),
    ):
        result = run(*arguments, "--out", tmp_path / "found")
        assert result.exit_code != 0 and says in str(result.exception), (arguments, result.exception)


@pytest.mark.skipif("SANDERLING_RECORDED" not in os.environ, reason="SANDERLING_RECORDED names no directory")
def test_recorded_rollouts_that_are_longer_than_the_model_reads_are_measured_up_to_there(tmp_path: Path):
    recorded = Path(os.environ["SANDERLING_RECORDED"]) / "dr-venus-sft"
    result = run(recorded, "--model", SHIPPED_SFT, "--out", tmp_path / "found")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "found" / "gains.json").read_text())
    assert found["cut"] == found["rollouts"] > 0 and not found["worth_it"]
