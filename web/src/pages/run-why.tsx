// The answer of `ethogram why`: the sentence first, then causes and leads with places to read and what to try.
import { useState } from "preact/hooks";
import { href } from "../address";
import type { ReasonView, WhyView } from "../models";
import { Command } from "../parts/states";
import { clean } from "../text";
import { count, dollars, percent, plural, shortId } from "../words";

const SHOWN = 4;

export function Why({ run, why }: { run: string; why: WhyView }) {
  const [all, setAll] = useState(false);
  const reasons = all ? why.reasons : why.reasons.slice(0, SHOWN);
  return (
    <>
      <p class="headline">{clean(why.headline)}</p>
      <ol class="reasons">
        {reasons.map((reason, i) => (
          <Reason key={reason.what} run={run} reason={reason} why={why} number={i + 1} />
        ))}
      </ol>
      {why.reasons.length > SHOWN && (
        <button class="button" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show ${why.reasons.length - SHOWN} more`}
        </button>
      )}
      {why.more_reasons > 0 && all && (
        <p class="note">
          {count(why.more_reasons)} more: <Command text={`ethogram why ${run}`} />
        </p>
      )}
      {why.read.length > 0 && <ReadFirstList run={run} why={why} />}
      <p class="note">
        {why.failed !== null && why.unexplained !== null && why.unexplained > 0 && `Unexplained: ${count(why.unexplained)} of ${plural(why.failed, "failed attempt")} show no established cause. `}
        {why.contrast.charAt(0).toUpperCase() + why.contrast.slice(1)}.
      </p>
      {why.score_with.map((command) => (
        <p key={command} class="note">
          Score it first: <Command text={command} />
        </p>
      ))}
      {why.notes.map((note) => (
        <p key={note} class="note">
          {clean(note)}
        </p>
      ))}
    </>
  );
}

/** Attempts that no rule explains: what to read, and what to hold beside it. */
function ReadFirstList({ run, why }: { run: string; why: WhyView }) {
  return (
    <div class="read-first">
      <h3>{why.failed === null ? "Read these attempts" : "Read these failed attempts: no cause explains them"}</h3>
      <ul class="examples">
        {why.read.map((one) => (
          <li key={one.trace}>
            <a class="mono" href={href("trace", { run, trace: one.trace, step: one.step })}>
              {shortId(one.trace)}
              {one.step !== null && `:${one.step}`}
            </a>
            <span>
              {clean(one.task)}, attempt {one.attempt}
              {one.said && ` · the check said “${clean(one.said)}”`}
              {one.answer && (
                <>
                  {" "}
                  · answered <q dir="auto">{clean(one.answer)}</q>
                </>
              )}
              {one.passing && (
                <>
                  {" · "}
                  <a href={href("trace", { run, trace: one.trace, beside: "yes" })}>beside one that passed</a>
                </>
              )}
            </span>
          </li>
        ))}
      </ul>
      <p class="try">
        <b>Try</b>{" "}
        {why.read.some((one) => one.passing)
          ? "open one beside an attempt that passed: what differs first is what to change."
          : "read the step where it begins to go wrong, say so on the Judge page, and score the run: then causes can be told from leads."}
      </p>
    </div>
  );
}

function Reason({ run, reason, why, number }: { run: string; reason: ReasonView; why: WhyView; number: number }) {
  const passed = why.failed === null ? 0 : why.scored - why.failed;
  return (
    <li class={reason.kind}>
      <span class="rank" aria-hidden="true">
        {number}
      </span>
      <div>
        <h3>
          {clean(reason.what)} <span class={reason.kind === "cause" ? "tag fail" : "tag"}>{reason.kind}</span>
        </h3>
        <p class="counts">
          {why.failed === null ? (
            <span>in {count(reason.runs_with)} of {plural(why.runs, "attempt")}</span>
          ) : (
            <>
              <Share n={reason.failed_with} of={why.failed} word="failed" />
              {passed > 0 ? <Share n={reason.succeeded_with} of={passed} word="passed" /> : <span>no run passed to compare with</span>}
            </>
          )}
          {reason.adjusted !== null && reason.kind === "cause" && <span title="adjusted over all events that were looked at">p {reason.adjusted < 0.001 ? "< .001" : reason.adjusted.toFixed(3).replace(/^0/, "")}</span>}
          {reason.class && <span>{reason.class.replace(/_/g, " ")}</span>}
          {reason.owner && <span>owner: {reason.owner}</span>}
        </p>
        {reason.settled && (
          <p class="settled">
            <b>{reason.settled.status.replace("_", " ")}</b>: {reason.settled.why}
          </p>
        )}
        <p class="try">
          <b>Try</b> {clean(reason.try)}
        </p>
        <ul class="examples">
          {reason.examples.map((example) => (
            <li key={`${example.trace}:${example.step}`}>
              <a class="mono" href={href("trace", { run, trace: example.trace, step: example.step })}>
                {shortId(example.trace)}
                {example.step !== null && `:${example.step}`}
              </a>
              <q dir="auto">{clean(example.text)}</q>
            </li>
          ))}
        </ul>
        {reason.experiment?.command && (
          <p class="settle">
            Settle it{reason.experiment.runs !== null && ` with at most ${plural(reason.experiment.runs, "attempt")}`}
            {reason.experiment.usd !== null && `, about ${dollars(reason.experiment.usd)}`}: <Command text={reason.experiment.command} />
          </p>
        )}
      </div>
    </li>
  );
}

/** `18 of 40 failed` with a bar: filled for failed, hollow for passed. */
function Share({ n, of, word }: { n: number; of: number; word: "failed" | "passed" }) {
  return (
    <span class={`share ${word}`} title={of ? percent(n / of) : undefined}>
      <svg viewBox="0 0 60 8" aria-hidden="true">
        <rect class="frame" x="0.5" y="0.5" width="59" height="7" rx="2" />
        <rect class="fill" x="0.5" y="0.5" height="7" rx="2" width={of ? (59 * n) / of : 0} />
      </svg>
      {count(n)} of {count(of)} {word}
    </span>
  );
}
