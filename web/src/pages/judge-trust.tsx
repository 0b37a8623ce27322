// What labels by hand say of a judge: agreement per item, raw beside corrected rates, and whether it has drifted since.
import { useState } from "preact/hooks";
import { change } from "../address";
import type { Estimate, ItemAudit, ItemCalibration, JudgeView } from "../models";
import { Command } from "../parts/states";
import { clean } from "../text";
import { basis, count, NONE, percent, plural, when } from "../words";

export function itemName(name: string): string {
  return name.replace(/^rubric\//, "");
}

export function Trusted({ answer }: { answer: JudgeView }) {
  const ready = answer.items.filter((item) => item.automate).length;
  const waiting = answer.items.some((item) => item.unlabelled > 0);
  const ask = waiting ? null : answer.items.find((item) => item.drawn > 0 && item.next && item.next.labels > 0)?.next;
  return (
    <div class="trust">
      <p>
        <b>
          {ready} of {plural(answer.items.length, "item")} may be automated.
        </b>{" "}
        <span class="muted">Raw is the share of yes that the judge gives, corrected the share that people would give.</span>
      </p>
      <Legend />
      <ul class="items">
        {answer.items.map((item) => (
          <Item key={`${item.item} ${item.judge}`} item={item} />
        ))}
      </ul>
      {answer.notes.map((note) => (
        <p key={note} class="note">
          {clean(note)}
        </p>
      ))}
      {ask && (
        <p class="small next-labels">
          <span class="muted">Label next ({ask.rule}):</span> <Command text={ask.command.replace(/ -o \S+$/, "")} />
        </p>
      )}
      <Audit answer={answer} />
    </div>
  );
}

function Legend() {
  return (
    <p class="muted small legend">
      <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
        <circle cx="6" cy="6" r="4" class="raw" />
      </svg>{" "}
      raw{" "}
      <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
        <rect x="2.5" y="2.5" width="7" height="7" class="corrected" />
      </svg>{" "}
      corrected, with its interval
    </p>
  );
}

function Item({ item }: { item: ItemCalibration }) {
  const [open, setOpen] = useState(false);
  const state = item.automate ? "yes" : item.decided ? "no" : "open";
  const words = { yes: "✓ automated", no: "✗ not automated", open: "? not settled" }[state];
  return (
    <li class={`item ${state}`}>
      <button class="item-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span class="item-name">
          <b>{itemName(item.item)}</b> <small class="muted">{clean(item.judge)}</small>
        </span>
        <span class={`state ${state}`}>{words}</span>
      </button>
      <Rates item={item} />
      <p class="figures small">
        <Figure name="agreement" estimate={item.agreement} />
        <Figure name="J" estimate={item.j} plain />
        <Figure name="kappa" estimate={item.kappa} plain />
        <span class="muted">{plural(item.labels, "label")}</span>
      </p>
      <p class="muted small">{clean(item.why)}</p>
      {open && <Details item={item} />}
    </li>
  );
}

/** The judge's own rate (disc) and the corrected one (square) on a line from 0 to 1. */
function Rates({ item }: { item: ItemCalibration }) {
  const x = (share: number) => 8 + 284 * Math.max(0, Math.min(1, share));
  const { raw, corrected } = item;
  const said = `raw ${percent(raw.value)}, corrected ${corrected.value === null ? "not known" : `${percent(corrected.value)} (${basis(corrected)})`}`;
  return (
    <svg class="rates" viewBox="0 0 300 34" role="img" aria-label={said}>
      <title>{said}</title>
      <line x1="8" x2="292" y1="12" y2="12" class="axis" />
      {[0, 0.5, 1].map((share) => (
        <g key={share}>
          <line x1={x(share)} x2={x(share)} y1="8" y2="16" class="axis" />
          <text x={x(share)} y="31" text-anchor={share === 0 ? "start" : share === 1 ? "end" : "middle"} class="tick">
            {percent(share)}
          </text>
        </g>
      ))}
      {corrected.low !== null && corrected.high !== null && <line x1={x(corrected.low)} x2={x(corrected.high)} y1="12" y2="12" class="spread" />}
      {raw.value !== null && <circle cx={x(raw.value)} cy="12" r="5" class="raw" />}
      {corrected.value !== null && <rect x={x(corrected.value) - 4.5} y="7.5" width="9" height="9" class="corrected" />}
    </svg>
  );
}

function figure(value: number | null, plain: boolean): string {
  return value === null ? NONE : plain ? value.toFixed(2).replace("-", "−") : percent(value);
}

function Figure({ name, estimate, plain = false }: { name: string; estimate: Estimate; plain?: boolean }) {
  const { value, low, high } = estimate;
  return (
    <span title={`${estimate.method} ${estimate.why ?? ""}`.trim()}>
      {name} <b>{figure(value, plain)}</b>
      {low !== null && high !== null && (
        <span class="muted">
          {" "}
          {figure(low, plain)} to {figure(high, plain)}
        </span>
      )}
    </span>
  );
}

function Details({ item }: { item: ItemCalibration }) {
  const c = item.confusion;
  return (
    <div class="details small">
      <table class="grid confusion">
        <thead>
          <tr>
            <th />
            <th class="number">people: yes</th>
            <th class="number">people: no</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <td>judge: yes</td>
            <td class="number">{count(c.both_yes)}</td>
            <td class="number">{count(c.judge_yes_people_no)}</td>
          </tr>
          <tr>
            <td>judge: no</td>
            <td class="number">{count(c.judge_no_people_yes)}</td>
            <td class="number">{count(c.both_no)}</td>
          </tr>
        </tbody>
      </table>
      <p>
        {plural(item.judged, "attempt")} judged, {count(item.drawn)} drawn, {count(item.unlabelled)} without a label yet
        {item.unjudged > 0 && `, ${count(item.unjudged)} could not be judged`}
        {item.outside > 0 && `, ${plural(item.outside, "label")} that no sample drew not used`}
      </p>
      {item.bias !== null && <p>The raw rate is off by {(100 * item.bias).toFixed(1).replace("-", "−")} points.</p>}
      {item.label_worth !== null && <p>With the judge one label counts as {item.label_worth.toFixed(2)}.</p>}
      {item.people && (
        <p>
          People among themselves: {count(item.people.twice)} labelled twice or more, <Figure name="agreement" estimate={item.people.agreement} />
        </p>
      )}
      {item.warnings.map((words) => (
        <p key={words} class="bad">
          ! {clean(words)}
        </p>
      ))}
    </div>
  );
}

function Audit({ answer }: { answer: JudgeView }) {
  const watched = answer.audit.filter((item) => item.audited > 0);
  const due = new Set(answer.audit.flatMap((item) => item.due)).size;
  return (
    <section class="audit">
      <h3>Has the judge drifted since?</h3>
      <label class="muted small calibrated">
        calibrated in run{" "}
        <input type="text" value={answer.against} spellcheck={false} onChange={(event) => change({ against: event.currentTarget.value.trim() === answer.run ? null : event.currentTarget.value.trim() })} />
      </label>
      {watched.length === 0 ? (
        <>
          <p class="muted small">
            {answer.against === answer.run ? "Name the run in which the judge was calibrated, or go on labelling: labels that calibrate are no audit. " : "Nothing was audited yet. "}The audit is the same {percent(answer.audit_share)} of all judged attempts for everybody{due > 0 && `: ${plural(due, "attempt")} of this run`}.
          </p>
          <Command text={`ethogram label ${answer.run} --audit-share ${answer.audit_share}`} />
        </>
      ) : (
        <ul class="items">
          {watched.map((item) => (
            <Drift key={`${item.item} ${item.judge}`} item={item} />
          ))}
        </ul>
      )}
      {watched.length > 0 && <p class="note">An unchanged judge raises an alarm with a chance of at most {percent(answer.audit_level)}, however often one looks.</p>}
    </section>
  );
}

/** Agreement over time, in stretches of labels, against the limit that the calibration set. */
function Drift({ item }: { item: ItemAudit }) {
  const x = (i: number) => 34 + (256 * (i + 0.5)) / Math.max(item.periods.length, 1);
  const y = (share: number) => 8 + 60 * (1 - share);
  return (
    <li class={`item ${item.alarm ? "no" : "yes"}`}>
      <span class="item-head">
        <b>{itemName(item.item)}</b>
        <span class={`state ${item.alarm ? "no" : "yes"}`}>{item.alarm ? "✗ alarm" : "✓ no alarm"}</span>
      </span>
      <svg class="drift" viewBox="0 0 300 76" role="img" aria-label={`agreement over ${plural(item.audited, "audited label")}: ${item.why}`}>
        {[0, 0.5, 1].map((share) => (
          <g key={share}>
            <line x1="34" x2="292" y1={y(share)} y2={y(share)} class="axis" />
            <text x="29" y={y(share) + 4} text-anchor="end" class="tick">
              {percent(share)}
            </text>
          </g>
        ))}
        {item.limit !== null && <line x1="34" x2="292" y1={y(item.limit)} y2={y(item.limit)} class="limit" />}
        {item.periods.map(({ agreement, ...period }, i) => (
          <g key={period.from_ns}>
            <title>{`${when(period.from_ns)} to ${when(period.to_ns)}, ${plural(period.labels, "label")}: ${percent(agreement.value)}`}</title>
            {agreement.low !== null && agreement.high !== null && <line x1={x(i)} x2={x(i)} y1={y(agreement.low)} y2={y(agreement.high)} class="spread" />}
            {agreement.value !== null && <circle cx={x(i)} cy={y(agreement.value)} r="4" class="raw" />}
          </g>
        ))}
      </svg>
      <p class="muted small">
        {clean(item.why)} ({plural(item.audited, "audited label")}, {count(item.due.length)} due)
      </p>
    </li>
  );
}
