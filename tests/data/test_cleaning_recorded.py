"""Every recorded trajectory is cleaned, keeps to the strict grammar, and becomes a row to train on."""

import json
from collections import Counter
from functools import lru_cache

import pytest
from cleaning_makers import clean
from recordings import ROOT, needs_recordings
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from sanderling.core.chat import load_tokenizer
from sanderling.core.grammar import check_final, check_turn
from sanderling.core.observations import read_observation
from sanderling.core.profiles import get_profile
from sanderling.core.record import NodeKind, Trajectory
from sanderling.data.cleaning import RECIPES, CleanReport, Dropped, Reason
from sanderling.data.importing import open_trajectories
from sanderling.train.encoding import Encoding, Limit, sft_rows

pytestmark = needs_recordings


@lru_cache(maxsize=1)
def recorded() -> tuple[Trajectory, ...]:
    return tuple(open_trajectories(ROOT))


@lru_cache(maxsize=8)
def cleaned(name: str) -> tuple[tuple[Trajectory, ...], tuple[Dropped, ...], CleanReport]:
    kept, dropped, report = clean(recorded(), RECIPES[name])
    return tuple(kept), tuple(dropped), report


def test_dr_venus_keeps_all_of_them() -> None:
    kept, dropped, report = cleaned("dr-venus")
    assert (len(kept), dropped) == (116, ())
    notes = {code: (count.number, count.trajectories) for step in report.steps for code, count in step.notes.items()}
    assert notes["calls_repeated"] == (59, 9)
    assert notes["text_into_reasoning"] == (1, 1)
    assert "results_left_as_found" not in notes


@pytest.mark.parametrize("name", RECIPES)
def test_all_are_accounted_for(name: str) -> None:
    kept, dropped, report = cleaned(name)
    assert len(kept) + len(dropped) == report.came_in == len(recorded()) == 116
    assert Counter(one.reason for one in dropped) == {Reason(code): number for code, number in report.reasons.items()}


@pytest.mark.parametrize("name", ["dr-venus", "literesearcher", "agentcpm"])
def test_what_is_kept_keeps_to_the_strict_grammar(name: str) -> None:
    for one in cleaned(name)[0]:
        turns = list(one.turns())
        assert all(check_turn(turn.text, think_open=False) == () for turn in turns[:-1])
        assert check_final(turns[-1].text, think_open=False) == ()


def test_no_result_is_lost() -> None:
    """Titles, addresses, snippets and dates of every list, in order, are what they were."""

    def hits(found: tuple[Trajectory, ...]) -> list:
        texts = [node.text for one in found for node in one.branch() if node.kind is NodeKind.OBSERVATION]
        blocks = [block for text in texts for block in read_observation(text).blocks]
        return [
            (block.query, " ".join(hit.title.split()), hit.url, hit.snippet, hit.date) for block in blocks for hit in block.hits
        ]

    recipe = RECIPES["dr-venus"].model_copy(update={"steps": RECIPES["dr-venus"].steps[:3]})
    assert hits(tuple(clean(recorded(), recipe)[0])) == hits(recorded())


def test_rows_to_train_on(tmp_path) -> None:
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(pre_tokenizers.ByteLevel.alphabet())}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    encoding = Encoding(load_tokenizer(tmp_path), get_profile("dr-venus-4b"))
    kept = [one for one in cleaned("dr-venus")[0] if sum(len(node.text) for node in one.nodes) < 100_000]
    found = sft_rows(kept, encoding, Limit(10**9))
    assert len(found.rows) == len(kept) > 100
    assert found.counts["without_turns"] == 0
    row, one = found.rows[0], kept[0]
    trained = encoding.tokenizer.decode(row.ids[row.loss_mask].tolist())
    assert trained == "".join(turn.text.removeprefix("<think>\n") + "<|im_end|>" for turn in one.turns())


def test_the_report_can_be_read_by_others() -> None:
    report = cleaned("literesearcher")[2]
    assert CleanReport.model_validate(report.model_dump()) == report
    assert json.loads(json.dumps(report.as_json()))["came_in"] == 116
