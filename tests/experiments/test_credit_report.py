"""The report of a comparison of credit, from units that are there."""

import json
from pathlib import Path

from credit import SETTINGS, Comparison, CreditConfig
from credit_report import write_report

from sanderling.core.config import read_config


def test_units_are_found_by_whole_names_and_all_comparisons_are_counted(tmp_path: Path) -> None:
    tasks = "tasks={long = {label = 'one', recipe = 'x.toml'}, 'long.2' = {label = 'other', recipe = 'x.toml'}}"
    config = read_config(CreditConfig, SETTINGS, [tasks])
    (tmp_path / "units").mkdir()
    for task, right in (("long", 1), ("long.2", 3)):
        for seed in config.seeds:
            told = {"seed": seed, "lr": 0.0, "seconds": 1.0, "counts": {"w-1": [right, 4, "w"]}}
            (tmp_path / "units" / f"{task}.sft.seed-{seed}.json").write_text(json.dumps(told))
    text = write_report(Comparison(tmp_path, config), "python experiments/credit.py").read_text()
    assert "| SFT | 5 | – | 25.0%" in text and "| SFT | 5 | – | 75.0%" in text
    assert "of 18 comparisons" in text, "after half of the rollouts, too"
