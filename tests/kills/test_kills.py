"""Law 9: any long command that is killed at any moment comes, called again, to the result of one that was let alone.

`CASES` has the commands. Twelve kills are made in every run of the tests; all commands at random moments in the slow ones.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import rl_runs
import sft_runs
from killing import Case, Moment, Place, called_in_peace, differences, killed, moments, result_of
from talker import Talker, talking

SFT = sft_runs.SETTINGS.replace("epochs = 2", "epochs = 3")
RL = rl_runs.SETTINGS.replace("steps = 4", "steps = 6")
RECIPE = """
title = "small"
workers = 2
worlds = { train = 2, train_entities = 40, held_out_entities = 40 }
questions = { per_world = 8, validation = 2, held_out = 3 }
evaluation = { attempts = 4, concurrency = 16 }
[sft]
epochs = 10
batch_tokens = 512
max_steps = 6
save_every = 2
[rl]
steps = 3
questions_per_step = 2
group_size = 2
save_every = 1
trainer = { temperature = 0.6, lr = 2e-4, entropy = true }
"""
WORLD = "encyclopedia-train-40-1"
GIVEN = (
    f"world build from encyclopedia:40/1 --name {WORLD} --out {{out}}/w",
    "world build from {out}/docs --out {out}/towns",
    "synth chains {out}/w --out {out}/q.jsonl --count 12",
    "data generate {out}/q.jsonl --world {out}/w --model teacher:40/1 --judge exact --out {out}/t.jsonl --no-progress",
    "model init --size tiny --world {out}/w --out {out}/base --dtype float32",
    "model init --size tiny --tokenizer {out}/base --out {out}/base2 --dtype float32 --seed 1",
)
"""What all cases share, made by commands."""
SERVED = ("asked", "bytes", "files")


def steps_alone(out: Path) -> object:
    """What is the same where training and sampling go on at once."""
    assert (out / "run" / "model" / "model.safetensors").is_file()
    return [json.loads(line)["step"] for line in (out / "run" / "metrics.jsonl").read_text().splitlines()]


TRAIN = "--model {given}/base --out {out}/run"
RL_RUN = f"train rl --questions {{given}}/q.jsonl --world {{given}}/w --recipe {{given}}/rl.toml {TRAIN}"
SECTIONS = "--model {url}#m --set budget.cache={out}/cache"
MERGED = "linear {given}/base {given}/base2"
CASES = {
    case.name: case
    for case in (
        Case("world-build", "world build from {given}/docs encyclopedia:60/2 --out {out}/w", "w/*.json w/*.jsonl"),
        Case(
            "world-add", "world add {out}/w {given}/docs", "w/*.json", before="world build encyclopedia --size 40 --out {out}/w"
        ),
        Case(
            "world-embed",
            "world embed {out}/w --embedder hashed:32",
            "w/dense/*",
            before="world build encyclopedia --size 400 --out {out}/w",
        ),
        Case("data-import", "data import {given}/raw --out {out}/t.jsonl", "*"),
        Case(
            "data-run",
            "data run {given}/raw --out {out}/run --tokenizer {given}/base --set split.shares=train=0.6,validation=0.4",
            "run/*.json run/**/*.parquet run/**/*.jsonl",
        ),
        Case(
            "data-judge",
            "data judge {given}/t.jsonl --judge {url}#m --out {out}/t.jsonl --set budget.cache={out}/cache --set concurrency=2",
            "t.jsonl",
            SERVED,
            again=2,
        ),
        Case(
            "ask",
            "ask Where? --world {given}/w --model {url}#m --profile tiny --out {out}/t.jsonl",
            "t.jsonl",
            SERVED,
        ),
        Case(
            "data-generate",
            f"data generate {{given}}/q.jsonl --world {{given}}/w {SECTIONS} --judge exact --out {{out}}/t.jsonl "
            "--profile tiny --no-progress",
            "t.jsonl",
            SERVED,
        ),
        Case("synth-facts", f"synth facts {{given}}/towns --out {{out}}/q.jsonl --pages 24 {SECTIONS}", "q.jsonl", SERVED),
        Case(
            "eval-run",
            f"eval run world {{given}}/q.jsonl --world {{given}}/w {SECTIONS} --judge {{url}}#judge --out {{out}}/run "
            "--profile tiny --attempts 2 --no-progress",
            "run/result.json",
            SERVED,
            unordered=True,
        ),
        Case("train-sft", f"train sft {{given}}/t.jsonl --recipe {{given}}/sft.toml {TRAIN}", "run/model/*"),
        Case(
            "train-sft-lora",
            f"train sft {{given}}/t.jsonl --recipe {{given}}/sft.toml {TRAIN} --set lora.rank=4",
            "run/adapter/*",
        ),
        # Not amid a rollout: turns that follow on a kill are decoded from a context read anew, which rounds otherwise.
        Case("train-rl", RL_RUN, "run/model/*", clocks=("files",)),
        Case(
            "train-rl-async", f"{RL_RUN} --set rl.pipeline.placement=beside --set rl.pipeline.max_staleness=2", read=steps_alone
        ),
        Case("merge-run", f"merge run {MERGED} --out {{out}}/m", "m/*"),
        Case(
            "merge-sweep",
            f"merge sweep {MERGED} --out {{out}}/s --skill chains={{given}}/few.jsonl --world {{given}}/w "
            "--set values=[0,0.5,1]",
            "s/sweep.json s/best/*",
        ),
        Case("recipe-tiny", "recipe run {given}/recipe.toml --out {out}/run", "run/report.json", close=1e-5),
    )
}


def conversation(number: int) -> dict[str, object]:
    """A recorded research as DR-Venus publishes them."""
    question = f"Who built the {number} bridge of the {number * 7} town?"
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": question}]
    for turn in range(1 + number % 4):
        call = json.dumps({"name": "search", "arguments": {"query": [f"{question} {turn}"]}})
        shown = json.dumps([{"query": "q", "web_page_info_list": [{"title": "t", "url": "u://x/", "snippet": "s"}]}])
        messages.append({"role": "assistant", "content": f"<think>\nlook {turn}\n</think>\n<tool_call>\n{call}\n</tool_call>"})
        messages.append({"role": "user", "content": f"<tool_response>\n{shown}\n</tool_response>"})
    answer = f"Ann {number}" if number % 5 else "nobody"
    messages.append({"role": "assistant", "content": f"<think>\ndone\n</think>\n<answer>\n{answer}\n</answer>"})
    return {"question": question, "messages": messages, "gt": f"Ann {number}"}


@pytest.fixture(scope="module")
def talker() -> Iterator[Talker]:
    with talking() as found:
        yield found


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory, talker: Talker) -> Path:
    """A world, questions, trajectories, documents and a model, all made by commands."""
    root = tmp_path_factory.mktemp("given")
    for name, text in (("sft", SFT), ("rl", RL), ("recipe", f"base = {json.dumps(str(root / 'base'))}\n{RECIPE}")):
        (root / f"{name}.toml").write_text(text)
    (root / "docs").mkdir()
    for number in range(40):
        text = f"# Town {number}\n\nThe tower of Town {number} was built by Brandt{number}.\n\nSee [next](p{number + 1}.md)."
        text += f" Of number{number} and its word{number % 7} the council has spoken since the spring." * 8
        (root / "docs" / f"p{number}.md").write_text(text)
    (root / "raw").mkdir()
    for part in range(3):
        lines = [json.dumps(conversation(number)) for number in range(part * 20, part * 20 + 20)]
        (root / "raw" / f"part{part}.jsonl").write_text("\n".join(lines) + "\n")
    place = Place(root, root, talker)
    for words in GIVEN:
        place.in_peace(words)
    (root / "few.jsonl").write_text("".join((root / "q.jsonl").read_text().splitlines(keepends=True)[:3]))
    return root


def check(case: Case, given: Path, tmp_path: Path, talker: Talker, when: list[Moment]) -> None:
    (tmp_path / "straight").mkdir()
    (tmp_path / "killed").mkdir()
    straight = called_in_peace(case, Place(given, tmp_path / "straight", talker))
    place = Place(given, tmp_path / "killed", talker)
    met = killed(case, place, straight, when)
    assert differences(result_of(case, place), straight.result, close=case.close) == []
    assert met, f"{case.name} was never at work when it was to be killed: {when} {straight.clocks}"


@pytest.mark.parametrize(
    ("name", "when"),
    [
        ("world-build", [Moment("files", 0.4), Moment("bytes", 0.6)]),
        ("data-judge", [Moment("asked", 0.3), Moment("asked", 0.8)]),
        ("ask", [Moment("files", 0.8), Moment("asked", 0.7)]),
        ("data-generate", [Moment("asked", 0.3), Moment("bytes", 0.7)]),
        ("eval-run", [Moment("asked", 0.3), Moment("asked", 0.9)]),
        ("train-sft", [Moment("files", 0.4), Moment("bytes", 0.7)]),
    ],
)
def test_twelve_kills_change_nothing(name: str, when: list[Moment], given: Path, tmp_path: Path, talker: Talker) -> None:
    check(CASES[name], given, tmp_path, talker, when)


ASKED = "ask Where? --world {given}/w --model {url}#m --profile tiny"
FURTHER = "ask --continue Since-when?"


@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_killed_question_and_a_killed_further_one_are_resumed(at: int, given: Path, tmp_path: Path, talker: Talker) -> None:
    """``resume`` knows what was asked, of whom and where; a capsule of what came of it replays."""
    found: list[object] = []
    for name in ("straight", "killed"):
        (tmp_path / name).mkdir()
        place = Place(given, tmp_path / name, talker)
        for words, call in ((ASKED, at), (FURTHER, 1)):  # the talker answers a further question at once
            if name == "straight":
                place.in_peace(words)
                continue
            talker.asked = 0
            process = place.start(words)
            talker.strike(call, lambda victim=process.pid: os.killpg(victim, signal.SIGKILL))
            process.join(60)
            assert process.exitcode == -signal.SIGKILL
            assert "not ended" in place.in_peace("history")
            place.in_peace("resume")
            assert talker.asked <= 5  # of at most four turns, that which was under way is asked for again
        place.in_peace("export last --to jsonl --out {out}/t.jsonl")
        place.in_peace("export last --to capsule --out {out}/t.capsule")
        assert place.in_peace("replay {out}/t.capsule").count("the same record, bit for bit") == 2
        found.append(result_of(Case("resumed", "", "t.jsonl"), place))
    assert differences(*found) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seed"), [(name, seed) for name in CASES for seed in range(1 if name == "recipe-tiny" else 2)]
)
def test_all_commands_at_random_moments(name: str, seed: int, given: Path, tmp_path: Path, talker: Talker) -> None:
    check(CASES[name], given, tmp_path, talker, moments(CASES[name], seed, 3))
