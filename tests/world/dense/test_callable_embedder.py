"""A function as an embedder: named on the command line, checked, told what kind of text it gets."""

from pathlib import Path

import numpy as np
import pytest

from sanderling.core.errors import UserError
from sanderling.world.dense.embedders import CallableEmbedder, Kind, embed_units, open_embedder

MODULE = """
import numpy as np
NUMBER = 3
def lengths(texts, kind):
    return [[len(text), 1.0 if kind == "query" else 2.0] for text in texts]
def words(texts, kind):
    return "none"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "someones_model.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    return "someones_model"


def test_a_function_of_the_current_directory(module: str) -> None:
    embedder = open_embedder(f"callable:{module}:lengths")
    assert (embedder.model, embedder.dimension) == (f"callable:{module}:lengths", 2)
    assert embedder.embed(["abc"], Kind.QUERY).tolist() == [[3, 1]]
    assert embedder.embed(["abc"], Kind.DOCUMENT).tolist() == [[3, 2]]
    assert np.allclose(np.linalg.norm(embed_units(embedder, ["a", "bb"], Kind.QUERY), axis=1), 1)


@pytest.mark.parametrize(
    ("function", "sentence"), [("none", "no function 'none'"), ("NUMBER", "no function"), ("words", "no array of numbers")]
)
def test_what_is_no_embedder_is_told(module: str, function: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        open_embedder(f"callable:{module}:{function}").embed(["a"], Kind.QUERY)


@pytest.mark.parametrize("spec", ["callable:", "callable:x", "callable::f", "callable:no_such_module_anywhere:f"])
def test_a_function_that_is_not_there(spec: str) -> None:
    with pytest.raises(UserError, match=r"give hashed|cannot be imported"):
        open_embedder(spec)


def test_rows_that_are_no_rows_are_told() -> None:
    with pytest.raises(UserError, match="no row of numbers"):
        _ = CallableEmbedder(lambda texts, kind: [1.0 for _ in texts], "flat").dimension
