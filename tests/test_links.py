"""Links of the README and of docs, results and pages beside the code: what they name is there, heading included."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PAGES = sorted(
    path.relative_to(HERE)
    for path in [HERE / "README.md", *(HERE / "docs").rglob("*.md"), *(HERE / "benchmarks").rglob("*.md")]
)


def text_of(page: Path) -> str:
    """Without what stands in code, where brackets are no links."""
    return re.sub(
        r"`[^`\n]*`", lambda found: found[0].replace("](", "] ("), re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    )


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings; the second of two alike is numbered."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.*?) *#*$", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), flags=re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {name if not number else f"{name}-{number}" for name, most in found.items() for number in range(most + 1)}


def broken(page: Path) -> list[str]:
    """Links within the house that lead nowhere."""
    lost = []
    for link in LINK.findall(text_of(page)):
        file, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            lost.append(link)
    return lost


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path):
    assert broken(HERE / page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path):
    (tmp_path / "other.md").write_text("# One, two: `three`\n```\n# none\n```\n## Again\n## Again\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#one-two-three) [b](other.md#again-1) [c](#here) `[d](gone.md)` [e](https://x.org/y#z)\n# Here\n"
        "[f](gone.md) [g](other.md#none) [h](other.md#again-2) [i](#there)\n"
    )
    assert broken(page) == ["gone.md", "other.md#none", "other.md#again-2", "#there"]
