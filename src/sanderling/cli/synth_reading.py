"""``sanderling synth graph --model``: questions of several hops from what a model reads. Thin: `synth.reading` makes them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli.asking import Spending
from sanderling.cli.synth_making import ModelChoice, page_progress, run_work, tell
from sanderling.synth.pages import MakingReport, PageResult, draw_pages, make_questions
from sanderling.synth.prompt import made_with
from sanderling.synth.reading import COMPARER, MAKER, READER, REWRITER, ReadingSettings, questions_around
from sanderling.world.contract import Page
from sanderling.world.disk.store import open_world

ReaderSpecs = Annotated[
    list[str] | None,
    typer.Option("--model", help="Who reads and words: http://host:port/v1#model or a model's directory; without it, nobody."),
]
Starts = Annotated[int, typer.Option("--starts", min=1, help="With --model: pages to begin from, drawn by the seed.")]
PerStart = Annotated[int, typer.Option("--per-start", min=1, help="With --model: most questions around one of them.")]
PagesRead = Annotated[int, typer.Option("--read", min=1, help="With --model: most pages read around one of them.")]


@dataclass(frozen=True)
class ReadingCommand:
    """The options."""

    directory: Path
    out: Path
    models: ModelChoice
    settings: ReadingSettings
    starts: int
    seed: int
    concurrency: int
    spending: Spending

    def run(self) -> None:
        """Make the questions and say what came of it. Raises UserError; exits with status 3 where something is left."""
        world = open_world(self.directory)
        drawn = draw_pages(self.directory, self.starts, self.seed)
        origin = {"world": world.name, "fingerprint": world.fingerprint, "seed": self.seed}
        console = Console(stderr=True)

        async def work() -> MakingReport:
            async with self.models.opened(self.spending, concurrency=self.concurrency, console=console) as asked:

                async def make(page: Page) -> PageResult:
                    return await questions_around(world, page, asked, self.settings, origin)

                with page_progress(console, len(drawn)) as show:
                    given = made_with(MAKER, (READER, REWRITER, COMPARER), asked, self.settings, origin)
                    return await make_questions(drawn, make, given, self.out, concurrency=self.concurrency, on_page=show)

        tell(run_work(work(), console), self.spending, self.out)
