"""What of a file of questions cannot be read is told: left out with a warning, or refused where all of it is wanted."""

import warnings
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.data.files import LeftOutWarning
from sanderling.data.questions import read_questions

RIGHT = '{"question": "Who is the mayor?", "answer": "Nolhum"}'
OTHER = '{"question": "Who is the potter?", "answer": "Tessam"}'


@pytest.mark.parametrize("wrong", ['{"question": "Who is', '{"quest": "Who is the third?", "answer": "Ulm"}'])
def test_an_entry_that_is_no_question_is_left_out_with_a_warning_or_refused(tmp_path: Path, wrong: str):
    file = tmp_path / "mine.jsonl"
    file.write_text(f"{RIGHT}\n{wrong}\n{OTHER}\n")
    with pytest.warns(
        LeftOutWarning, match=r"mine\.jsonl: left out are 1 entry that could not be read; sanderling data import"
    ):
        assert len(read_questions(file)) == 2
    with pytest.raises(UserError, match=r"1 of the 3 entries of .* cannot be read as questions, first entry 2 of .*mine: mend"):
        read_questions(file, whole=True)


def test_a_file_that_is_all_questions_says_nothing(tmp_path: Path):
    file = tmp_path / "mine.jsonl"
    file.write_text(f"{RIGHT}\n{OTHER}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_questions(file) == read_questions(file, whole=True)


def test_a_file_beside_that_is_no_recording_refuses_nothing(tmp_path: Path):
    (tmp_path / "mine.jsonl").write_text(f"{RIGHT}\n")
    (tmp_path / "settings.json").write_text('{"colour": "red"}')
    with pytest.warns(LeftOutWarning, match="1 file without a recording"):
        assert len(read_questions(tmp_path, whole=True)) == 1
