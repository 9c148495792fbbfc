"""Supervision: trajectories cleaned by each recipe and step, deduplicated, split, resampled, checked, counted, made into rows.

All goes through ``sanderling data …``. Sources are the recorded trajectories and 72 made ones (seeded): well-formed
conversations with one thing after another put wrong. Records are pinned by the fields that say what a trajectory is, so that
the layout of a line is free.
"""

import contextlib
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from goldens import digest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from typer.testing import CliRunner

from sanderling.cli.main import build_app
from sanderling.core.parse import parse_turn
from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory, encode_record
from sanderling.core.types import Ending, Role, ToolStatus

RECIPES = ("dr-venus", "literesearcher", "agentcpm", "minimal")
STEPS = (  # noqa: SIM905
    "whole forbidden truncate normalise names results prune repeats malformed repeat_limit min_calls tool_errors artefacts "
    "reasoning short_answer length ids validate"
).split()
OTHER_SETTINGS = {
    "normalise.date=2025-01-02": "normalise",
    'names.search=["PythonInterpreter"] names.visit=["read"]': "names",
    'results.layout="json"': "results",
    'results.layout="markdown"': "results",
    'results.layout="compact"': "results",
    'prune.tools=["PythonInterpreter","search"]': "prune",
    "repeats.with_goal=true repeats.keep_retries=false": "repeats",
    "repeat_limit.most=1 repeat_limit.with_goal=false": "repeat_limit",
    "min_calls.least=4": "min_calls",
    "tool_errors.most=0": "tool_errors",
    "artefacts.most=1 artefacts.boxed=true": "artefacts",
    "reasoning.least_characters=12": "reasoning",
    "short_answer.most_characters=12 short_answer.least_reference=5": "short_answer",
    "length.most_turns=4 length.most_characters=1500": "length",
    'forbidden.tools=["SEARCH"]': "forbidden",
}
FIGURES = ("name", "trajectories", "turns", "tools", "browse_share", "endings", "standings", "correct_share", "answered")
NODE_FIELDS = (
    "parent role kind text token_ids loss_mask logprobs versions think calls answer problems rejected events seconds".split()  # noqa: SIM905
)

QUESTIONS = [
    ("Who built the {n} bridge of the {m} town?", "Ann {n}"),
    ("Which city hosted the {n}th congress on tidal flats?", "Lisbon"),
    ("In which year did the explorer Nolhum of Askim reach the island?", "19{n}"),
    ("In which year did the explorer Belkor of Askim reach the island?", "18{n}"),
    ("谁在{n}年建造了这座桥?", "王{n}"),
    ("東京の{n}番目の橋はどこですか?", "江戸"),
    ("Кто построил {n} мост в городе?", "Иван {n}"),
    ("Who wrote C++ & what is 1.5% of {n}?", "Bjarne"),
    (
        "What animal lives in the mud of the tidal flats of the northern sea and is eaten by waders in the autumn of {n}?",
        "lugworm",
    ),
]
PAGES = [
    "Ann was here in 1900.",
    "Tool execution timed out after 3 seconds.",
    "[visit] Failed to read page.",
    "words <think> in a page </tool_call>",
    "The benchmark asks: What animal lives in the mud of the tidal flats of the northern sea and is eaten by waders in the "
    "autumn of 3? Nobody knows.",
    "A Google search for 'it's [a]' found 2 results:\n\n## Web Results\n1. [A [PDF]](https://a.example/(x))\nDate published: "
    "May 1, 2020\nSource: A\n\nwords\n\n2. [B](https://b.example/y)\n\nmore words",
    "No results found for 'x'. Try with a more general query.",
]


def hits(query: str, number: int) -> str:
    """A search result as JSON, as DR-Venus' tool writes it."""
    pages = [
        {
            "title": f" T{i}\n of {query}", "url": f"https://e.example/{i}", "snippet": f"Snippet {i}\nSource: x",
            "date": "May 1, 2020",
        }
        for i in range(number)
    ]  # fmt: skip
    return json.dumps([{"query": query, "web_page_info_list": pages}], ensure_ascii=False)


def call(name: str, **arguments: Any) -> str:
    """A call as a model writes it."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) + "\n</tool_call>"


def turn_text(rng: random.Random, odd: float) -> str:
    """A turn that calls: canonical, or with something wrong in it."""
    query = rng.choice(["tidal flats", "bridge 7", "潮间带", "lamps", "C++"])
    page = rng.choice(["https://a.example/", "https://b.example/(x)", "https://c.example/?q=1"])
    think = rng.choice(["Look it up.", "Hm.", "First the city, then the year; read \\u00e9\\u00e8 and Ã©.", "Let me see 数."])
    calls = [
        call("search", query=[query]) if rng.random() < 0.6 else call("visit", url=[page], goal=rng.choice(["dates", "places"]))
    ]
    if rng.random() < odd:
        calls = rng.choice(
            [
                [call("google_search", queries=query, num=3)],
                [call("browse", urls=page, purpose=["g"])],
                [call("search", query=query), call("search", query=["lamps", "b"])],
                [call("search", query=[query]), call("visit", url=[page], goal="g")],
                [call("visit", url=[page], goal="g"), call("visit", url=["https://d.example"], goal="g")],
                [call("PythonInterpreter", code="1")],
                [call("search", query=["</tool_call><think>"]), call("PythonInterpreter", code="1")],
                ["<tool_call>{'name': 'search', 'arguments': {'query': 'a'}}</tool_call>"],
                ["<tool_call>{</tool_call>"],
                [],
            ]
        )
    body = "\n\n".join([f"<think>\n{think}\n</think>", *calls])
    if rng.random() < odd:
        body = rng.choice(
            [
                body + " And so on.",
                "Well. " + body,
                body.replace("<think>\n", "<think>").replace("\n</think>\n\n", "</think>"),
                "\n\n".join(calls),
                body + "<tool_response>\ninvented\n</tool_response>",
                body + "\n\n<answer>\nPorto\n</answer>",
                f"<think>\n\n</think>\n\n{''.join(calls)}",
                body + " \\boxed{7}",
                body + " \ufffd \x00",
                f"<think>{think}<answer>no</answer></think>" + "".join(calls),
                think,
            ]
        )
    return body


def reply_text(rng: random.Random, turn: str, odd: float) -> list[str]:
    """What the tools returned: a block in tags for each call, or something odd."""
    blocks = [
        rng.choice([hits("q", rng.randint(1, 3)), hits("潮", 1), *PAGES]) if rng.random() < 0.7 else "page"
        for _ in range(max(1, turn.count("<tool_call>")))
    ]
    whole = "\n".join(f"<tool_response>\n{block}\n</tool_response>" for block in blocks)
    if rng.random() >= odd:
        return [whole]
    return rng.choice([[], [blocks[0]], [whole, "<tool_response>\nagain\n</tool_response>"], ["\n".join(blocks)], [whole]])


def made_one(seed: int) -> Trajectory:
    """One made trajectory: the lower its seed, the less is wrong with it."""
    rng = random.Random(f"clean {seed}")
    odd = min(0.35, seed / 150)
    text, answer = QUESTIONS[seed % len(QUESTIONS)]
    n = seed % 4
    text, answer = text.format(n=n, m=7 * n), answer.format(n=n)
    said: list[tuple[NodeKind, str]] = []
    if rng.random() > odd / 2:
        said.append(
            (NodeKind.SYSTEM, rng.choice(["You are an agent.\nCurrent date: 2025-07-18", "You are.", "date: 2024-13-45"]))
        )
    if rng.random() > odd / 2:
        said.append((NodeKind.QUESTION, text))
    for _ in range(rng.randint(0, 7)):
        said.append((NodeKind.TURN, turn_text(rng, odd)))
        said += [(NodeKind.OBSERVATION, reply) for reply in reply_text(rng, said[-1][1], odd)]
        if rng.random() < odd / 2:
            said.append((rng.choice([NodeKind.HINT, NodeKind.RAW, NodeKind.HINT]), "Malformed: call a tool."))
    final = rng.choice([answer, f"It is {answer}, " + "as far as anybody knows. " * 5, f"**{answer}**", "Porto"])
    if rng.random() > odd / 2:
        end = rng.choice(
            ["", "", " So.", "<answer>\nagain\n</answer>", "\n" + call("search", query=["x"])] if rng.random() < odd else [""]
        )
        said.append((NodeKind.TURN, f"<think>\nSure.\n</think>\n\n<answer>\n{final}\n</answer>{end}"))
    ids = rng.choice([0, 0, 0, 1, 2])  # on no message, on every one, on every other one
    nodes: list[Node] = []
    for place, (kind, message) in enumerate(said):
        nodes.append(node(rng, kind, message, place - 1 if place else None, with_ids=bool(ids) and not place % ids))
    last = nodes[-1] if nodes else None
    leaf = len(nodes) - 1 if nodes else None
    if nodes and rng.random() < 0.3:
        nodes.append(node(rng, NodeKind.TURN, turn_text(rng, 0.5), rng.randrange(len(nodes)), with_ids=False, rejected=True))
    verdict = rng.choice([None, None, True, False, "unscored"])
    meta = {} if verdict is None else {"evaluation": {"judge": "exact", "correct": None if verdict == "unscored" else verdict}}
    return Trajectory(
        id=f"made-{seed:02}",
        question=Question(id=f"q{seed}", text=text, answers=(answer,) if rng.random() < 0.8 else ()),
        nodes=tuple(nodes),
        leaf=leaf,
        ending=rng.choice([None, None, None, Ending.ANSWERED, Ending.ANSWERED, Ending.TOOL_OUTAGE if odd > 0.2 else None]),
        answer=last.answer if last is not None and last.kind is NodeKind.TURN else None,
        meta=meta,
    )


def node(rng: random.Random, kind: NodeKind, text: str, parent: int | None, *, with_ids: bool, rejected: bool = False) -> Node:
    """One message; turns are parsed, and some observations have their events."""
    fields: dict[str, Any] = {"parent": parent, "kind": kind, "text": text, "rejected": rejected}
    fields["role"] = {NodeKind.SYSTEM: Role.SYSTEM, NodeKind.TURN: Role.ASSISTANT}.get(kind, Role.USER)
    if kind is NodeKind.TURN:
        parsed = parse_turn(text)
        fields |= {"think": parsed.think, "calls": parsed.calls, "answer": parsed.answer}
        fields["problems"] = tuple(problem.value for problem in parsed.problems)
    elif kind is NodeKind.OBSERVATION and rng.random() < 0.3:
        status = rng.choice([ToolStatus.OK, ToolStatus.OK, ToolStatus.EMPTY, ToolStatus.TIMEOUT])
        fields["events"] = tuple(
            ToolEvent(name="search", role="search", status=status) for _ in range(text.count("</tool_response>"))
        )
    if with_ids:
        ids = tuple(rng.randrange(250) for _ in range(3))
        fields |= (
            {"token_ids": ids, "logprobs": (-0.5, -0.25, 0.0), "versions": (0, 0, 1)}
            if kind is NodeKind.TURN
            else {"token_ids": ids}
        )
    return Node(**fields)


def data(*arguments: object) -> str:
    """What ``sanderling data …`` printed; where it refused, its sentence."""
    command = ["data", *map(str, arguments)]
    done = CliRunner(env={"COLUMNS": "140", "TERM": "dumb"}).invoke(build_app("data"), command)
    return f"{type(done.exception).__name__}: {done.exception}" if done.exception else re.sub(r"[ \t]+\n", "\n", done.stdout)


def lines(path: str | Path) -> list[dict[str, Any]]:
    """Records of a JSONL file; none where there is no file."""
    path = Path(path)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line] if path.exists() else []


def told(record: dict[str, Any]) -> str:
    """A trajectory's digest, by the fields that say what it is."""
    asked = {key: record["question"][key] for key in ("id", "text", "answers")}
    nodes = [{key: node[key] for key in NODE_FIELDS} for node in record["nodes"]]
    rest = {key: record[key] for key in ("id", "leaf", "ending", "answer", "profile", "tokenizer", "meta")}
    return digest([asked, nodes, rest])[:10]


def records(path: str | Path) -> dict[str, str]:
    """Every trajectory of a store by id."""
    return {record["id"]: told(record) for record in lines(path)}


def cleaned(source: str, *options: object) -> dict[str, Any]:
    """What a cleaning kept, dropped, and counted."""
    data("clean", source, "--out", "cleaned.jsonl", *options)
    report = json.loads(Path("cleaned.clean.json").read_text(encoding="utf-8"))
    dropped = {
        one["id"]: [one["meta"]["dropped"]["step"], one["meta"]["dropped"]["reason"]] for one in lines("cleaned.dropped.jsonl")
    }
    details = [[one["id"], one["meta"]["dropped"]["detail"], told(one)] for one in lines("cleaned.dropped.jsonl")]
    steps = {
        step["step"]: [
            [step["came_in"], step["changed"], step["went_out"]],
            {reason: [number, number] for reason, number in step["dropped"].items()}
            | {code: [number, step["noted"][code]] for code, number in step["notes"].items()},
        ]
        for step in report["steps"]
    }
    return {"kept": records("cleaned.jsonl"), "dropped": dropped, "steps": steps, "details": digest(details)}


def in_short(found: dict[str, Any]) -> dict[str, Any]:
    """The same with what was kept as one digest."""
    reasons: dict[str, int] = {}
    for step, reason in found["dropped"].values():
        reasons[f"{step}: {reason}"] = reasons.get(f"{step}: {reason}", 0) + 1
    return {"kept": len(found["kept"]), "dropped": reasons, "steps": found["steps"], "records": digest(found)}


def rows(path: str) -> dict[str, Any]:
    """Rows of a Parquet file: tokens, trained tokens, digests."""
    found = pq.read_table(path, columns=["trajectory", "group", "ids", "loss_mask"]).to_pylist()
    left = lines(path + ".left-out.jsonl")
    return {
        "rows": [[row["trajectory"], len(row["ids"]), sum(row["loss_mask"]), digest(row)[:10]] for row in found],
        "left out": [[one["id"], one["reason"], digest(one["detail"])[:8]] for one in left],
    }


def small_tokenizer() -> None:
    """Bytes, and the two marks of chat messages, in ``tokenizer/``."""
    found = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    found.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    Path("tokenizer").mkdir()
    found.save("tokenizer/tokenizer.json")


def make(scratch: Path, recorded: Path | None) -> dict[str, Any]:
    """All cases."""
    with contextlib.chdir(scratch):
        small_tokenizer()
        Path("made.jsonl").write_bytes(b"".join(encode_record(made_one(seed)) + b"\n" for seed in range(72)))
        cases: dict[str, Any] = {}
        for name in RECIPES:
            cases[f"made: clean {name}"] = cleaned("made.jsonl", "--recipe", name)
        for step in STEPS:
            cases[f"made: step {step}"] = in_short(cleaned("made.jsonl", "--set", f'steps=["{step}"]'))
        for settings, step in OTHER_SETTINGS.items():
            options = [part for setting in [f'steps=["{step}"]', *settings.split()] for part in ("--set", setting)]
            cases[f"made: step {settings}"] = in_short(cleaned("made.jsonl", *options))
        cases["made: clean again"] = cleaned_twice()
        cases["refused"] = refused()
        cases["made: sets"] = curated("made.jsonl")
        cases["made: rows"] = made_rows()
        cases["made: pipeline"] = pipeline("made.jsonl")
        if recorded is not None:
            cases |= {f"recorded: {name}": case for name, case in of_recorded(recorded).items()}
    return cases


def cleaned_twice() -> dict[str, Any]:
    """What passes once passes again, unchanged."""
    data("clean", "made.jsonl", "--out", "once.jsonl")
    return in_short(cleaned("once.jsonl"))


def refused() -> dict[str, str]:
    """What commands say to what does not fit."""
    commands = (
        "clean made.jsonl --out x.jsonl --recipe dr-mars",
        "clean made.jsonl --out made.jsonl",
        "resample made.jsonl --out x.jsonl --thresholds 5,3 --weights 1,2,3",
        "resample made.jsonl --out x.jsonl --thresholds 5 --weights 1",
        "resample made.jsonl --out x.jsonl --thresholds 5 --weights 1,-1",
        "split made.jsonl --out parts --share a=1,a=2",
        "split made.jsonl --out parts --share a",
        "split made.jsonl --out parts --share a=-1",
        "contamination made.jsonl --against made.jsonl --out made.jsonl",
        "contamination nothing.jsonl --against made.jsonl",
        "run made.jsonl --out run --recipe dr-mars",
        "run made.jsonl --out run --set resample.weights=[1]",
        "run made.jsonl --out run --set judge.judges=['contain']",
        "run made.jsonl --out .",
    )
    return {command: data(*command.split())[:300] for command in commands}


def curated(source: str) -> dict[str, Any]:
    """Deduplicated, split, resampled, checked against a benchmark, counted."""
    bench = [
        {"question": "who built the 2 bridge of the 14 town", "answer": "Ann 2"},
        {"question": "Which of the cities hosted the 3th congress on tidal flats?", "answer": "Lisbon"},
        {"question": QUESTIONS[8][0].format(n=3), "answer": "x"},
        {"question": "谁在1年建造了这座桥", "answer": "王1"},
        {"question": "A man with a hat. " + QUESTIONS[8][0].format(n=1) + " Name it.", "answer": "lugworm"},
    ]
    Path("bench.jsonl").write_text("".join(json.dumps(one) + "\n" for one in bench), encoding="utf-8")
    found: dict[str, Any] = {}
    for options in ("", "--by-text", "--keep 2"):
        printed = data("dedupe", source, "--out", "unlike.jsonl", "--report", "same.json", *options.split())
        found[f"dedupe {options}"] = [
            list(records("unlike.jsonl")),
            digest([printed, json.loads(Path("same.json").read_text())]),
        ]
    for place, options in enumerate(("", "--share a=1,b=2,c=0 --seed 3", "--share a=0.5,b=0.5 --by-answers")):
        printed = data("split", source, "--out", f"split{place}", *options.split())
        parts = {path.stem: list(records(path)) for path in sorted(Path(f"split{place}").glob("*.jsonl"))}
        found[f"split {options}"] = [parts, digest(printed)]
    for options in (
        "", "--thresholds 2,4 --weights 1,2,5", "--thresholds 4 --weights 0,9 --seed 5", "--thresholds= --weights 3",
    ):  # fmt: skip
        printed = data("resample", source, "--out", "more.jsonl", *options.split())
        order = [record["id"].removeprefix("made-") for record in lines("more.jsonl")]
        if options:  # the order of copies is not asked for
            found[f"copies {options}"] = [len(order), digest(sorted(order))]
        else:
            found[f"resample {options}"] = [" ".join(order) if len(order) < 120 else len(order), digest([order, printed])]
    printed = data("contamination", source, "--against", "bench.jsonl", "--out", "clean.jsonl", "--report", "hits.json")
    hit = json.loads(Path("hits.json").read_text())
    found["contamination "] = [
        [[one["id"], one["kind"], one["similarity"]] for one in hit],
        digest([hit, printed]),
        digest(records("clean.jsonl")),
    ]
    for options in ("", "--tokenizer tokenizer"):
        data("stats", source, "unlike.jsonl", "--json", "stats.json", *options.split())
        found[f"figures {options}"] = [figures(one) for one in json.loads(Path("stats.json").read_text(encoding="utf-8"))]
    return found


def figures(portrait: dict[str, Any]) -> dict[str, Any]:
    """Of a set's figures those that are read before training."""
    return {key: portrait[key] for key in FIGURES} | {"length": {key: portrait["length"][key] for key in ("unit", "mean")}}


def made_rows() -> dict[str, Any]:
    """Rows of cleaned ones, whole, and under each rule for those that are too long."""
    found: dict[str, Any] = {}
    for options in ("", "--max-tokens 6000 --overlong drop", "--max-tokens 6000 --overlong split"):
        command = ["rows", "once.jsonl", "--tokenizer", "tokenizer", "--profile", "dr-venus-4b", "--out", "rows.parquet"]
        printed = data(*command, *options.split())
        found[f"rows {options}"] = rows("rows.parquet") | {"printed": digest(printed)}
        Path("rows.parquet.left-out.jsonl").unlink(missing_ok=True)
    return found


def pipeline(source: str) -> dict[str, Any]:
    """``data run``, whole, and again over its own outputs with the verdicts in the records."""
    lenient = ["--set", "judge.judges=['contains']"]  # which keeps enough of them
    settings = [*lenient, "--set", "split.shares=train=0.7,validation=0.3", "--set", "resample.thresholds=[2,4]"]
    more = ["--tokenizer", "tokenizer", "--set", "against=['bench.jsonl']"]
    found = {"once": ran("run", source, *settings, *more)}
    assert "done before" in data("run", source, "--out", "run", *settings, *more)
    found["again"] = ran(
        "again", "run/3-judged.jsonl", "run/3-left-out.jsonl", "--set", "judge.judges=[]", "--set", "judge.keep=not-wrong"
    )
    found["other"] = ran(
        "other", source, "--recipe", "agentcpm", *lenient, "--set", "judge.keep=all", "--set", "resample.weights=[0]"
    )
    return found


def ran(out: str, *arguments: object) -> dict[str, Any]:
    """The outputs of one run of the pipeline."""
    printed = data("run", *arguments, "--out", out)
    numbers = json.loads((Path(out) / "data.json").read_text(encoding="utf-8"))
    steps = [{key: value for key, value in step.items() if key not in ("seconds", "report")} for step in numbers["steps"]]
    kept = ("trajectories", "rows", "tokens", "trained_tokens", "too_long", "refused", "without_turns")
    for step in steps:
        if step["name"] == "rows" and "parts" in step:
            step["parts"] = {name: {key: made[key] for key in kept} for name, made in step["parts"].items()}
    stores = (
        "1-imported", "2-cleaned", "2-cleaned.dropped", "3-judged", "3-left-out", "4-unlike", "4-benchmark-free",
        "6-resampled",
    )  # fmt: skip
    return {
        "steps": steps,
        "files": {name: [len(lines(f"{out}/{name}.jsonl")), digest(records(f"{out}/{name}.jsonl"))] for name in stores},
        "parts": {path.stem: list(records(path)) for path in sorted(Path(out, "5-parts").glob("*.jsonl"))},
        "copies": digest(sorted(record["id"] for record in lines(f"{out}/6-resampled.jsonl"))),
        "sorted rows": {
            path.stem: digest({name: sorted(found) for name, found in rows(str(path)).items()})
            for path in sorted(Path(out, "rows").glob("*.parquet"))
        },
        "figures": digest(list(map(figures, numbers["sets"]))),
        "told": digest([line for line in printed.splitlines() if "\u2192" in line]),
    }


def of_recorded(recorded: Path) -> dict[str, Any]:
    """The recorded trajectories: brought in, cleaned by each recipe, made into rows, counted, deduplicated."""
    folder = os.path.relpath(recorded.resolve())
    data("import", folder, "--out", "recorded.jsonl")
    found: dict[str, Any] = {}
    for name in RECIPES[:3]:
        found[f"clean {name}"] = cleaned("recorded.jsonl", "--recipe", name)
        if name == "dr-venus":
            Path("cleaned.jsonl").replace("good.jsonl")
    how = ("--tokenizer", "tokenizer", "--profile", "dr-venus-4b", "--max-tokens", 60000)
    data("rows", "good.jsonl", "--out", "good.parquet", *how)
    found["rows"] = rows("good.parquet")
    data("dedupe", "good.jsonl", "--out", "unlike.jsonl")
    data("resample", "unlike.jsonl", "--out", "more.jsonl", "--thresholds", "20,50")
    data("split", "good.jsonl", "--out", "parted", "--share", "train=0.8,validation=0.2")
    data("stats", "recorded.jsonl", "--json", "stats.json")
    found["sets"] = {
        "dedupe": list(records("unlike.jsonl")),
        "resample": digest([record["id"] for record in lines("more.jsonl")]),
        "split": list(records("parted/validation.jsonl")),
        "stats": list(map(figures, json.loads(Path("stats.json").read_text(encoding="utf-8")))),
    }
    return found
