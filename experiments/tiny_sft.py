"""The shipped SFT model that `make demo-quick` starts from: what a run of the tiny recipe chose, in 16 bits.

sanderling recipe run tiny
python experiments/tiny_sft.py --run runs/tiny --out src/sanderling/recipes/assets/tiny-sft
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sanderling.core.errors import UserError
from sanderling.recipes.tiny import ASSETS, SHIPPED_BASE, TinyRun, find_recipe


def main(
    run: Annotated[Path, typer.Option(help="The directory of a run that has chosen the arm that RL starts from.")],
    out: Annotated[Path, typer.Option(help="Directory of the model.")],
) -> None:
    """Write the chosen SFT model of a run in bfloat16."""
    import torch

    from sanderling.train.checkpoint import load_model, save_model

    made = TinyRun(run.resolve(), find_recipe("tiny"))
    start = made.model(made.chosen())
    save_model(load_model(start).to(torch.bfloat16), out, start)
    if out.resolve().parent == ASSETS.resolve():
        for copied in sorted(out.glob("tokenizer*")):  # links to the base model's, which are the same
            copied.unlink()
            copied.symlink_to(Path("..") / SHIPPED_BASE.name / copied.name)
    print(f"The SFT model is in {out}.")


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        sys.exit(f"error: {error}")
