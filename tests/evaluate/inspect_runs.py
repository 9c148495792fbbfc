"""Made-up attempts and runs for the tests of the export to Inspect: one of each kind that may look odd there."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sanderling.core.profiles import get_profile
from sanderling.core.record import Node, NodeKind, Question, Seeds, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.log import About, JudgedBy, RunLog, sha256_of_questions
from sanderling.evaluate.result import JudgedAttempt, episode_of
from sanderling.judge.verdict import META_KEY, Code

JUDGE = "exact"
Json = dict[str, Any]


def node(kind: NodeKind, text: str, parent: int | None = None, role: Role = Role.USER, **more: Any) -> Node:
    return Node(parent=parent, role=role, kind=kind, text=text, **more)


def system() -> Node:
    return node(NodeKind.SYSTEM, "You are a research agent.", role=Role.SYSTEM)


def question_node(text: str = "Which town?") -> Node:
    return node(NodeKind.QUESTION, text, 0)


def calling(parent: int, *calls: tuple[str, Json], think: str = "look", **more: Any) -> Node:
    """A turn that calls tools, as the loop records it."""
    raws = [f"\n{json.dumps({'name': name, 'arguments': arguments})}\n" for name, arguments in calls]
    text = f"<think>\n{think}\n</think>\n" + "\n".join(f"<tool_call>{raw}</tool_call>" for raw in raws)
    made = tuple(ToolCall(name=name, arguments=given, raw=raw) for (name, given), raw in zip(calls, raws, strict=True))
    return node(NodeKind.TURN, text, parent, Role.ASSISTANT, think=think, calls=made, **more)


def answering(parent: int, answer: str = "Vumhum", think: str = "so", **more: Any) -> Node:
    text = f"<think>\n{think}\n</think>\n<answer>{answer}</answer>"
    return node(NodeKind.TURN, text, parent, Role.ASSISTANT, think=think, answer=answer, **more)


def seen(
    parent: int, *results: tuple[str, ToolStatus], names: Sequence[str] = ("search", "visit", "visit"), **more: Any
) -> Node:
    body = "\n</tool_response>\n<tool_response>\n".join(text for text, _ in results)
    events = tuple(ToolEvent(name=name, role=name, status=status) for name, (_, status) in zip(names, results, strict=False))
    return node(NodeKind.OBSERVATION, f"<tool_response>\n{body}\n</tool_response>", parent, events=events, **more)


def episode(
    nodes: Sequence[Node] = (),
    *,
    id: str = "q/1",
    attempt: int = 0,
    ending: Ending | None = Ending.ANSWERED,
    answer: str | None = "Vumhum",
    correct: bool | None = True,
    question: Question | None = None,
    **more: Any,
) -> Trajectory:
    asked = question or Question(
        id=id, text="Which town?", answers=("Vumhum", "the town"), meta={"level": 2, "topics": ["a", "b"]}
    )
    verdict = {"judge": JUDGE, "correct": correct, "score": None if correct is None else float(correct), "reason": "because"}
    scored = ending is not None and ending.scored
    return Trajectory(
        id=f"{asked.id}-{attempt}", question=asked, nodes=tuple(nodes),
        leaf=more.pop("leaf", len(nodes) - 1 if nodes else None), ending=ending,
        answer=answer if ending is not None and ending.has_answer else None, profile="tiny",
        model=more.pop("model", "made-up" if nodes else ""), seeds=Seeds(run=3, attempt=attempt),
        meta={**({META_KEY: verdict} if scored else {}), **more.pop("meta", {})}, **more,
    )  # fmt: skip


def plain(**more: Any) -> Trajectory:
    """Question, call, result, answer."""
    nodes = [
        system(), question_node(), calling(1, ("search", {"query": ["town"]})), seen(2, ("[1] Town", ToolStatus.OK)),
        answering(3),
    ]  # fmt: skip
    return episode(nodes, **more)


def judged(one: Trajectory, **more: Any) -> JudgedAttempt:
    """What the judge said of an attempt: its record's own verdict."""
    verdict = one.meta.get(META_KEY, {"judge": JUDGE, "correct": None, "code": Code.NOT_ENDED})
    about = {"question": one.question.id, "attempt": one.seeds.attempt, "id": one.id, "ending": one.ending}
    return JudgedAttempt(**{**about, **verdict, **more})


def make_run(root: Path, stored: Sequence[Trajectory], attempts: int, *, private: bool = False) -> RunLog:
    """A finished run of these attempts, stored in this order; of an attempt the last counts."""
    directory = RunLog(root)
    last = {(one.question.id, one.seeds.attempt): one for one in stored}
    questions = list({one.question.id: one.question for one in last.values()}.values())
    about = About(
        benchmark="jsonl", split="test", file="q.jsonl", questions=len(questions),
        questions_sha256=sha256_of_questions(questions), seed=3, private=private,
    )  # fmt: skip
    run = directory.begin(about, questions, attempts, "test")
    for one in stored:
        directory.append(one)
    directory.run.table("about").put("attempts", {"profile": get_profile("tiny").model_dump(mode="json")})
    said = [judged(one) for one in last.values()]
    directory.write_verdicts(said, JudgedBy(JUDGE))
    made = {"command": "sanderling eval run", "seed": 3, "version": "0.1.0", "date": "2026-01-02T03:04:05+00:00"}
    correct = {one.key: one.correct for one in said}
    rows = [replace(row, correct=correct[row.key]) for row in map(episode_of, last.values())]
    summarise(rows, questions, attempts, judge=JUDGE, seconds=60.0, resumed=0, **made).save(directory.result_file)
    directory.finish(run)
    return directory
