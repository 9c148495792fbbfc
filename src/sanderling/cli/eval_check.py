"""``sanderling eval check``: whether a file is the benchmark that it should be. Reading: `evaluate.benchmarks`."""

from pathlib import Path
from typing import Annotated

import typer

from sanderling.core.text import visible


def check(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Which benchmark; sanderling eval list has them.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Its file, or the folder as it was downloaded.")],
    split: Annotated[str, typer.Option(help="The part that the file is, where its name does not say it.")] = "",
    columns: Annotated[
        str,
        typer.Option(help="Columns of unusual names, as question=Prompt,answer=Gold; also id, level, topic.", metavar="ROLES"),
    ] = "",
    canary: Annotated[str, typer.Option(help="Decrypts a file that does not hold its own canary.")] = "",
    with_attachments: Annotated[
        bool, typer.Option("--with-attachments", help="Keep questions about a file or an image.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Show private questions too, which are told by length otherwise.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the questions (JSON lines); private ones for you only.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts for machines.")] = False,
) -> None:
    """Read a benchmark's file, decrypted where it is encrypted, and count; nothing is written but to --out."""
    import json

    from rich.console import Console

    from sanderling.data.fields import named_columns
    from sanderling.data.questions import write_questions
    from sanderling.evaluate.benchmarks.checking import figures, sample_lines, sentences, warnings
    from sanderling.evaluate.benchmarks.contract import Options
    from sanderling.evaluate.benchmarks.registry import get_benchmark
    from sanderling.runs.files import check_places

    benchmark = get_benchmark(key)
    check_places([file], [out] if out else [])
    options = Options(split=split, columns=named_columns(columns), with_attachments=with_attachments, canary=canary)
    loaded = benchmark.load(file, options)
    texts = show or not loaded.private
    if as_json:
        typer.echo(json.dumps(figures(loaded, texts=texts), indent=1, ensure_ascii=False))
    else:
        console = Console(markup=False, highlight=False)
        for line in sentences(benchmark, loaded):
            console.print(visible(line), soft_wrap=True)
        for line in warnings(benchmark, loaded):
            console.print(visible(f"Note: {line}"), style="yellow", soft_wrap=True)
        for line in sample_lines(loaded, texts=texts):
            console.print(visible(line), soft_wrap=True)
        if loaded.private and show:
            console.print("These questions are not to be published: do not paste them where a crawler reads.", style="yellow")
    if out is not None:
        count = write_questions(out, loaded.questions, private=loaded.private)
        typer.echo(
            visible(f"{count:,} questions are in {out}{', readable for you only' if loaded.private else ''}."), err=as_json
        )
