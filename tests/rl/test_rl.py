import asyncio
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bandit import CONFIG, QUESTIONS, Bandit, changed, credit_of, same_weights, train, weights
from tiny_qwen3 import save_tiny
from train_records import PROFILE, WordTokenizer

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import Sampling
from sanderling.rl.config import PipelineConfig, Straggler
from sanderling.rl.credit import IgpoConfig
from sanderling.rl.gain import GainConfig, Probe
from sanderling.rl.losses import MinirlConfig, PpoConfig, RatioTo
from sanderling.rl.queue import episode_seed
from sanderling.rl.rl_loop import run_simple
from sanderling.rl.rollouts import Actor
from sanderling.rl.run import HealthWarning, run_rl
from sanderling.train.config import ParallelConfig
from sanderling.train.launch import Place, opened_team
from sanderling.train.metrics import read_metrics
from sanderling.train.rows import Encoding
from sanderling.train.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning")
DECOUPLED = {"ratio_to": RatioTo.PROXIMAL, "kl_coef": 0.001}


@pytest.mark.parametrize(
    "loss", [PpoConfig(), MinirlConfig(), PpoConfig(**DECOUPLED)], ids=lambda config: f"{config.kind}-{config.ratio_to}"
)
def test_reward_rises(tmp_path: Path, loss):
    base = save_tiny(tmp_path / "base")
    config = CONFIG.model_copy(update={"steps": 20, "group_size": 12, "loss": loss, "updates_per_step": 2})
    train(config, base, tmp_path / "run")
    log = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert np.mean([line["reward"] for line in log[-5:]]) > 0.25 + np.mean([line["reward"] for line in log[:2]])
    assert {"entropy", "grad_norm", "browse_share", "ending_answered", "turns", "length"} <= set(log[0])


def test_a_run_stopped_inside_a_step_continues_to_the_same_weights(tmp_path: Path):
    base, bandits = save_tiny(tmp_path / "base"), []
    train(CONFIG, base, tmp_path / "straight", bandits)
    first_of_step_4 = 3 * CONFIG.questions_per_step * CONFIG.group_size
    with pytest.raises(RuntimeError, match="killed here"):
        train(CONFIG, base, tmp_path / "stopped", bandits, fail_at=first_of_step_4 + 2)
    train(CONFIG, base, tmp_path / "stopped", bandits)
    straight, resumed = bandits[0], bandits[2]
    ended = set(bandits[1].attempts) - {first_of_step_4 + 2}
    assert not ended & set(resumed.attempts), "what had ended is not made again, though the last checkpoint is of step 2"
    assert sorted(ended | set(resumed.attempts)) == sorted(straight.attempts)
    assert resumed.version == straight.version > 0
    ours, theirs = weights(tmp_path / "stopped"), weights(tmp_path / "straight")
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    logs = [read_metrics(tmp_path / run / "metrics.jsonl") for run in ("stopped", "straight")]
    assert [line["reward"] for line in logs[0]] == [line["reward"] for line in logs[1]]
    assert len(credit_of(tmp_path / "straight")) == CONFIG.steps and credit_of(tmp_path / "stopped") == credit_of(
        tmp_path / "straight"
    )
    assert not train(CONFIG, base, tmp_path / "stopped")


def test_a_sharded_model_is_not_asked_to_sample_in_its_own_process(tmp_path: Path):
    encoding = Encoding(WordTokenizer(), PROFILE)
    with opened_team(ParallelConfig(), Place(), None, bfloat16=True) as (team, _):
        begun = run_rl(CONFIG, QUESTIONS, lambda model: Actor(None, Bandit(model)), encoding, tmp_path, tmp_path, team=team)
        with pytest.raises(UserError, match=r"serve it, and set pipeline\.placement=served"):
            asyncio.run(begun)


@pytest.mark.parametrize("kind", ["grpo", "igpo"])
def test_the_loop_on_a_page_ends_with_the_weights_of_a_synchronous_run(tmp_path: Path, kind: str):
    gained = {"estimator": IgpoConfig(), "gain": GainConfig(probe=Probe(prefix="so </think> <answer>"))}
    config = changed(CONFIG, **(gained if kind == "igpo" else {}))
    base, bandits = save_tiny(tmp_path / "base"), []

    def connect(model) -> Actor:
        bandits.append(Bandit(model))
        return Actor(bandits[0].rollout, bandits[0])

    simple = run_simple(config, QUESTIONS, connect, Encoding(WordTokenizer(), PROFILE), base, tmp_path / "simple")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asyncio.run(simple)
    assert any(one.category is HealthWarning for one in told) is (kind == "igpo"), "whether gains can teach"
    train(config, base, tmp_path / "whole", bandits)
    assert sorted(bandits[0].attempts) == sorted(bandits[1].attempts) and same_weights(tmp_path / "simple", tmp_path / "whole")
    ours, theirs = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("simple", "whole"))
    assert [line["reward"] for line in ours] == [line["reward"] for line in theirs]
    assert (tmp_path / "whole" / "gains.html").is_file() is (kind == "igpo"), "the first step says whether gains can teach"


def test_groups_share_a_seed_and_attempts_never_repeat(tmp_path: Path):
    bandits: list[Bandit] = []
    train(CONFIG.model_copy(update={"steps": 4}), save_tiny(tmp_path / "base"), tmp_path / "run", bandits)
    attempts = bandits[0].attempts
    assert sorted(attempts) == list(range(4 * 2 * 6))
    assert all(len(seeds) == 1 for seeds in bandits[0].seeds.values())
    assert episode_seed(1, 0, QUESTIONS[0]) != episode_seed(1, 1, QUESTIONS[0]) != episode_seed(2, 1, QUESTIONS[0])


def test_a_step_that_is_not_finite_says_where_to_begin_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    step = Trainer.step

    def third_breaks(self: Trainer, rows, loss):
        if self.steps == 2:
            rows = [replace(row, advantages=np.full_like(row.advantages, np.inf)) for row in rows]
        return step(self, rows, loss)

    monkeypatch.setattr(Trainer, "step", third_breaks)
    base = save_tiny(tmp_path / "base")
    config = CONFIG.model_copy(update={"save_every": 1})
    for _ in range(2):  # and the same of the same command
        with pytest.raises(UserError, match=r"not finite.*--model \S+checkpoints/\S*2 and a lower rl\.trainer\.lr"):
            train(config, base, tmp_path / "run")
    monkeypatch.undo()
    good = next(one for one in (tmp_path / "run" / "checkpoints").iterdir() if one.name.endswith("2"))
    assert train(config, good, tmp_path / "next"), "a checkpoint is a model to begin with"


@pytest.mark.parametrize("answers", [("Oslo", ""), (" \n",), ()])
def test_an_empty_accepted_answer_is_refused_before_the_first_rollout(tmp_path: Path, answers: tuple[str, ...]):
    """It has no likelihood: a run that measures information gain would stop where the question comes up."""
    questions = [*QUESTIONS, Question(id="half", text="?", answers=answers)]
    encoding = Encoding(WordTokenizer(), PROFILE)
    with pytest.raises(UserError, match=r"'half' \(\?\) has no accepted answer, or an empty one"):
        asyncio.run(run_rl(CONFIG, questions, lambda model: Actor(None, Bandit(model)), encoding, tmp_path, tmp_path / "run"))


@pytest.mark.parametrize(
    ("changed", "pipeline", "said"),
    [
        (
            {"sampling": Sampling(top_p=0.95)},
            {},
            r"^Rollouts cut to.*: set rl\.loss\.kind=\S+ and rl\.loss\.ratio_to=proximal, or .* rollout\.top_p=1",
        ),
        ({"sampling": Sampling(top_k=20)}, {}, r"rl\.loss\.ratio_to=proximal"),
        ({"sampling": Sampling(presence_penalty=1.1)}, {}, "no penalty"),
        (
            {"sampling": Sampling(temperature=0.5)},
            {},
            r"at temperature 0\.5 and trained at 1\.0: set trainer\.temperature to 0\.5",
        ),
        ({"guards": PROFILE.guards.model_copy(update={"max_retries": 1})}, {}, "max_retries 0"),
        # Unasked for their answer, who is cut off would end unanswered, by the trainer's own doing, and be scored 0.
        (
            {"budgets": PROFILE.budgets.model_copy(update={"force_answer": False})},
            {"straggler": Straggler.CUT_OFF},
            r"force_answer=true, or rl\.pipeline\.straggler=carry_over",
        ),
    ],
)
def test_rollouts_that_would_be_misjudged_are_refused(tmp_path: Path, changed: dict, pipeline: dict, said: str):
    encoding = Encoding(WordTokenizer(), PROFILE.model_copy(update=changed))
    config = CONFIG.model_copy(update={"pipeline": PipelineConfig(**pipeline)})
    with pytest.raises(UserError, match=said):
        asyncio.run(run_rl(config, QUESTIONS, lambda model: Actor(None, Bandit(model)), encoding, tmp_path, tmp_path / "run"))
