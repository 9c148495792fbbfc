"""Recorded trajectories and question files in: every layout through the commands, what is refused and with which sentence.

Files are made here by hand, or are the recorded ones laid out anew in each layout that can hold them; all go in process through
``sanderling data import``, ``eval check``, ``eval score``, ``data contamination``, and the function with which commands read
questions.
"""

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import sys
import warnings
import zipfile
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from goldens import digest

from sanderling.cli.main import main
from sanderling.core.errors import UserError
from sanderling.data.questions import read_questions

SEARCH = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "search", "arguments": {"query": ["a"]}}\n</tool_call>'
SEEN = "<tool_response>\n[]\n</tool_response>"
DONE = "<think>\nok\n</think>\n\n<answer>\n42\n</answer>"
TALK = [
    {"role": "user", "content": "why?"}, {"role": "assistant", "content": SEARCH}, {"role": "user", "content": SEEN},
    {"role": "assistant", "content": DONE},
]  # fmt: skip
TOLERANCE = 1e-9
PAGE = "The useful information in u for user goal g as follows: \n\nEvidence in page: \nyes\n\nSummary: \nyes"


def command(scratch: Path, *words: object) -> dict[str, Any]:
    """What a command prints and how it ends, without the names of directories."""
    out, error, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["sanderling", *map(str, words)]),
        mock.patch.dict(os.environ, {"COLUMNS": "160", "NO_COLOR": "1", "TERM": "dumb"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # when a file is let go is the collector's business
        try:
            main()
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else 1
    told = [line.rstrip() for line in error.getvalue().replace(str(scratch), "DIR").splitlines()]
    return {"code": code, "out": out.getvalue().replace(str(scratch), "DIR"), "error": "\n".join(filter(None, told))}


def lines_of(path: Path) -> list[str]:
    """A digest of each line of a file."""
    return [digest(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def imported(scratch: Path, *sources: Path) -> dict[str, Any]:
    """An import: a digest of each record that was written, what could not be read, and the report's counts."""
    into = scratch / "imported"
    shutil.rmtree(into, ignore_errors=True)
    done = command(scratch, "data", "import", *sources, "--out", into / "t.jsonl", "--questions", into / "q.jsonl")
    if done["code"]:
        return {"code": done["code"], "error": done["error"]}
    report = json.loads((into / "t.jsonl.import.json").read_text())
    counts = {name: count for name, count in report.items() if isinstance(count, int)}
    layouts = {one.pop("layout"): {name: count for name, count in one.items() if count} for one in report["layouts"]}
    return {
        "trajectories": " ".join(lines_of(into / "t.jsonl")),
        "questions": " ".join(lines_of(into / "q.jsonl")),
        "unread": lines_of(into / "t.jsonl.unread.jsonl"),
        "counts": " ".join(f"{name}={count}" for name, count in counts.items()),
        "layouts": json.dumps(layouts),
        "odd": {one["code"]: f"{one['count']} {digest(one['example'].replace(str(scratch), ''))}" for one in report["odd"]},
        "left": [digest(one["reason"].replace(str(scratch), "DIR")) for one in report["left_files"]],
        "printed": digest(done["out"]),
    }


def save(path: Path, value: Any) -> Path:
    """A file of JSON, JSON lines (of several values), Parquet, text or bytes, by its name and the value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, bytes):
        path.write_bytes(value)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(value), path)
    elif path.suffix == ".jsonl" and not isinstance(value, str):
        path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in value), encoding="utf-8")
    else:
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


# fmt: off
# -- recorded trajectories, in every layout that can hold them --------------------------------------------------------------


def structured(messages: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Messages with their calls, reasoning and results in fields, as an API gives them."""
    found: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        text = message["content"]
        if message["role"] == "assistant" and "</think>" in text:
            think, _, rest = text.partition("</think>")
            bodies = [part.partition("</tool_call>")[0] for part in rest.split("<tool_call>")[1:]]
            calls = [{"id": f"{number}-{at}", "type": "function", "function": call(body)} for at, body in enumerate(bodies)]
            said = rest.partition("<answer>")[2].partition("</answer>")[0].strip() or None
            fields = {"content": said, "reasoning_content": think.removeprefix("<think>").strip()}
            found.append({"role": "assistant", **fields, **({"tool_calls": calls} if calls else {})})
        elif text.startswith("<tool_response>") and found and found[-1].get("tool_calls"):
            inner = text.removeprefix("<tool_response>").removesuffix("</tool_response>").strip()
            found.append({"role": "tool", "tool_call_id": found[-1]["tool_calls"][0]["id"], "content": inner})
        else:
            found.append(message)
    return found


def call(body: str) -> dict[str, Any]:
    """A call's name and arguments as an API has them."""
    try:
        given = json.loads(body)
    except ValueError:
        return {"name": "unread", "arguments": body}
    return {"name": given.get("name", "none"), "arguments": json.dumps(given.get("arguments"))}


def relaid(entries: list[dict[str, Any]]) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    """The same conversations in each layout: a file's name and its rows."""
    talks = [entry["messages"] for entry in entries]
    asked = [str(entry.get("question") or talk[-1]["content"][:40]) for entry, talk in zip(entries, talks, strict=True)]
    both = list(zip(asked, talks, strict=True))
    yield "openai.jsonl", [{"messages": talk} for talk in talks]
    yield "structured.jsonl", [{"messages": structured(talk), "ground_truth": "x"} for talk in talks]
    yield "sharegpt.json", [{"conversations": [{"from": m["role"], "value": m["content"]} for m in t]} for t in talks]
    yield "dr-venus.json", [{"question": q, "gt": "a<|answer_split|>b", "messages": t} for q, t in both]
    ends = cycle(["answer", "answered_max_steps", "llm_error", "exceed available llm calls", "odd"])
    yield "tongyi.jsonl", [{"question": q, "answer": "x", "messages": t, "prediction": "y", "termination": end}
                           for (q, t), end in zip(both, ends, strict=False)]
    yield "leap.json", [{"task_id": q, "query": q, "success": True, "conversation_history": t} for q, t in both]
    yield "log.jsonl", [{"request": {"messages": t[:-1]}, "response": {"choices": [{"message": t[-1]}]}} for t in talks]


def recorded_cases(scratch: Path, recorded: Path) -> Iterable[tuple[str, Any]]:
    """Each recorded file as it is, and the conversations of each folder in the other layouts."""
    for folder in sorted(path for path in recorded.iterdir() if path.is_dir()):
        yield f"recorded: {folder.name}", imported(scratch, folder)
        texts = [path.read_text() for path in sorted(folder.glob("*.json"))]
        texts += [line for path in sorted(folder.glob("*traj*.jsonl")) for line in path.read_text().splitlines()[:12]]
        rows = [row for row in map(json.loads, texts) if isinstance(row.get("messages"), list)]
        for name, entries in relaid(rows) if rows else ():
            path = save(scratch / "relaid" / folder.name / name, entries)
            yield f"recorded: {folder.name} as {name}", imported(scratch, path)
    yield "recorded: all at once", imported(scratch, recorded)["printed"]


# -- layouts by hand ----------------------------------------------------------------------------------------------------


def use(id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(id: Any, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


CALLS = [use("1", "search", '{"query": ["a"]}'), use("2", "visit", {"url": ["u"], "goal": "g", "x": None})]
TWO = {"role": "assistant", "content": None, "reasoning_content": "two things", "tool_calls": CALLS}
HEAD, LAST = [{"role": "system", "content": "sys"}, TALK[0], TWO], {"role": "assistant", "content": "It is 42."}
RESULTS = {
    "in order": [tool("1", "[]"), tool("2", PAGE)], "reordered": [tool("2", PAGE), tool("1", "[]")],
    "one missing": [tool("2", PAGE)], "one too many": [tool("1", "[]"), tool("2", "[]"), tool("3", "[]")],
    "unknown id": [tool("1", "[]"), tool("9", "{}")], "not text": [tool("1", None), tool("2", {"a": [1]})], "none": [],
    "failed": [tool("1", '{"error": "down", "server_id": "s"}'), tool("2", "Tool execution timed out after 30 s")],
}
TURNS = {
    "arguments in quotes": {"content": "", "tool_calls": [use("1", "f", "{'a': 1}")]},
    "words beside a call": {"content": "Wait.", "tool_calls": [{"name": "f"}]},
    "function_call": {"function_call": {"name": "f", "arguments": "{}"}}, "calls as text": {"tool_calls": '[{"name": "f"}]'},
    "tags and fields": {"content": SEARCH, "tool_calls": [use("1", "search", '{"query": ["a"]}')]},
    "thought beside tags": {"content": SEARCH.partition("\n\n")[2], "thought": "hm"},
    "reasoning alone": {"content": "", "reasoning": "alone"}, "no arguments": {"tool_calls": [use("1", "f", "not json")]},
    "calls nobody can read": {"tool_calls": [{"no": "name"}]}, "content no text": {"content": 7}, "empty": {"content": ""},
    "extra fields": {"content": DONE, "refusal": "no", "weight": 1}, "broken json call": {"content": '<tool_call>{"name": '},
}
TOLD = {"question": "why?", "answer": "42", "prediction": "41", "messages": TALK}
PROMPT = [{"role": "system", "content": "s"}, {"role": "user", "content": " Question: why?"}]
KWARGS = {"search": {"create_kwargs": {"url": "https://b.org"}}}


def layout_files() -> Iterable[tuple[str, Any]]:
    """Files of every layout: a name, and what it holds."""
    for name, results in RESULTS.items():
        yield f"results {name}.json", {"messages": [*HEAD, *results, LAST]}
    for name, fields in TURNS.items():
        yield f"turn {name}.json", {"messages": [TALK[0], {"role": "assistant", **fields}, TALK[2], TALK[3]]}
    yield "bare list.json", TALK
    yield "messages as text.parquet", [{"messages": json.dumps(TALK), "language": "en"}]
    yield "dr-venus.jsonl", [
        {"question": "why?", "gt": "42<|answer_split|>forty-two", "messages": TALK, "language": "en"},
        {"messages": TALK, "gt": {"text": "42"}}, {"question": "why?", "messages": TALK, "termination": "max_steps"},
        {"request_id": "r", "sample_idx": 3, "messages": TALK, "finished": True},
        {"request_id": "r", "messages": [*TALK[:3], {"role": "user", "content": "Answer now."}, TALK[3]], "finished": True},
        {"request_id": "r", "messages": TALK[:3], "finished": True}, {"sample_idx": 0, "messages": [], "finished": False},
    ]
    yield "tongyi.jsonl", [TOLD | {"termination": "answer"}, TOLD, TOLD | {"termination": "timeout", "prediction": "[Failed]"},
                           TOLD | {"answer": [["42"], "two"], "termination": 3}]
    asked = [{"role": "system", "content": "s"}, {"role": "user", "content": "Tools: …\nUser: why?"}, *TALK[1:]]
    yield "webdancer.jsonl", [{"type": "chatml", "messages": asked, "answer": [["42"]]}, {"functions": [], "messages": TALK},
                              {"question": "how?", "answer": "x", "difficulty": "hard"}]
    yield "rl rows.jsonl", [
        {"prompt": PROMPT, "reward_model": {"ground_truth": {"target": ["42", "forty-two"]}},
         "extra_info": {"index": "7", "mask_url": "https://a.org/x", "tools_kwargs": KWARGS}},
        {"prompt": PROMPT, "reward_model": {"ground_truth": '["42"]', "style": "rule"}, "extra_info": {"question": "how?"}},
        {"prompt": "who?", "label": "me"}, {"prompt": PROMPT, "reward_model": {"ground_truth": None}},
        {"prompt": [], "reward_model": {"ground_truth": "x"}},
    ]
    yield "rl rows.parquet", [{"prompt": PROMPT, "reward_model": '{"ground_truth": "42"}', "extra_info": {"i": 1}}] * 2
    yield "questions.jsonl", [
        {"problem": "why?", "answer": "42", "difficulty": "hard"}, {"Question": "why?", "Final answer": "42", "task_id": 3},
        {"question": "why?", "answers": ["a", ["b"]], "another_answer": "c", "mask_url": "https://a.org"},
        {"question": "why?", "answer": None, "id": 12}, {"question": "why?"}, {"question": "why?", "answer": "[1, 5]"},
        {"query": "why?", "answer": 1805.5}, {"meta": {"question": "why?", "answer": "42"}}, {"prompt": "no answer"},
        {"id": "q1", "text": "why?", "answers": ["42"], "hops": 2, "meta": {"kind": "x"}},
        {"id": "q2", "text": "no", "hops": "x"},
    ]


def broken_files() -> Iterable[tuple[str, Any]]:
    """Files that are cut, mixed up, packed, or no recordings at all."""
    row = {"question": "Où est-ce ?", "messages": TALK}
    good = json.dumps(row)
    for name, text in {
        "indented list": json.dumps([row] * 3, indent=2), "others": f"{good}\n[1, 2]\nnull\n{good}\n",
        "blank lines": f"\n\n  {good}\r\n\r\n{good}\r\n", "lists in lines": json.dumps(TALK) + "\n" + json.dumps(TALK),
        "no recording": '{"level": "info"}\n' * 1_200, "empty": "", "a number": "7",
        "no list": '{"messages": null}', "wrapped": json.dumps({"version": 1, "data": [row, row]}),
        "own record, broken": '{"schema_version": 2, "nodes": [{"x": 1}]}', "newer": '{"schema_version": 99, "nodes": []}',
    }.items():
        yield f"{name}.json", text
    yield "utf-8-sig.json", json.dumps([row, row], ensure_ascii=False, indent=1).encode("utf-8-sig")
    yield "packed.jsonl.gz", gzip.compress("\n".join([good] * 40).encode(), mtime=0)
    rows = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row | {"n": n} for n in range(12)]), rows, row_group_size=4, compression="none")
    yield "rows.parquet", rows.getvalue()
    yield "cut.parquet", rows.getvalue()[:-20]


# -- AgentToLeaP's folders and question files ------------------------------------------------------------------------------


def leap_folders(scratch: Path) -> Iterable[tuple[str, Any]]:
    """Attempts as AgentToLeaP writes, copies and loses them; imported, and measured with pass@k."""
    raw = scratch / "leap" / "_temp_raw_outputs" / "gaia_text_m"
    attempts = [("t1", 0, "one", {}), ("t1", 1, "uno", {}), ("t2", 0, None, {"max_interactions_reached": True}),
                ("t2", 1, "two", {"max_interactions_reached": True}), ("t2", 3, "two", {}), ("t4", 0, None, {}),
                ("t3", 0, "three", {"success": False, "error": "down"})]
    for task, number, answer, changes in attempts:
        last = "I do not know." if answer is None else f"so <answer>{answer}</answer{'' if number == 3 else '>'}"
        talk = [{"role": "system", "content": "sys"}, {"role": "user", "content": f"The question: What is {task}?"},
                {"role": "assistant", "content": "", "thought": "hm", "tool_calls": [use("1", "search", '{"query": ["a"]}')]},
                {"role": "user", "content": SEEN}, {"role": "assistant", "content": last, "thought": "so"}]
        told = {"task_id": task, "query": f"What is {task}?", "success": True, "conversation_history": talk} | changes
        told |= {"execution_time": 60}
        folder = raw / task / f"traj_{number}"
        save(folder / "result.json", told)
        save(folder / "dialog.json", talk[1:])
        save(folder / "meta_config.json", {"model": "agent-4b", "provider": "openai"})
    trace = {"request": {"messages": TALK[:3]}, "response": {"choices": [{"message": TALK[3]}]}}
    save(raw / "t3" / "traj_1" / "trace.json", trace)
    save(raw / "t1-context-1" / "dialog.json", TALK)
    for number in (0, 1):
        shutil.copytree(raw / "t1" / f"traj_{number}", scratch / "leap" / "gaia_text" / "m" / "success" / f"t1_run_{number}")
    save(scratch / "batch" / "batch_results.json", [told | {"gaia_sample": {"Question": "why?", "Final answer": "42"}}])
    yield "leap: imported", imported(scratch, scratch / "leap")
    yield "leap: a batch", imported(scratch, scratch / "batch")
    answers = {"t1": "one", "t2": "two", "t3": "three", "t4": "four"}
    asked = [{"task_id": t, "Question": f"What is {t}?", "Final answer": a, "Level": 1} for t, a in answers.items()]
    gaia, run = save(scratch / "gaia_text.jsonl", asked), scratch / "run"
    said = ("--benchmark", "gaia-text-103", "--questions", gaia, "--out", run)
    done = command(scratch, "eval", "score", scratch / "leap", *said)
    yield "leap: measured", {"code": done["code"], "out": done["out"].splitlines()[:4]}
    result = json.loads((run / "result.json").read_text())
    figures = ("pass_at_k", "pass_hat_k", "endings", "unscored", "model")
    yield "leap: result", {name: result[name] for name in figures}


def hidden(text: str, key: bytes) -> str:
    return base64.b64encode(bytes(a ^ b for a, b in zip(text.encode(), cycle(key), strict=False))).decode()


def table(suffix: str, rows: list[dict[str, Any]]) -> bytes | str | list[dict[str, Any]]:
    """Rows as a CSV, TSV or xlsx file has them; as they are for the other kinds."""
    cells = [list(rows[0]), *[["" if value is None else str(value) for value in row.values()] for row in rows]]
    if suffix in (".csv", ".tsv"):
        quoted = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row] for row in cells]
        return "".join(("\t" if suffix == ".tsv" else ",").join(row) + "\n" for row in quoted)
    if suffix != ".xlsx":
        return rows
    office = "http://schemas.openxmlformats.org"
    main, kin = f"{office}/spreadsheetml/2006/main", f"{office}/officeDocument/2006/relationships"
    lines = ""
    for y, row in enumerate(cells, start=1):
        texts = [cell.replace("&", "&amp;").replace("<", "&lt;") for cell in row]
        inside = [f'><v>{text}</v>' if text.isdigit() else f' t="inlineStr"><is><t>{text}</t></is>' for text in texts]
        lines += f'<row r="{y}">' + "".join(f'<c r="{chr(65 + x)}{y}"{cell}</c>' for x, cell in enumerate(inside)) + "</row>"
    sheets = '<sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets>'
    relation = f'<Relationship Id="r1" Type="{kin}/worksheet" Target="worksheets/sheet1.xml"/>'
    book = io.BytesIO()
    with zipfile.ZipFile(book, "w") as archive:
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{office}/package/2006/content-types"/>')
        book_is = f'<Relationship Id="r1" Type="{kin}/officeDocument" Target="xl/workbook.xml"/>'
        relations = f'<Relationships xmlns="{office}/package/2006/relationships">{book_is}</Relationships>'
        archive.writestr("_rels/.rels", relations)
        archive.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{kin}">{sheets}</workbook>')
        relations = f'<Relationships xmlns="{office}/package/2006/relationships">{relation}</Relationships>'
        archive.writestr("xl/_rels/workbook.xml.rels", relations)
        archive.writestr("xl/worksheets/sheet1.xml", f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>')
    return book.getvalue()


KEY = b"made up, keep out"
SHA = hashlib.sha256(KEY).digest()
Q, A = "Which potter painted the lamp?", "Nolhum"
GOLDEN = {"id": "t0", "question": Q, "golden_answers": [A, "N."], "metadata": {"type": "bridge", "level": "hard"}}
VERL = {"data_source": "nq", "prompt": [{"role": "user", "content": f"In tags. Question: {Q}\n"}],
        "reward_model": {"style": "rule", "ground_truth": {"target": [A, "N."]}}, "extra_info": {"index": 6}}
HIDDEN = {"question": hidden(Q, SHA), "answer": hidden(A, SHA), "canary": KEY.decode()}
MUSIQUE = {"id": "2hop__1", "question": Q, "answer": A, "answer_aliases": ["N"]}
BENCHMARKS: list[tuple[str, str, list[dict[str, Any]], list[str]]] = [
    ("browsecomp", "b.csv", [{"problem": HIDDEN["question"], "answer": HIDDEN["answer"], "problem_topic": t, "canary": c}
                             for t, c in (("Art", KEY.decode()), ("", "x"))], []),
    ("browsecomp-zh", "b.xlsx", [{"Topic": hidden("艺术", SHA), "Question": hidden("谁画的？", SHA), "Answer": hidden(A, SHA),
                                  "canary": KEY.decode()}], []),
    ("browsecomp-plus", "b.parquet", [{"query_id": "3", "query": hidden(Q, SHA), "answer": hidden(A, SHA), "gold_docs": ["d"]}],
     ["--canary", KEY.decode()]),
    ("xbench-2505", "x.csv", [{"id": "17", "prompt": hidden(Q, KEY), "answer": hidden(A, KEY), "canary": KEY.decode()}], []),
    ("gaia", "g.jsonl", [{"task_id": f"g{n}", "Question": Q, "Final answer": "?" * n + A * (1 - n), "Level": 1, "file_name": f}
                         for n, f in ((0, ""), (1, "a.png"))], []),
    ("hle", "h.parquet", [{"id": "h", "question": Q, "answer": A, "image": i, "category": "Arts"} for i in ("", "data:x")], []),
    ("hotpotqa", "h.jsonl", [GOLDEN, {"_id": "5a", "answer": A, "question": Q, "type": "bridge", "level": "hard"}], []),
    ("musique", "m.json", [MUSIQUE | {"answerable": answerable} for answerable in (True, False)], []),
    ("triviaqa", "t.json", [{"Question": Q, "QuestionId": "t", "Answer": {"Value": A, "Aliases": ["N"]}}], []),
    ("popqa", "p.tsv", [{"id": "9", "prop": "painter", "question": Q, "possible_answers": '["a", "b"]'}], []),
    ("world", "w.jsonl", [{"id": "q1", "text": Q, "answers": [A], "hops": 2, "meta": {"capability": "join"}},
                          {"id": "q2", "text": 7}], []),
    ("jsonl", "a.csv", [{"frage": Q, "gold": A, "stufe": "3"}], ["--columns", "question=frage,answer=gold,level=stufe"]),
    ("jsonl", "b.csv", [{"frage": Q, "gold": A}], []), ("jsonl", "c.csv", [{"question": "", "answer": ""}], []),
]
SETS = {
    "plain": [{"question": Q, "answer": A}, {"question": "Who?", "answer": '["x", "y"]'},
              {"question": "When?", "answer": None}],
    "gaia": [{"task_id": "1", "Question": Q, "Final answer": "2.0", "Level": "1"}],
    "prompt": [{"prompt": Q, "gold_answer": A, "difficulty": "3", "topic": "Art", "id": "p1"}],
    "verl": [VERL | {"extra_info": {"index": 6, "mask_url": "https://a.org"}}],
}
BROKEN_TABLES = {
    "ragged.csv": 'question,answer\n1,2\n\n3\n4,5,6\n"x"y,1\n7,8\n"open,9\n', "twice.csv": "a,b,a\n1,2,3\n", "empty.csv": "",
    "latin.csv": "question,answer\nMüller?,x\n".encode("latin-1"), "lfs.csv": "version https://git-lfs.github.com/spec/v1\n",
    "page.csv": "<!DOCTYPE html><html>", "semicolon.csv": "question;answer\nWhich, then?;this\n",
    "lines.jsonl": '{"question": "a", "answer": 1}\n{"question": \n\n[1]\n', "inside.json": {"Data": [SETS["plain"][0], 3]},
    "cut.xlsx": b"PK\x03\x04 cut",
}


def question_files(scratch: Path) -> Iterable[tuple[str, Any]]:
    """Question files of benchmarks and of one's own, read by each command."""
    kinds = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".xlsx")
    own = [("jsonl", f"{name}{kind}", rows, []) for name, rows in SETS.items() for kind in kinds
           if name != "verl" or kind in kinds[2:5]]
    for key, name, rows, more in BENCHMARKS + own:
        path = scratch / "asked" / key / name
        save(path, table(path.suffix, rows))
        yield f"check: {key} {name}", checked(scratch, key, path, more)
        if key == "jsonl" and path.suffix in kinds[2:5]:
            yield f"questions: {name}", questions_of(scratch, path)
    for name, text in BROKEN_TABLES.items():
        path = save(scratch / "broken" / name, text)
        yield f"check: broken {name}", checked(scratch, "jsonl", path, [])
        if name in ("lines.jsonl", "inside.json"):
            yield f"questions: broken {name}", questions_of(scratch, path)
    talks = save(scratch / "talks.json", [{"messages": TALK, "gt": "42"}] * 2)
    yield "questions: of trajectories", questions_of(scratch, talks)
    against = scratch / "asked" / "jsonl" / "plain.jsonl"
    asked = ("which POTTER painted the lamp", "Is it another one then?")
    same = save(scratch / "same.jsonl", [{"question": text} for text in asked])
    done = command(scratch, "data", "contamination", same, "--against", against)
    yield "contamination", {"code": done["code"], "out": done["out"].splitlines()}


def checked(scratch: Path, key: str, path: Path, more: list[str]) -> dict[str, Any]:
    out = scratch / "checked.jsonl"
    out.unlink(missing_ok=True)
    done = command(scratch, "eval", "check", key, path, "--show", "--out", out, *more)
    if done["code"]:
        return {"code": done["code"], "error": re.sub(r"can be read \(.*\)", "can be read (…)", done["error"])}
    return {"questions": lines_of(out)}


def questions_of(scratch: Path, path: Path) -> list[str]:
    """A file's questions as all commands but those of benchmarks read it, with what is left out and what is refused."""
    found: list[str] = []
    for whole in (False, True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found.append(digest([question.model_dump() for question in read_questions(path, whole=whole)]))
            except UserError as error:
                found.append(str(error).replace(str(scratch), "DIR"))
        found += [str(one.message).replace(str(scratch), "DIR") for one in caught if issubclass(one.category, UserWarning)]
    return found


def make(scratch: Path, recorded: Path | None) -> dict[str, Any]:
    """All cases."""
    scratch = scratch.resolve()
    cases: dict[str, Any] = {}
    for kind, files in (("layout", layout_files()), ("broken", broken_files())):
        for name, value in files:
            cases[f"{kind}: {name}"] = imported(scratch, save(scratch / kind / name, value))
    own = scratch / "own" / "t.parquet"
    command(scratch, "data", "import", scratch / "layout" / "bare list.json", "--out", own)
    cases["refused"] = [
        imported(scratch, scratch / "nothing.json"), imported(scratch, save(scratch / "none" / "a.txt", "x").parent),
        command(scratch, "data", "import", own, "--out", own)["error"], command(scratch, "data", "import", own)["error"],
        command(scratch, "data", "import", own, "--out", scratch / "a.txt")["error"],
    ]
    cases |= dict(leap_folders(scratch)) | dict(question_files(scratch))
    return cases | (dict(recorded_cases(scratch, recorded)) if recorded else {})
