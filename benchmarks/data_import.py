"""What an import costs: rows a second and peak memory, on Parquet files of a million rows and of long trajectories.

Made files, in the columns of the published ones: trajectories of one to three kilobytes a row (REDSearcher's columns, two
calls each), trajectories of 50 turns with ten search results a turn (the same columns; row groups of 1,000 rows), and
questions (verl's columns). Each is read in a process of its own, as a stream whose records are dropped or, where the table
says so, to JSON lines on the disk through the function behind ``sanderling data import``. Peak memory is the process's largest
resident size; the interpreter with its libraries is measured beside it. Texts repeat from row to row, so the files are smaller
on the disk than real ones; what is read of them is not.

Run: ``OMP_NUM_THREADS=1 python benchmarks/data_import.py --scratch DIRECTORY``; writes ``results/data_import.json``, ``.md``.
"""

import argparse
import datetime
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanderling.data.importing import Import, import_to
from sanderling.runs.files import replace_file
from sanderling.runs.progress import command_line, machine

OUT = Path(__file__).parent / "results" / "data_import.json"
SEED, POOL, GROUP = 11, 500, 1_000
WORDS = ("tidal", "flat", "river", "museum", "painter", "treaty", "bridge", "harbour", "orchid", "census", "violin", "comet")


def words(rng: random.Random, count: int) -> str:
    """Running text."""
    return " ".join(rng.choices(WORDS, k=count))


def results(rng: random.Random, hits: int, size: int) -> str:
    """One query's results, as DR-Venus lays them out."""
    pages = [
        {"title": words(rng, 5), "url": f"https://example.org/{rng.random()}", "snippet": words(rng, size)} for _ in range(hits)
    ]
    body = json.dumps([{"query": words(rng, 4), "web_page_info_list": pages}])
    return f"<tool_response>\n{body}\n</tool_response>"


def messages(rng: random.Random, turns: int, hits: int, size: int) -> list[dict[str, str]]:
    """A question, ``turns`` turns that search, and one that answers."""
    said = [{"role": "user", "content": words(rng, 30)}]
    for _ in range(turns):
        call = json.dumps({"name": "search", "arguments": {"query": [words(rng, 5)]}})
        turn = f"<think>\n{words(rng, size)}\n</think>\n\n<tool_call>\n{call}\n</tool_call>"
        said += [{"role": "assistant", "content": turn}, {"role": "user", "content": results(rng, hits, size)}]
    last = f"<think>\n{words(rng, size)}\n</think>\n\n<answer>\n{words(rng, 3)}\n</answer>"
    return [*said, {"role": "assistant", "content": last}]


def trajectory_row(rng: random.Random, turns: int, hits: int, size: int) -> dict[str, Any]:
    """A row in REDSearcher's columns."""
    said = messages(rng, turns, hits, size)
    meta = {"question": said[0]["content"], "answer": words(rng, 3), "difficulty": rng.random()}
    return {"meta": meta, "system_prompt": words(rng, 60), "messages": said}


def question_row(rng: random.Random, number: int) -> dict[str, Any]:
    """A row in verl's columns, as LiteResearcher fills them."""
    url = f"https://example.org/{number}"
    extra = {"index": str(number), "mask_url": url, "question": words(rng, 25), "split": "train"}
    extra["tools_kwargs"] = {"search": {"create_kwargs": {"url": url}}}
    prompt = [{"role": "system", "content": words(rng, 150)}, {"role": "user", "content": "Question: " + extra["question"]}]
    model = {"ground_truth": {"target": [words(rng, 2)]}, "style": "rule"}
    return {"data_source": "made", "prompt": prompt, "reward_model": model, "extra_info": extra}


def short_rows(rng: random.Random) -> list[dict[str, Any]]:
    """Trajectories of one to three kilobytes."""
    return [trajectory_row(rng, 2, 2, 12) for _ in range(POOL)]


def long_rows(rng: random.Random) -> list[dict[str, Any]]:
    """Trajectories of 50 turns."""
    return [trajectory_row(rng, 50, 10, 40) for _ in range(POOL // 5)]


def question_rows(rng: random.Random) -> list[dict[str, Any]]:
    """Questions with a masked page."""
    return [question_row(rng, number) for number in range(POOL)]


FILES: dict[str, Callable[[random.Random], list[dict[str, Any]]]] = {
    "short trajectories": short_rows,
    "trajectories of 50 turns": long_rows,
    "questions": question_rows,
}


def make(path: Path, name: str, rows: int) -> float:
    """Write a file by repeating a pool of rows; returns kilobytes of JSON a row."""
    pool = FILES[name](random.Random(SEED))
    table = pa.Table.from_pylist(pool)
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for start in range(0, rows, GROUP):
            size = min(GROUP, rows - start)
            copies = [table] * (size // len(pool) + 1)
            writer.write_table(pa.concat_tables(copies).slice(0, size).combine_chunks())
    return sum(len(json.dumps(row)) for row in pool) / len(pool) / 1e3


def measure(path: Path | None, out: Path | None) -> dict[str, float]:
    """Read a file in this process (and write it); without a file, only say how large the process is."""
    began, busy, count = time.perf_counter(), time.process_time(), 0
    if path is not None and out is None:
        for _ in Import(path):
            count += 1
    elif path is not None:
        count = import_to([path], out, None, lambda *_: None).report.trajectories
    peak = peak_mb()
    return {
        "records": count,
        "seconds": time.perf_counter() - began,
        "processor_seconds": time.process_time() - busy,
        "peak_mb": peak,
    }


def peak_mb() -> float:
    """Largest resident size of this process, from its own account (``ru_maxrss`` begins with the parent's)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def in_child(path: Path | None, out: Path | None) -> dict[str, float]:
    """:func:`measure` in a fresh process."""
    command = [sys.executable, __file__, "--child", str(path or ""), str(out or "")]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def rows_of(given: argparse.Namespace) -> Iterator[tuple[str, int, bool]]:
    """Which files, how many rows, and whether they are written too."""
    yield "short trajectories", given.rows, False
    yield "short trajectories", given.rows // 10, True
    yield "trajectories of 50 turns", given.long_rows, False
    yield "trajectories of 50 turns", given.long_rows, True
    yield "questions", given.rows, False


def run(given: argparse.Namespace) -> list[dict[str, Any]]:
    """All measurements."""
    found = [{"file": "none: the interpreter and its libraries", "rows": 0, **in_child(None, None)}]
    for name, rows, written in rows_of(given):
        path = given.scratch / "made.parquet"
        kilobytes = make(path, name, rows)
        out = given.scratch / "made.jsonl" if written else None
        print(f"{name}, {rows:,} rows{', to JSON lines' if out else ''} …", flush=True)
        one = in_child(path, out)
        assert one["records"] == rows
        about = {"file": name, "rows": rows, "kb_a_row": kilobytes, "disk_mb": path.stat().st_size / 1e6}
        found.append(about | {"written": out is not None, **one, "rows_per_s": rows / one["seconds"]})
        for made in (path, out):
            if made is not None:
                made.unlink()
    return found


def markdown(data: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [
        f"`{data['command']}`; {data['machine']}; {data['date']}.",
        "",
        "| File | Rows | kB a row | To | rows/s | rows/s of processor time | s | Peak MB |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in data["rows"]:
        if row["rows"]:
            speed = f"{row['rows_per_s']:,.0f} | {row['rows'] / row['processor_seconds']:,.0f} | {row['seconds']:,.0f}"
            to = "JSON lines" if row["written"] else "nowhere"
            lines.append(
                f"| {row['file']} | {row['rows']:,} | {row['kb_a_row']:.1f} | {to} | {speed} | {row['peak_mb']:,.0f} |"
            )
        else:
            lines.append(f"| {row['file']} | | | | | | | {row['peak_mb']:,.0f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--long-rows", type=int, default=4_000)
    parser.add_argument("--scratch", type=Path, help="a directory with some gigabytes of space")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        path, out = (Path(name) if name else None for name in given.child)
        print(json.dumps(measure(path, out)))
        return
    if given.scratch is None:
        parser.error("give --scratch DIRECTORY")
    rows = run(given)
    shown = [
        "benchmarks/data_import.py",
        "--rows",
        str(given.rows),
        "--long-rows",
        str(given.long_rows),
        "--scratch",
        "DIRECTORY",
    ]
    data = {
        "command": command_line(shown),
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rows": rows,
    }
    replace_file(given.out, json.dumps(data, indent=1) + "\n")
    replace_file(given.out.with_suffix(".md"), markdown(data))
    print(markdown(data))


if __name__ == "__main__":
    main()
