"""Findings on the page: the verdict, its reasons in words, and the way from each to the place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tb_netdebug.checks.finding import Evidence, Finding, Severity
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import Kind, Sample, StepRecord
from tests.support.browser import Chromium, Gallery, Look
from tests.support.recordings import MessageSender
from tests.support.run_cases import sample
from tests.support.tensorboard_process import TensorBoard

SCRIPT = "</p><img src=x onerror=alert(1)>"
LAYERS = ("encoder.1", "encoder.10", "head")
LAST = 199
# How many dots there are beside the names of rows: of errors, of warnings.
DOTS = """
(canvas) => {
  const style = getComputedStyle(document.documentElement);
  const rgb = (name) => style.getPropertyValue(name).trim().match(/\\w\\w/g).map((part) => +`0x${part}`);
  const ratio = canvas.width / canvas.clientWidth;
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const pixels = context.getImageData(6 * ratio, 0, 1, canvas.height).data;
  const count = ([r, g, b]) => {
    let found = 0, before = false;
    for (let i = 0; i < pixels.length; i += 4) {
      const is = pixels[i] === r && pixels[i + 1] === g && pixels[i + 2] === b;
      if (is && !before) found++;
      before = is;
    }
    return found;
  };
  return [count(rgb("--bad")), count(rgb("--warning"))];
}
"""


def finding(
    rule: str, severity: Severity, first: int, last: int, *where: str, cause: str | None = None
) -> Finding:
    message, advice = f"This is what {rule} says.", f"Write `{rule}()` here."
    evidence = {"share of it": Evidence(0.61, 0.5), "steps": Evidence(12)}
    return Finding(rule, severity, first, last, list(where), message, advice, evidence, 0.9, cause)


FINDINGS = [
    finding("vanishing-gradients", Severity.ERROR, 60, 80, "encoder.1", "encoder.1.weight"),
    finding("not-learning", Severity.ERROR, 70, LAST, cause="vanishing-gradients"),
    finding("dead-units", Severity.WARNING, 62, LAST, "encoder.1"),
    finding("loss-input-shape", Severity.WARNING, 150, 150, "train.py:41"),
    finding("loss-plateau", Severity.INFO, 100, 180, "head"),
]


def samples() -> list[Sample]:
    kinds = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)
    found = [
        sample(kind, f"{layer}.{part}", [0.5, 1.0])
        for kind in kinds
        for layer in LAYERS
        for part in ("weight", "bias")
    ]
    return [*found, *(sample(Kind.ACTIVATION, layer, [0.0, 1.0], active=[True, False]) for layer in LAYERS)]


class ToldRun:
    """A run of which the trainer finds what it is told to."""

    def __init__(self, folder: Path, findings: list[Finding]) -> None:
        self.judge = MessageSender(findings)
        self.writer = EventWriter(folder, mirror=None, judge=self.judge)
        self.step = 0

    def go(self, steps: int) -> None:
        for _ in range(steps):
            told = {"loss": 1 / (self.step + 1), "batch_size": 4.0}
            found = samples() if self.step % 20 == 0 else []
            self.writer.put(StepRecord(self.step, 1.7e9 + self.step, told, found))
            self.step += 1
        assert self.writer.flush()


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TensorBoard, Path]]:
    """Of a run called "sick"; others are written beside it."""
    logdir = tmp_path_factory.mktemp("findings")
    run = ToldRun(logdir / "sick", FINDINGS)
    run.go(LAST + 1)
    run.writer.close()
    with TensorBoard("--logdir", str(logdir)) as board:
        yield board, logdir


@pytest.fixture
def look(chromium: Chromium, board: tuple[TensorBoard, Path]) -> Iterator[Look]:
    with chromium.look(board[0], {"run": "sick", "with": "sick"}, alone=True) as page:
        verdict(page).get_by_role("listitem").first.wait_for()
        yield page


def verdict(page: Look) -> Locator:
    return page.tab.get_by_role("region", name="Verdict")


def card(page: Look, rule: str) -> Locator:
    """The finding itself, without those that it explains."""
    return verdict(page).get_by_role("listitem").filter(has_text=f"This is what {rule} says.").last


def in_list(page: Look, run: str) -> Locator:
    return page.tab.get_by_role("complementary", name="Runs").get_by_role(
        "button", name=re.compile(f"^{run}")
    )


def heat_names(page: Look) -> list[str]:
    return [row[0] for row in page.table(page.tab.locator("section.heat"))[1:]]


@pytest.mark.parametrize(
    ("run", "word", "sentence"),
    [
        ("blown-up", "sick", "This network is sick."),
        ("healthy", "healthy", "No sign of trouble."),
        ("summary", None, "No sign of trouble."),
    ],
)
def test_each_run_has_its_verdict(
    chromium: Chromium, gallery: Gallery, run: str, word: str | None, sentence: str
) -> None:
    """On top of the Overview, also of a run of another writer; of what we recorded in the list as well."""
    with chromium.look(gallery.board, run=run) as page:
        expect(verdict(page).get_by_text(sentence)).to_be_visible()
        if word:
            expect(in_list(page, run)).to_contain_text(word)


def test_causes_are_told_and_the_rest_is_folded(look: Look) -> None:
    """The worst on top; what it explains below it, and notes apart, are opened by a click."""
    expect(verdict(look).get_by_text("This network is sick.")).to_be_visible()
    seen = verdict(look).locator(".finding-message:visible")
    expect(seen).to_have_text([f"This is what {FINDINGS[at].rule} says." for at in (0, 2, 3)])
    verdict(look).get_by_text("Explains another finding: not-learning (error)").click()
    expect(card(look, "not-learning")).to_be_visible()
    verdict(look).get_by_text("1 note: worth knowing, not a fault").click()
    expect(card(look, "loss-plateau")).to_be_visible()
    look.survey("findings")


def test_evidence_stands_beside_its_threshold(look: Look) -> None:
    """Numbers as they were judged, how sure the check is, and code as code."""
    found = card(look, "dead-units")
    expect(found.locator("code").filter(has_text="dead-units()")).to_have_text("dead-units()")
    found.get_by_text("Evidence").click()
    expect(found.locator("dt")).to_have_text(["share of it", "steps", "confidence"])
    expect(found.locator("dd")).to_have_text(["0.61 (threshold 0.5)", "12", "90 %"])


@pytest.mark.parametrize(
    ("rule", "place", "kind", "statistic", "names"),
    [
        ("vanishing-gradients", "encoder.1", "Gradients", "norm", ["encoder.1.weight", "encoder.1.bias"]),
        ("vanishing-gradients", "encoder.1.weight", "Gradients", "norm", ["encoder.1.weight"]),
        ("dead-units", "encoder.1", "Activations", "inactive units", ["encoder.1"]),
    ],
)
def test_a_place_leads_to_its_layer(
    look: Look, rule: str, place: str, kind: str, statistic: str, names: list[str]
) -> None:
    """To the kind of tensor that shows it, not to names that begin alike; a tensor alone is opened."""
    card(look, rule).get_by_role("button", name=place, exact=True).click()
    expect(look.tab.get_by_role("radio", name=kind)).to_be_checked()
    picture = look.tab.get_by_role("img", name=f"{statistic} of {kind.lower()}, {len(names)} rows")
    expect(picture).to_be_visible()
    assert names == heat_names(look)
    expect(look.tab.get_by_role("region", name=f"Details of {names[0]}")).to_have_count(int(len(names) == 1))


def test_a_place_without_tensors_is_no_link(look: Look) -> None:
    """Such as a line of code."""
    found = card(look, "loss-input-shape")
    expect(found.get_by_text("train.py:41")).to_be_visible()
    expect(found.get_by_role("button", name="train.py:41")).to_have_count(0)


def test_steps_are_shown_on_the_curves(look: Look) -> None:
    """A click on them zooms, with some steps around, and brings the curve of the loss into sight."""
    card(look, "vanishing-gradients").get_by_role("button", name=re.compile("^steps 60 – 80$")).click()
    look.page.wait_for_url(re.compile(r"range=10~130\b"))
    expect(look.chart("Loss").get_by_role("img")).to_be_in_viewport()
    expect(look.tab.get_by_role("button", name="Steps 10 – 130")).to_be_visible()


def test_only_causes_are_marked_on_the_loss(look: Look) -> None:
    """Neither consequences nor notes; another run in focus has its own."""
    said = look.chart("Loss").get_by_role("img")
    look.tab.locator("#loss-chart").scroll_into_view_if_needed()
    marks = "marked: vanishing-gradients at 60, dead-units at 62, loss-input-shape at 150"
    expect(said).to_have_attribute("aria-label", re.compile(f"{marks}$"))


def test_sick_layers_have_dots_in_the_heat_map(chromium: Chromium, board: tuple[TensorBoard, Path]) -> None:
    """In the colour of the worst that was found there; the tooltip says what, and since when."""
    link = {"run": "sick", "page": "layers", "v.layers.kind": "gradient"}
    with chromium.look(board[0], link, alone=True) as page:
        picture = page.tab.locator("section.heat").get_by_role("img")
        picture.wait_for()
        page.wait_until(lambda: dots(picture) == [2, 0])
        box = picture.bounding_box()
        assert box
        page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 8)
        found = page.tab.get_by_text("vanishing-gradients, dead-units since step 60")
        expect(found).to_be_visible()
        page.tab.get_by_role("radio", name="Activations").click()
        page.wait_until(lambda: dots(picture) == [1, 0])
        page.tab.get_by_role("searchbox", name="Search tensors by name").fill("head")
        page.wait_until(lambda: dots(picture) == [0, 0])


def dots(picture: Locator) -> list[int]:
    canvas = (
        picture if picture.evaluate("(each) => each.tagName") == "CANVAS" else picture.locator("canvas").first
    )
    found: list[int] = canvas.evaluate(DOTS)
    return found


def test_findings_of_a_live_run_appear(chromium: Chromium, board: tuple[TensorBoard, Path]) -> None:
    """Without a reload, and so do their verdict and their marks."""
    run = ToldRun(board[1] / "live", [])
    run.go(20)
    with chromium.look(board[0], {"run": "live", "with": "live"}, alone=True) as page:
        expect(verdict(page).get_by_text("No sign of trouble.")).to_be_visible()
        run.judge.say([finding("loss-spike", Severity.WARNING, 10, 19)])
        run.go(1)
        expect(card(page, "loss-spike")).to_be_visible()
        expect(verdict(page).get_by_text("Something may be wrong.")).to_be_visible()
        expect(in_list(page, "live")).to_contain_text("suspect")
        expect(page.chart("Loss").get_by_role("img")).to_have_attribute(
            "aria-label", re.compile("loss-spike at 10")
        )
    run.writer.close()


def test_hostile_words_stay_words(chromium: Chromium, board: tuple[TensorBoard, Path]) -> None:
    """In every part of a finding; the page shows them as they are."""
    evidence = {SCRIPT: Evidence(SCRIPT)}
    places = [SCRIPT, "long" * 3000, "javascript:alert(1)"]
    bad = Finding(
        SCRIPT, Severity.ERROR, 0, 9, places, f"m {SCRIPT} `{SCRIPT}`", SCRIPT, evidence, 0.9, SCRIPT
    )
    run = ToldRun(board[1] / "hostile", [bad])
    run.go(10)
    run.writer.close()
    with chromium.look(board[0], run="hostile", alone=True) as page:
        verdict(page).get_by_text("Evidence").click()
        expect(verdict(page).get_by_text(SCRIPT).first).to_be_visible()
        expect(verdict(page).locator("img")).to_have_count(0)
        assert 0 == page.overflow
        assert [] == page.alerts
        page.survey("findings-hostile")
