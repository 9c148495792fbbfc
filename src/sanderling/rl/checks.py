"""What an RL run refuses before its first rollout, each with one sentence. Importable without torch."""

from collections.abc import Iterable, Sequence

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.rl.config import Placement, RlConfig, Straggler
from sanderling.train.encoding import Encoding


def check_run(config: RlConfig, questions: Sequence[Question], held_out: Sequence[Question], encoding: Encoding) -> None:
    """Raises UserError for questions and rollouts that cannot be trained on."""
    if not questions:
        raise UserError("There are no questions to train on: give a file with at least one.")
    _check_texts((*questions, *held_out), encoding)
    for question in (*questions, *held_out):
        if not question.answers:
            raise UserError(f"{_named(question)} has no accepted answer: add one, or leave the question out.")
        if not all(answer.strip() for answer in question.answers):
            raise UserError(f"{_named(question)} has an empty accepted answer: remove it, or leave the question out.")
    ids = {question.id for question in questions}
    if len(ids) < len(questions):
        raise UserError("Two questions have the same id: sanderling data dedupe leaves one of them.")
    if both := next((question.id for question in held_out if question.id in ids), None):
        raise UserError(f"Question {both!r} is trained on and held out: take it out of one of the files.")
    if config.selection.every and not held_out:
        raise UserError("Checkpoints are selected on held-out questions, and there are none: give some, or selection.every=0.")
    if config.pipeline.straggler is Straggler.CUT_OFF and not encoding.profile.budgets.force_answer:
        # They would end without having been asked, and this stop of the trainer's would count as a wrong answer.
        raise UserError(
            "Stragglers that are cut off have to be asked for an answer: set rollout.force_answer=true, or "
            "rl.pipeline.straggler=carry_over."
        )
    _check_sampling(config, encoding)


def _check_texts(questions: Iterable[Question], encoding: Encoding) -> None:
    """Raises UserError for a question that says nothing, or leaves no room for an episode."""
    budgets = encoding.profile.budgets
    room = budgets.max_context_tokens - budgets.answer_reserve_tokens
    for question in questions:
        if not question.text.strip():
            raise UserError(f"Question {question.id!r} has no text: write it, or leave the question out.")
        # Of most questions it is plain without an encoding: a token is a byte at least.
        if len(question.text.encode()) >= room and (length := len(encoding.tokenizer.encode(question.text))) >= room:
            raise UserError(
                f"{_named(question)} has {length:,} tokens, and rollouts have {room:,} for all they read: leave it out, or let "
                "rollouts be longer."
            )


def _named(question: Question) -> str:
    """With how it begins: a question that came without an id was given one that its file does not show."""
    text = " ".join(question.text.split())
    return f"Question {question.id!r} ({text[:60]}{'…' * (len(text) > 60)})"


def check_placement(config: RlConfig, *, sharded: bool) -> None:
    """Raises UserError where sampling in this process would need weights that no process holds whole."""
    if sharded and config.pipeline.placement is not Placement.SERVED:
        raise UserError("A sharded model cannot sample in its own process: serve it, and set pipeline.placement=served.")


def _check_sampling(config: RlConfig, encoding: Encoding) -> None:
    sampling, trained = encoding.profile.sampling, config.trainer.temperature
    if sampling.temperature != trained:
        raise UserError(
            f"Rollouts are sampled at temperature {sampling.temperature} and trained at {trained}: "
            f"set trainer.temperature to {sampling.temperature}."
        )
    if sampling.top_p < 1.0 or sampling.top_k or sampling.presence_penalty:
        # The trainer's log-probabilities are of the whole distribution: ratios to a cut one would be wrong without a sign.
        raise UserError("RL needs rollouts of the whole distribution: give a profile with top_p 1, top_k 0 and no penalty.")
    if encoding.profile.guards.max_retries:
        raise UserError("RL needs every attempt as it was sampled: give a profile with guards.max_retries 0.")
