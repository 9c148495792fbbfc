"""Every arm of the ablation against GRPO, beside the learning rate that its trials chose: looked at after it was whole.

    python benchmarks/ablation_afterwards.py [benchmarks/results/ablation/units]

What decides the ablation stands in its settings, committed beforehand, and in ``report.md``. This is no part of it: learning
rates were chosen by short trials and differ between arms, and whoever compares two arms compares these too. Intervals are as
the report has them, over seeds and questions.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from sanderling import recipes
from sanderling.core.config import read_config
from sanderling.recipes.ablation.config import AblationConfig
from sanderling.recipes.ablation.figures import Cells, Estimate, cells_of, difference

HERE = Path(__file__).parent
AGAINST = "grpo"


def cells(units: Path, setting: str, config: AblationConfig) -> dict[str, tuple[float, Cells]]:
    """By trained arm: its learning rate, and its values."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for file in sorted(units.glob(f"{setting}.*.json")):
        unit = json.loads(file.read_text())
        found[unit["arm"]].append(unit)
    return {arm: (of[0]["lr"], cells_of(of, config.measuring.attempts)) for arm, of in found.items() if of[0]["lr"]}


def line(setting: str, arm: str, lr: float, seeds: int, found: Estimate) -> str:
    """A row of the table."""
    points = [found.value, *(found.interval or ())]
    value, *within = (f"{100 * point:+.1f}".replace("-", "−") for point in points)
    told = f"{value} ({within[0]} to {within[1]})" if within else value
    return f"| {setting} | {arm} | {lr:g} | {seeds} | {told} |"


def main() -> None:
    """Print the table, highest learning rates last."""
    units = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results" / "ablation" / "units"
    config = read_config(AblationConfig, Path(recipes.__file__).parent / "ablation-tiny.toml")
    how = {"level": config.criterion.level, "seed": config.criterion.seed, "resamples": config.criterion.resamples}
    print("| setting | arm | lr | seeds | pass@1 less GRPO's, points (95%) |\n|---|---|---:|---:|---:|")
    for setting in config.settings:
        of = cells(units, setting, config)
        for arm in sorted(of.keys() - {AGAINST}, key=lambda arm: (of[arm][0], list(config.arms).index(arm))):
            found = difference(of[arm][1], of[AGAINST][1], **how)
            print(line(setting, config.arms[arm].label.removeprefix("+ "), of[arm][0], len(of[arm][1].seeds), found))


if __name__ == "__main__":
    main()
