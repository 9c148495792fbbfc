"""Settings: a wrong key or value is one sentence that says what to do, and resolved settings read back as they were."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sanderling.core.config import describe, load_config, read_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.plugins import Choice, Chosen


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


class Deep(Frozen):
    rate: float = 0.5
    colour: Colour = Colour.RED


class Train(Frozen):
    steps: int = Field(default=10, ge=1)
    shuffle: bool = True
    betas: tuple[float, ...] = (0.9, 0.95)
    deep: Deep = Deep()

    @model_validator(mode="after")
    def _odd(self) -> "Train":
        if self.steps == 13:
            raise ValueError("Steps of 13 bring bad luck")
        return self


class Settings(Frozen):
    title: str = "a title"
    train: Train = Train()
    extra: Deep | None = None
    by_name: dict[str, Deep] = {}
    shares: dict[str, float] = {"1": 0.5}
    rows: tuple[Deep, ...] = ()
    where: Path = Path("runs")


def load(toml: str = "", *overrides: str) -> Settings:
    return load_config(Settings, toml, "my.toml", overrides)


# -- reading ------------------------------------------------------------------------------------------------------------


def test_defaults_file_and_overrides_in_that_order(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("title = 'grün'\n[train]\nsteps = 20\nshuffle = false", encoding="utf-8")
    found = read_config(Settings, tmp_path / "my.toml", ["train.steps=30", "train.deep.colour=Blue", "extra.rate=2.0"])
    assert found.train == Train(steps=30, shuffle=False, deep=Deep(colour=Colour.BLUE))
    assert found.title == "grün" and found.extra == Deep(rate=2.0), "an override makes a section that the file lacks"
    assert load() == Settings()


@pytest.mark.parametrize(
    ("text", "value"),
    [("20", "20"), ("", ""), ("a=b", "a=b"), ('"quoted = # text"', "quoted = # text"), ("über", "über"), ("'1'", "1")],
)
def test_override_values_for_text(text: str, value: str) -> None:
    if text == "20":  # TOML's number where text is wanted: said, not guessed
        with pytest.raises(UserError, match="title: input should be a valid string"):
            load("", f"title={text}")
    else:
        assert load("", f"title={text}").title == value


def test_override_values_are_toml() -> None:
    found = load(
        "", "train.betas=[0.1, 0.2]", "train.shuffle=false", " train.steps = 7", "shares={a = 1.0}", "by_name.x.rate=1.5"
    )
    assert found.train == Train(betas=(0.1, 0.2), shuffle=False, steps=7)
    assert found.shares == {"a": 1.0}
    assert found.by_name == {"x": Deep(rate=1.5)}


# -- refusing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toml", "override", "said"),
    [
        ("titel = 'x'", "", "my.toml has no setting titel: did you mean title?"),
        ("[train]\nstep = 3", "", "my.toml has no setting train.step: did you mean train.steps?"),
        ("[train.deep]\nrat = 3", "", "did you mean train.deep.rate?"),
        ("[extra]\ncolor = 3", "", "did you mean extra.colour?"),
        ("", "train.deep.colur=Blue", "did you mean train.deep.colour?"),
        ("", "zzz=1", "--set names no setting zzz: choose from title, train, extra"),
        ("", "train", "is no override: write section.key=value."),
        ("", "=3", "is no override: write section.key=value."),
        ("", "train..steps=3", "is no override: write section.key=value."),
        ("", "title=\udcff", "is not text in UTF-8"),
        ("title = 'x'", "title.deep=3", "reaches into title, which is a value and not a section."),
        ("[train]\nsteps = 0", "", "In my.toml, train.steps: input should be greater than or equal to 1."),
        ("[train]\nsteps = 'many'", "", "train.steps: input should be a valid integer"),
        ("train = 3", "", "In my.toml, train: input should be a section of settings, not a single value."),
        ("shares = 3", "", "In my.toml, shares: input should be a section of settings, not a single value."),
        ("where = true", "", "In my.toml, where: input should be a path, in quotes."),
        ("", "train.deep.rate=inf", "In --set, train.deep.rate: input should be a finite number."),
        ("[train]\nbetas = [0.9, nan]", "", "In my.toml, train.betas.1: input should be a finite number."),
        ("[train]\nsteps = 13", "", "In my.toml, train: steps of 13 bring bad luck."),
        ("", "train.steps=13", "In my.toml with --set, train: steps of 13 bring bad luck."),
        ("[train.deep]\ncolour = 'green'", "", "input should be 'Red' or 'Blue'."),
        ("[by_name.x]\nrat = 1", "", "by_name.x.rat"),
        ("title = ", "", "my.toml is not valid TOML"),
        ("title = 'a'\ntitle = 'b'", "", "my.toml is not valid TOML"),
    ],
)
def test_what_is_wrong_is_one_sentence(toml: str, override: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        load(toml, *([override] if override else []))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_may_begin_with_the_mark_that_editors_set(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('title = "é"', encoding="utf-8-sig")
    assert read_config(Settings, tmp_path / "my.toml").title == "é"


class Square(Chosen):
    kind: str = "square"
    side: float = 1.0


class Round(Chosen):
    kind: str = "round"
    radius: float = 1.0


def square(config: Square) -> float:
    return config.side**2


def round_(config: Round) -> float:
    return 3 * config.radius**2


class Drawing(Frozen):
    shape: Annotated[Chosen, Choice("shape", {"square": square, "round": round_}, Chosen)] = Square()


def test_a_wrong_key_of_a_section_with_kinds_gets_the_nearest_of_its_kind() -> None:
    with pytest.raises(UserError, match=r"no setting shape\.radus: did you mean shape\.radius\?"):
        load_config(Drawing, 'shape = { kind = "round", radus = 2.0 }', "my.toml")
    found = load_config(Drawing, 'shape = { kind = "round" }', "my.toml", ["shape.radius=2.0"])
    assert found.shape == Round(radius=2.0)
    with pytest.raises(UserError, match=r"In my.toml, shape: there is no shape 'oval': choose one of square, round"):
        load_config(Drawing, 'shape = { kind = "oval", radus = 2.0 }', "my.toml")


def test_all_wrong_settings_are_told_at_once() -> None:
    toml = "titel = 'x'\n[train]\nsteps = 0\nbetas = [nan]\n[extra]\nrate = 'fast'\n[[rows]]\ncolor = 'Red'"
    with pytest.raises(UserError) as caught:
        load_config(Settings, toml, "my.toml", ["train", "by_name.x.rat=1"], {"train.shuffle": "maybe", "title": None})
    assert str(caught.value).splitlines() == [
        "8 settings are wrong:",
        "  'train' is no override: write section.key=value.",
        "  --set names no setting by_name.x.rat: did you mean by_name.x.rate?",
        "  my.toml has no setting rows.0.color: did you mean rows.0.colour?",
        "  my.toml has no setting titel: did you mean title?",
        "  In my.toml, train.betas.0: input should be a finite number.",
        "  In my.toml, train.steps: input should be greater than or equal to 1.",
        "  In the command, train.shuffle: input should be a valid boolean, unable to interpret input.",
        "  In my.toml, extra.rate: input should be a valid number, unable to parse string as a number.",
    ]


def test_options_go_before_overrides_and_overrides_before_the_file() -> None:
    given = {"train.steps": 3, "extra.rate": 2.0, "title": None}
    found = load_config(Settings, "title = 'a'\n[train]\nsteps = 1", "my.toml", ["train.steps=2", "title=b"], given)
    assert found == Settings(title="b", train=Train(steps=3), extra=Deep(rate=2.0))


def test_another_kind_of_a_section_leaves_out_settings_of_the_former_one_and_says_so() -> None:
    toml = "shape = { kind = 'round', radius = 2.0 }"
    with pytest.warns(UserWarning, match=r"shape is of the kind 'square' now: radius of my.toml, .* is left out"):
        assert load_config(Drawing, toml, "my.toml", ["shape.kind=square"]).shape == Square()
    with pytest.raises(UserError, match=r"no setting shape\.radius"):  # asked for together with the new kind
        load_config(Drawing, toml, "my.toml", ["shape.kind=square", "shape.radius=3.0"])
    with pytest.raises(UserError, match=r"In --set, shape.side: input should be a valid number"):
        load_config(Drawing, toml, "my.toml", ["shape={kind = 'square', side = 'long'}"])


class Either(Frozen):
    size: int | Literal["auto"] = 1  # how large
    needed: str


def test_what_a_setting_of_several_kinds_may_be_is_told_once() -> None:
    with pytest.raises(
        UserError, match=r"^2 settings are wrong:\n  In a, size: input should be .* or be 'auto'\.\n  In a, needed: field"
    ):
        load_config(Either, "size = 'large'", "a")


def test_a_missing_file_a_directory_and_a_binary_file_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "noise.toml").write_bytes(b"\xff\xfe\x00\x80")
    for path, sentence in (
        ("none.toml", "There is no file .*none.toml: check"),
        ("", "Cannot read"),
        ("noise.toml", "not UTF-8"),
    ):
        with pytest.raises(UserError, match=sentence):
            read_config(Settings, tmp_path / path)


# -- writing ------------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
DEEPS = st.builds(Deep, rate=FLOATS, colour=st.sampled_from(Colour))
SETTINGS = st.builds(
    Settings,
    title=TEXTS,
    train=st.builds(
        Train, steps=st.integers(14, 2**62), shuffle=st.booleans(), betas=st.lists(FLOATS, max_size=3).map(tuple), deep=DEEPS
    ),
    extra=st.none() | DEEPS,
    by_name=st.dictionaries(TEXTS, DEEPS, max_size=3),
    shares=st.dictionaries(TEXTS, FLOATS, max_size=3),
    rows=st.lists(DEEPS, max_size=2).map(tuple),
    where=st.just(Path("a b/ü")),
)


@given(SETTINGS)
def test_resolved_settings_read_back_as_they_were(config: Settings) -> None:
    text = to_toml(config)
    assert load_config(Settings, text, "back") == config
    assert to_toml(load_config(Settings, text, "back")) == text


def test_the_description_of_settings_is_a_file_of_them() -> None:
    assert load_config(Settings, describe(Settings), "back") == Settings(extra=Deep())  # a section shows its defaults
    assert describe(Either) == "# how large\nsize = 1\n# needed =\n"


@given(SETTINGS)
def test_the_description_of_given_settings_reads_back_as_they_were(config: Settings) -> None:
    assert load_config(Settings, describe(config), "back") == config
    assert ("[extra]" in describe(config).splitlines()) == (config.extra is not None)


def test_written_settings_are_readable() -> None:
    assert to_toml(Settings(title="x")).startswith(
        'title = "x"\nrows = []\nwhere = "runs"\n\n[train]\nsteps = 10\nshuffle = true\n'
    )
