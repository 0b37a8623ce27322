// Two attempts aligned step by step, or two runs: how far they are apart beside what repeats differ by.
import { useEffect, useRef } from "preact/hooks";
import { change, href } from "../address";
import { useKeys } from "../keys";
import { useAnswer } from "../load";
import type { DiffView, Side, StepRow, WordsPart } from "../models";
import { Empty, Failed, Loading } from "../parts/states";
import { NONE, plural, shortId } from "../words";
import { Distances } from "./distances";
import type { PageProps } from "./registry";
import "./diff.css";

const COUNT = 200;
const SIGNS = {
  "=": { name: "same", class: "same" },
  "~": { name: "another step", class: "other" },
  "-": { name: "only on the left", class: "left" },
  "+": { name: "only on the right", class: "right" },
} as const;

export default function Diff({ params }: PageProps) {
  useEffect(() => {
    document.title = "Diff · Ethogram";
  }, []);
  if (params.trace && params.other) return <Pair params={params} />;
  if (params.run) return <Distances run={params.run} against={params.against ?? ""} />;
  return <Empty title="Two attempts, side by side" hint="Pick two dots in the grid of a run, or type:" command="ethogram diff TRACE_A TRACE_B" />;
}

function Pair({ params }: PageProps) {
  const names = { run: params.run ?? "latest", trace: params.trace ?? "", other: params.other ?? "", against: params.against ?? "" };
  const query = { ...names, start: params.start ? Number(params.start) : -1, count: COUNT };
  const { answer, failure } = useAnswer("/api/diff", query);
  const at = params.row !== undefined ? Number(params.row) : (answer?.differs ?? 0);
  const open = (row: number, quiet = true) => {
    if (!answer || row < 0 || row >= answer.of) return;
    const inside = row >= answer.start && row < answer.start + answer.rows.length;
    change({ row, start: inside ? params.start : Math.max(0, row - 8) }, quiet);
  };
  const next = (from: number, way: 1 | -1) => {
    if (!answer) return;
    for (let i = from + way; i >= 0 && i < answer.of; i += way) if (answer.signs[i] !== "=") return open(i);
  };
  useKeys(
    [
      { keys: ["j", "ArrowDown"], label: "j", does: "next step", act: () => open(at + 1) },
      { keys: ["k", "ArrowUp"], label: "k", does: "previous step", act: () => open(at - 1) },
      { keys: ["ArrowRight", "n"], label: "→", does: "next difference", act: () => next(at, 1) },
      { keys: ["ArrowLeft", "p"], label: "←", does: "previous difference", act: () => next(at, -1) },
      { keys: ["f"], label: "f", does: "first difference", act: () => answer?.differs != null && open(answer.differs) },
    ],
    [answer, at, params.start],
  );
  if (!answer) return failure ? <Failed failure={failure} /> : <Loading lines={8} />;
  const swapped = href("diff", { run: names.against || names.run, against: names.against && names.run, trace: names.other, other: names.trace });
  return (
    <div class="page diff">
      <div class="head">
        <h1>{headline(answer)}</h1>
        <span class="spring" />
        <a class="button" href={swapped}>
          Swap sides
        </a>
      </div>
      <p class="facts">{facts(answer)}</p>
      {answer.warnings.map((words) => (
        <p key={words} class="muted small">
          {words}
        </p>
      ))}
      <Signs view={answer} at={at} open={open} />
      <div class="sides">
        <SideHead side={answer.first} mark="−" run={names.run} />
        <SideHead side={answer.second} mark="+" run={names.against || names.run} />
      </div>
      {answer.of === 0 ? (
        <p class="muted">{answer.unavailable}</p>
      ) : (
        <Steps view={answer} at={at} open={open} names={names} />
      )}
    </div>
  );
}

function headline(view: DiffView): string {
  if (view.unavailable) return "There is nothing to compare";
  if (view.t_star === null) return view.answer_changed ? "The same steps, another answer" : "The same steps and the same answer";
  return `They part at step ${view.t_star}`;
}

function facts(view: DiffView): string {
  const { edits } = view;
  const said = [`${view.manifestation.replaceAll("_", " ")}`];
  if (view.d_norm !== null) said.push(`distance ${view.d_norm.toFixed(2)}`);
  if (edits) said.push(`${plural(edits.substitutions, "substitution")}, ${plural(edits.insertions, "insertion")}, ${plural(edits.deletions, "deletion")}`);
  if (view.noise_floor.q95 !== null) said.push(`repeats of this task differ by ${view.noise_floor.mean?.toFixed(2)} (95th percentile ${view.noise_floor.q95.toFixed(2)})`);
  if (view.within_noise_floor !== null) said.push(view.within_noise_floor ? "within the noise floor" : "beyond the noise floor");
  if (typeof view.token_overhead === "number") said.push(`tokens ×${view.token_overhead.toFixed(2)}`);
  return said.join(" · ");
}

function SideHead({ side, mark, run }: { side: Side; mark: string; run: string }) {
  const told = side.passed === null ? (side.missing ?? "not scored") : `${side.passed ? "✓" : "✗"} ${side.score}`;
  return (
    <section class="side">
      <h2>
        <b aria-hidden="true">{mark}</b>
        <a class="mono" href={href("trace", { run: side.run ?? run, trace: side.trace_id })}>
          {shortId(side.trace_id)}
        </a>
        <span class={side.passed === null ? "muted" : side.passed ? "good" : "bad"}>{told}</span>
      </h2>
      <p class="muted small">
        {side.run ?? run} · task {side.task} · attempt {side.attempt} · {plural(side.steps, "step")}
        {side.condition !== "" && ` · ${side.condition}`}
      </p>
      <p class="answer" title={side.answer ?? ""}>
        {side.answer ?? <span class="muted">no answer</span>}
      </p>
    </section>
  );
}

/** The whole alignment as a strip; a click opens the step. */
function Signs({ view, at, open }: { view: DiffView; at: number; open: (row: number) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    const pen = element?.getContext("2d");
    if (!element || !pen) return;
    const style = getComputedStyle(document.documentElement);
    const colours: Record<string, string> = { "=": "--line", "~": "--found-now", "-": "--fail", "+": "--blue" };
    const scale = devicePixelRatio || 1;
    element.width = element.clientWidth * scale;
    element.height = 22 * scale;
    const width = element.width / view.signs.length;
    for (const sign of "=~-+") {
      pen.fillStyle = style.getPropertyValue(colours[sign]!);
      const [top, tall] = sign === "=" ? [9, 4] : sign === "-" ? [11, 11] : sign === "+" ? [0, 11] : [3, 16];
      for (let i = 0; i < view.signs.length; i++) {
        if (view.signs[i] === sign) pen.fillRect(i * width, top * scale, Math.max(width - (width > 4 * scale ? scale : 0), scale), tall * scale);
      }
    }
    pen.strokeStyle = style.getPropertyValue("--ink");
    pen.lineWidth = scale;
    pen.strokeRect(at * width, scale / 2, Math.max(width, 3 * scale), 21 * scale);
  }, [view.signs, at]);
  if (!view.signs) return null;
  const pick = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    open(Math.floor(((event.clientX - box.left) / box.width) * view.signs.length));
  };
  return (
    <figure class="signs">
      <canvas ref={canvas} onClick={pick} role="img" aria-label={`${plural(view.of, "aligned step")}, of which ${countOther(view.signs)} differ`} />
      <figcaption class="muted small">
        {Object.entries(SIGNS).map(([sign, { name, class: kind }]) => (
          <span key={sign}>
            <i class={kind}>{sign}</i> {name}
          </span>
        ))}
        <span class="keys">
          <kbd>←</kbd> <kbd>→</kbd> between differences
        </span>
      </figcaption>
    </figure>
  );
}

function countOther(signs: string): number {
  return signs.length - signs.replaceAll(/[^=]/g, "").length;
}

interface StepsProps {
  view: DiffView;
  at: number;
  open: (row: number, quiet?: boolean) => void;
  names: { run: string; trace: string; other: string; against: string };
}

function Steps({ view, at, open, names }: StepsProps) {
  const more = view.start + view.rows.length < view.of;
  return (
    <div class="steps" role="list">
      {view.start > 0 && (
        <button class="more" onClick={() => change({ start: Math.max(0, view.start - COUNT) })}>
          {plural(view.start, "earlier step")}
        </button>
      )}
      {view.rows.map((row, i) => {
        const number = view.start + i;
        return (
          <div key={number} role="listitem">
            <Row row={row} active={number === at} parting={number === view.differs} open={() => open(number)} />
            {number === at && <Words row={row} names={names} />}
          </div>
        );
      })}
      {more && (
        <button class="more" onClick={() => change({ start: view.start + COUNT })}>
          {plural(view.of - view.start - view.rows.length, "later step")}
        </button>
      )}
    </div>
  );
}

function Row({ row, active, parting, open }: { row: StepRow; active: boolean; parting: boolean; open: () => void }) {
  const line = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (active) line.current?.scrollIntoView({ block: "nearest" });
  }, [active]);
  const sign = SIGNS[row.sign];
  const classes = ["step", sign.class, active ? "active" : "", parting ? "parting" : ""].filter(Boolean).join(" ");
  return (
    <button ref={line} class={classes} aria-expanded={active} onClick={open} title={sign.name}>
      <Cell at={row.first} signature={row.first_signature} />
      <span class="sign">{row.sign}</span>
      <Cell at={row.second} signature={row.second_signature} />
      {parting && <em>t* the first difference</em>}
    </button>
  );
}

function Cell({ at, signature }: { at: number | null; signature: string | null }) {
  if (at === null) return <span class="cell gap">{NONE}</span>;
  return (
    <span class="cell">
      <small>{at}</small>
      <code>{signature}</code>
    </span>
  );
}

function Words({ row, names }: { row: StepRow; names: StepsProps["names"] }) {
  const query = { ...names, first: row.first ?? -1, second: row.second ?? -1 };
  const { answer, failure } = useAnswer("/api/diff/words", query);
  if (failure) return <Failed failure={failure} />;
  if (!answer) return <Loading lines={2} />;
  const links = [
    { run: names.run, trace: names.trace, step: row.first },
    { run: names.against || names.run, trace: names.other, step: row.second },
  ];
  return (
    <div class="pair">
      {[answer.first, answer.second].map((parts, i) => (
        <div key={i} class="words">
          {parts.length === 0 && <p class="muted small">{links[i]!.step === null ? "no step here" : "no words were recorded"}</p>}
          {parts.map((part, n) => (
            <Part key={n} part={part} />
          ))}
          {links[i]!.step !== null && (
            <a class="small" href={href("trace", links[i])}>
              step {links[i]!.step} in the trace
            </a>
          )}
        </div>
      ))}
      {answer.cut > 0 && <p class="muted small">{answer.cut.toLocaleString("en-US")} characters are left out; the trace has them.</p>}
    </div>
  );
}

function Part({ part }: { part: WordsPart }) {
  if (part.kind === "read")
    return (
      <p class="muted small">
        {part.name || "message"} of step {part.step}, as before
      </p>
    );
  return (
    <div class={`text ${part.kind}`}>
      <small class="muted">{[part.kind, part.name].filter(Boolean).join(" · ")}</small>
      <pre dir="auto">{part.text}</pre>
    </div>
  );
}
