"""Calibration of a stored run: samples, labels of a sheet, corrected rates, the audit, the ledger, and the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.questions.calibration.audit import audit_run
from ethogram.questions.calibration.labels import label as label_run
from ethogram.questions.calibration.question import calibrate
from ethogram.questions.calibration.samples import number_of, read_samples
from ethogram.questions.calibration.variance import variance
from ethogram.questions.calibration.variance_ledger import UnitPrices
from ethogram.questions.gate.question import gate
from ethogram.store import Policy
from ethogram.store.rescore import append_outcomes
from ethogram.traces import Label, Scored

ITEM = "rubric/termination"


@pytest.fixture
def night(tmp_path: Path, judged_run: Any) -> Any:
    return judged_run(tmp_path / "home").judge()


def label(run: Any, sheet: Path, n: int, **more: object) -> int:
    """Draw a sample of n in all, fill in its sheet, and read it."""
    label_run(run.name, name="rubric", sample=n, out=sheet, home=run.home)
    run.fill(sheet, **more)  # type: ignore[arg-type]
    return label_run(run.name, csv_file=sheet, home=run.home).labelled


def test_from_verdicts_to_a_corrected_rate(night: Any, tmp_path: Path) -> None:
    (none,) = calibrate("night", home=night.home).items
    assert (none.labels, none.automate, none.decided, none.corrected.value) == (0, False, False, None)
    assert none.why == "no sample was drawn"
    assert none.next is not None
    assert none.next.command == "ethogram label night --label rubric --sample 50 -o sheet.csv"
    assert label(night, tmp_path / "pilot.csv", 50) == 50
    (few,) = calibrate("night", home=night.home).items
    assert (few.labels, few.decided) == (50, False)
    assert few.warnings == ["50 labels: a number that rests on a judge needs 100"]
    assert few.next is not None
    assert few.next.rule.startswith("Neyman")
    assert label(night, tmp_path / "more.csv", 200) == 150
    found = calibrate("night", by=["part"], home=night.home)
    (item,) = found.items
    assert (found.decided, item.automate, item.labels, item.outside, item.unlabelled) == (True, True, 200, 0, 0)
    assert item.corrected.method.endswith("ppi++ wilson-neff")
    assert item.corrected.low is not None
    assert item.corrected.high is not None
    assert item.corrected.low < 0.7 < item.corrected.high
    assert [(s.by, s.value, s.judged) for s in item.slices] == [("part", "a", 200), ("part", "b", 200)]
    assert sum(s.labels for s in item.slices) == 200
    # everything was counted as it is
    place = {t: i for i, t in enumerate(night.ids)}
    (sample,) = read_samples(night.home.run("night"))["rubric"]
    at = [place[d.trace] for d in sample.drawn]
    assert item.confusion.both_yes == np.sum(night.truth[at] & night.verdict[at])
    assert item.sensitivity == item.recall
    assert label_run("night", csv_file=tmp_path / "more.csv", home=night.home).labelled == 0, "a sheet read again"


def test_grades_are_compared_by_their_distance(night: Any, tmp_path: Path) -> None:
    label(night, tmp_path / "pilot.csv", 50)
    (item,) = calibrate("night", home=night.home).items
    assert item.weighted_kappa is None, "yes and no are two grades: that is Cohen's kappa"
    assert item.ac1.value is not None
    assert item.agreement.value is not None
    assert item.kappa.value is not None
    assert item.kappa.value < item.ac1.value < item.agreement.value
    # a judge and two people who grade from 1 to 5: the judge is one too high in every fifth trace
    rng = np.random.default_rng(5)
    given = rng.integers(1, 5, len(night.ids))
    judge = np.where(np.arange(given.size) % 5 == 0, given + 1, given)
    rows = [
        Label(trace_id=t, name="quality", value=int(g), by="m", source="judge")
        for t, g in zip(night.ids, judge, strict=True)
    ]
    append_outcomes(night.home.run("night"), {}, rows, night.home.redactor(Policy()))
    sheet = tmp_path / "grades.csv"
    said = [f"{t},quality,{g},{who}" for t, g in zip(night.ids, given, strict=True) for who in ("ada", "bob")]
    sheet.write_text("\n".join(["trace,name,value,by", *said]))
    (graded,) = calibrate("night", score="quality", labels=sheet, home=night.home).items
    assert graded.weighted_kappa is not None
    mean = judge.mean() - given.mean()
    chance = judge.var() + given.var() + mean**2
    assert graded.weighted_kappa.value == pytest.approx(1 - np.mean((judge - given) ** 2) / chance, abs=1e-9)
    assert graded.warnings[-1] == ("grades go up to 5: every figure but weighted kappa is of yes and no, not of grades")


def test_samples_grow_and_keep_their_probabilities(night: Any, tmp_path: Path) -> None:
    run = night.home.run("night")
    one = label_run("night", sample=40, home=night.home).sample
    two = label_run("night", sample=80, home=night.home).sample
    assert one is not None
    assert two is not None
    assert {d.trace for d in one.drawn} < {d.trace for d in two.drawn}
    assert len(two.drawn) == 80
    for stratum in two.strata:
        own = [d for d in two.drawn if d.stratum == stratum.stratum]
        assert len(own) == stratum.drawn
        assert {round(d.probability, 9) for d in own} == {round(stratum.drawn / stratum.of, 9)}
    assert read_samples(run)["rubric"] == [two]
    audit = label_run("night", audit_share=0.1, home=night.home).sample
    assert audit is not None
    assert {d.trace for d in audit.drawn} == {t for t in night.ids if number_of(t) < 0.1}
    both = label_run("night", sample=90, strata=("verdict", "task"), home=night.home).sample
    assert both is not None
    assert all(s.drawn >= 1 for s in both.strata)
    for bad in ({"sample": 10, "strata": ("task",)}, {"sample": 10, "strata": ("mood",)}, {"audit_share": 1.5}):
        with pytest.raises(BadUsage):
            label_run("night", home=night.home, **bad)  # type: ignore[arg-type]


def test_labels_that_no_sample_drew_do_not_enter(night: Any, tmp_path: Path) -> None:
    label(night, tmp_path / "a.csv", 100)
    before = calibrate("night", home=night.home).items[0]
    drawn = {d.trace for d in read_samples(night.home.run("night"))["rubric"][0].drawn}
    chosen = [t for t in night.ids if t not in drawn][:30]
    night.add([Label(trace_id=t, name=ITEM, value=False, by="bob", source="hand") for t in chosen])
    after = calibrate("night", home=night.home)
    assert (after.items[0].outside, after.items[0].labels) == (30, 100)
    assert after.items[0].corrected == before.corrected
    assert after.items[0].outside_traces == sorted(t.removeprefix("b2:")[:12] for t in chosen)[:5]
    assert any("no sample drew" in note for note in after.notes)


def test_two_people_on_the_same_sample(night: Any, tmp_path: Path) -> None:
    label(night, tmp_path / "ada.csv", 100)
    label_run("night", name="rubric", sample=100, by="bob", out=tmp_path / "bob.csv", home=night.home)
    night.fill(tmp_path / "bob.csv", by="bob", flips=0.1)
    assert label_run("night", csv_file=tmp_path / "bob.csv", home=night.home).labelled == 100
    (item,) = calibrate("night", home=night.home).items
    assert item.people is not None
    assert (item.people.people, item.people.twice, item.labels) == (2, 100, 100)
    assert item.people.agreement.value is not None
    assert 0.8 < item.people.agreement.value < 1
    assert item.people.alpha.value is not None
    assert sum(item.confusion.__getattribute__(f) for f in item.confusion.__struct_fields__) == pytest.approx(100)


def test_a_judge_that_never_says_yes(night: Any, tmp_path: Path) -> None:
    night.judge("rubric/result_read", values=np.zeros(400, dtype=bool))
    label(night, tmp_path / "a.csv", 120)
    items = {i.item: i for i in calibrate("night", home=night.home).items}
    item = items["rubric/result_read"]
    assert item.precision.value is None
    assert item.precision.why == "the judge never says yes"
    assert (item.sensitivity.value, item.specificity.value) == (0.0, 1.0)
    assert item.j.value == pytest.approx(0.0)
    assert (item.automate, item.decided, item.gate_multiplier) == (False, True, None)
    assert item.corrected.low is not None
    assert item.corrected.high is not None
    assert item.corrected.low < 0.7 < item.corrected.high, "labels alone still tell"
    assert items[ITEM].labels == 120


def test_an_ordinary_score_and_outcomes(tmp_path: Path, judged_run: Any) -> None:
    run = judged_run(tmp_path / "home")
    said = zip(run.ids, run.verdict, strict=True)
    run.add(
        [Label(trace_id=t, name="model_graded_qa", value="C" if v else "I", by="grader", source="import")
         for t, v in zip(run.ids, run.verdict, strict=True)],
        {t: Scored(float(v), "model_graded_qa") for t, v in said},
    )  # fmt: skip
    with pytest.raises(NotFound, match="name one with score"):
        calibrate("night", home=run.home)
    label_run("night", name="model_graded_qa", sample=120, out=tmp_path / "a.csv", home=run.home)
    run.fill(tmp_path / "a.csv")
    found = calibrate("night", score="model_graded_qa", labels=tmp_path / "a.csv", home=run.home)
    (item,) = found.items
    assert (item.labels, item.judge, item.judged) == (120, "grader", 400)
    assert found.notes == ["120 labels added from a.csv"]
    (outcome,) = calibrate("night", score="outcome", home=run.home).items
    assert (outcome.judge, outcome.judged) == ("model_graded_qa", 400)


def test_a_new_version_of_the_judge_begins_anew(night: Any, tmp_path: Path) -> None:
    label(night, tmp_path / "a.csv", 100)
    night.judge(values=~night.verdict, version="2")
    (item,) = calibrate("night", home=night.home).items
    assert (item.version, item.earlier, item.labels, item.automate) == ("2", 400, 100, False)
    assert item.j.value is not None
    assert item.j.value < 0


def test_the_audit_sees_a_judge_that_changed(night: Any, tmp_path: Path, judged_run: Any) -> None:
    label(night, tmp_path / "a.csv", 200)
    for name, right in (("calm", 0.95), ("worse", 0.5)):
        later = judged_run(tmp_path / "home", name, attempts=20, seed=7, sensitivity=right, specificity=right).judge()
        due = audit_run(name, against="night", home=night.home)
        assert (due.decided, due.alarm) == (False, False)
        label_run(name, audit_share=0.1, out=tmp_path / f"{name}.csv", home=night.home)
        later.fill(tmp_path / f"{name}.csv")
        label_run(name, csv_file=tmp_path / f"{name}.csv", home=night.home)
        (item,) = (found := audit_run(name, against="night", home=night.home)).items
        assert found.decided
        assert item.alarm == found.alarm == (name == "worse"), item.why
        assert sum(p.labels for p in item.periods) == item.audited > 60
        assert item.due == []


def test_the_ledger_of_repeated_verdicts(night: Any, tmp_path: Path, judged_run: Any) -> None:
    night.judge(by="model:large", values=night.truth)
    night.judge(by="model:large", values=night.truth)
    other = judged_run(tmp_path / "home", "tuesday", seed=9).judge()
    assert other.name == "tuesday"
    found = variance(["night", "tuesday"], item="termination", prices=UnitPrices(label=2.0), home=night.home)
    parts = {e.source: e.variance for e in found.ledger.entries}
    assert all(parts[name].value is not None for name in ("task", "environment", "agent", "judge", "repeat"))
    assert parts["repeat"].value == 0.0
    assert parts["judge"].value == pytest.approx(np.mean(night.truth != night.verdict) / 2, abs=1e-9)
    shares = [e.share for e in found.ledger.entries if e.share is not None]
    assert sum(shares) == pytest.approx(1.0)
    assert found.ledger.buy in ("more tasks", "more attempts")
    assert found.ledger.purchases[-1].what == "more labels"
    with pytest.raises(BadUsage, match="needs scores of two tasks"):
        variance(["night"], home=night.home)


def test_the_gate_does_not_lean_on_a_judge_without_proof(tmp_path: Path, judged_run: Any) -> None:
    made = [judged_run(tmp_path / "home", name, specificity=0.9).judge().score(ITEM) for name in ("main", "new")]
    home = made[0].home
    plain = gate("main", "new", margin=0.2, trust_judge=True, home=home)
    assert plain.verdict == "pass"
    assert plain.judge is not None
    assert (plain.judge.standing, plain.judge.trusted_by_user) == ("uncalibrated", True)
    held = gate("main", "new", margin=0.2, home=home)
    assert held.verdict == "undecided"
    assert "no labels by hand were compared with" in held.evidence.why
    assert "By raw verdicts: pass" in held.evidence.why
    label(made[1], tmp_path / "new.csv", 200)
    passed = gate("main", "new", margin=0.2, home=home)
    assert passed.verdict == "pass"
    assert passed.judge is not None
    assert (passed.judge.standing, passed.judge.calibrated_on) == ("trusted", "new")
    assert passed.judge.multiplier is not None


def test_a_bad_judge_is_refused(tmp_path: Path, judged_run: Any) -> None:
    main = judged_run(tmp_path / "home", "main", sensitivity=0.7, specificity=0.7).judge().score(ITEM)
    judged_run(tmp_path / "home", "new", sensitivity=0.7, specificity=0.7).judge().score(ITEM)
    label(main, tmp_path / "a.csv", 200)
    found = gate("main", "new", margin=0.3, home=main.home)
    assert found.verdict == "undecided"
    assert found.judge is not None
    assert found.judge.standing == "refused"
    assert found.judge.multiplier is not None
    assert found.judge.multiplier > 3
    assert "times the attempts" in found.judge.why
