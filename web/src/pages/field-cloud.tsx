// Trajectories as points. A rectangle drawn with the pointer, a click, or the arrow keys choose traces to list.
import { useRef, useState } from "preact/hooks";
import { change, href, type Params } from "../address";
import { useAnswer } from "../load";
import type { CloudPoint, CloudView } from "../models";
import { Dot } from "../parts/dot";
import { Section } from "../parts/section";
import { count, percent, plural, shortId } from "../words";

const WIDE = 620;
const TALL = 400;
const EDGE = 34;
const MOST_LISTED = 100;
const FIRST = "component 1";
const SECOND = "component 2";

interface Box {
  left: number;
  right: number;
  bottom: number;
  top: number;
}

export function CloudPart({ run, preset, params }: { run: string; preset: string; params: Params }) {
  const loaded = useAnswer("/api/field/cloud", { run, preset });
  return (
    <Section title="Every attempt as a point" note="drag a rectangle to list its traces; or click, or use the arrow keys" loaded={loaded} lines={10}>
      {(answer) => (answer.points.length === 0 ? <p class="muted">No scored attempt has recorded steps.</p> : <Cloud answer={answer} run={run} params={params} />)}
    </Section>
  );
}

function Cloud({ answer, run, params }: { answer: CloudView; run: string; params: Params }) {
  const axes = [FIRST, SECOND, ...answer.dimensions];
  const xName = params.x && axes.includes(params.x) ? params.x : FIRST;
  const yName = params.y && axes.includes(params.y) ? params.y : SECOND;
  const box = boxOf(params.box);
  const one = answer.points.find((point) => point.trace_id === params.trace);
  const inside = box ? answer.points.filter((point) => isIn(box, value(point, xName), value(point, yName))) : one ? [one] : [];
  const choose = (name: "x" | "y", now: string) => (
    <label>
      {name === "x" ? "across" : "up"}{" "}
      <select value={now} onChange={(event) => change({ [name]: event.currentTarget.value, box: null }, true)}>
        {axes.map((axis) => (
          <option key={axis}>{axis}</option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <p class="cloud-choose">
        {choose("x", xName)} {choose("y", yName)}
        <span class="legend">
          <Dot state="passed" /> passed <Dot state="failed" /> failed
        </span>
        <small class="muted">
          standardised, each task's mean taken out
          {xName === FIRST && yName === SECOND && `; both components carry ${percent((answer.explained[0] ?? 0) + (answer.explained[1] ?? 0))} of the variance`}
          {answer.of > answer.points.length && `; ${count(answer.points.length)} of ${count(answer.of)} attempts`}
        </small>
      </p>
      <div class="cloud-and-list">
        <Plot points={answer.points} names={[xName, yName]} chosen={inside} box={box} run={run} />
        <Chosen inside={inside} run={run} />
      </div>
    </>
  );
}

interface PlotProps {
  points: CloudPoint[];
  names: [string, string];
  chosen: CloudPoint[];
  box: Box | null;
  run: string;
}

function Plot({ points, names, chosen, box, run }: PlotProps) {
  const svg = useRef<SVGSVGElement>(null);
  const from = useRef<[number, number] | null>(null);
  const [drawn, setDrawn] = useState<{ from: [number, number]; to: [number, number] } | null>(null);
  const xs = points.map((point) => value(point, names[0]));
  const ys = points.map((point) => value(point, names[1]));
  const [x, unX] = scale(xs, EDGE, WIDE - 12);
  const [y, unY] = scale(ys, TALL - EDGE, 12);
  const at = (event: PointerEvent): [number, number] => {
    const place = svg.current?.getBoundingClientRect();
    if (!place) return [0, 0];
    return [((event.clientX - place.left) / place.width) * WIDE, ((event.clientY - place.top) / place.height) * TALL];
  };
  const begin = (event: PointerEvent) => {
    from.current = at(event);
    svg.current?.setPointerCapture(event.pointerId);
  };
  const done = (event: PointerEvent) => {
    const a = from.current;
    if (!a) return;
    const b = at(event);
    from.current = null;
    setDrawn(null);
    if (Math.hypot(a[0] - b[0], a[1] - b[1]) < 4) return pickNear(a);
    const sides = [unX(Math.min(a[0], b[0])), unX(Math.max(a[0], b[0])), unY(Math.max(a[1], b[1])), unY(Math.min(a[1], b[1]))];
    change({ box: sides.map((side) => side.toFixed(3)).join(","), trace: null }, true);
  };
  const pickNear = (place: [number, number]) => {
    const far = points.map((_, i) => Math.hypot(x(xs[i] ?? 0) - place[0], y(ys[i] ?? 0) - place[1]));
    const nearest = far.indexOf(Math.min(...far));
    const hit = (far[nearest] ?? 99) < 14 ? points[nearest] : undefined;
    change({ trace: hit?.trace_id ?? null, box: null }, true);
  };
  const walk = (event: KeyboardEvent) => {
    const one = chosen.length === 1 ? chosen[0] : undefined;
    if (event.key === "Enter" && one) return void (location.hash = href("trace", { run, trace: one.trace_id }));
    if (event.key === "Escape") return change({ trace: null, box: null }, true);
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const order = points.map((_, i) => i).sort((a, b) => (xs[a] ?? 0) - (xs[b] ?? 0) || (ys[a] ?? 0) - (ys[b] ?? 0));
    const now = order.findIndex((i) => points[i] === one);
    const next = points[order[(now + by + order.length) % order.length] ?? 0];
    change({ trace: next?.trace_id, box: null }, true);
  };
  const marked = new Set(chosen.map((point) => point.trace_id));
  const frame = drawn ? corners(drawn.from, drawn.to) : box ? corners([x(box.left), y(box.bottom)], [x(box.right), y(box.top)]) : null;
  const words = `${points.length} attempts by ${names[0]} and ${names[1]}; arrow keys go from point to point, Enter opens the trace`;
  return (
    <svg
      ref={svg}
      class="cloud"
      viewBox={`0 0 ${WIDE} ${TALL}`}
      role="application"
      aria-label={words}
      tabindex={0}
      onKeyDown={walk}
      onPointerDown={begin}
      onPointerMove={(event) => from.current && setDrawn({ from: from.current, to: at(event) })}
      onPointerUp={done}
    >
      <line class="axis" x1={EDGE} x2={WIDE - 6} y1={TALL - EDGE + 8} y2={TALL - EDGE + 8} />
      <line class="axis" x1={EDGE - 8} x2={EDGE - 8} y1="6" y2={TALL - EDGE} />
      <text class="tick" x={(WIDE + EDGE) / 2} y={TALL - 8} text-anchor="middle">
        {names[0]} →
      </text>
      <text class="tick" transform={`translate(14 ${TALL / 2}) rotate(-90)`} text-anchor="middle">
        {names[1]} →
      </text>
      {frame && <rect class="brush" {...frame} />}
      {points.map((point, i) => {
        const place = { cx: x(xs[i] ?? 0), cy: y(ys[i] ?? 0) };
        const state = point.outcome === "success" ? "passed" : "failed";
        return <circle key={point.trace_id} {...place} r={state === "passed" ? 4 : 4.5} class={marked.has(point.trace_id) ? `${state} marked` : state} />;
      })}
    </svg>
  );
}

function Chosen({ inside, run }: { inside: CloudPoint[]; run: string }) {
  if (inside.length === 0) return <p class="muted chosen-traces">Nothing is chosen. Attempts that lie far from the others behave unlike them.</p>;
  const passed = inside.filter((point) => point.outcome === "success").length;
  return (
    <div class="chosen-traces" aria-live="polite">
      <p>
        <b>{plural(inside.length, "attempt")}</b>, {passed} passed{" "}
        <button class="button" onClick={() => change({ box: null, trace: null }, true)}>
          Clear
        </button>
      </p>
      <ul>
        {inside.slice(0, MOST_LISTED).map((point) => (
          <li key={point.trace_id}>
            <Dot state={point.outcome === "success" ? "passed" : "failed"} />
            <a class="mono" href={href("trace", { run, trace: point.trace_id })}>
              {shortId(point.trace_id)}
            </a>
            <a class="muted" href={href("task", { run, task: point.task })}>
              task {point.task}
            </a>
            <small class="muted">{extremes(point)}</small>
          </li>
        ))}
      </ul>
      {inside.length > MOST_LISTED && <p class="note">The first {MOST_LISTED} are listed.</p>}
    </div>
  );
}

/** In what a trajectory is least like the others of its task. */
function extremes(point: CloudPoint): string {
  const sorted = Object.entries(point.values).sort(([, a], [, b]) => Math.abs(b) - Math.abs(a));
  return sorted
    .slice(0, 2)
    .map(([name, z]) => `${z < 0 ? "few" : "many"} ${name} (${z > 0 ? "+" : "−"}${Math.abs(z).toFixed(1)})`)
    .join(", ");
}

function value(point: CloudPoint, name: string): number {
  return name === FIRST ? point.x : name === SECOND ? point.y : (point.values[name] ?? 0);
}

function scale(values: number[], from: number, to: number): [(v: number) => number, (p: number) => number] {
  const least = Math.min(...values);
  const wide = Math.max(...values) - least || 1;
  return [(v) => from + ((v - least) / wide) * (to - from), (p) => least + ((p - from) / (to - from)) * wide];
}

function corners(a: [number, number], b: [number, number]) {
  return { x: Math.min(a[0], b[0]), y: Math.min(a[1], b[1]), width: Math.abs(a[0] - b[0]), height: Math.abs(a[1] - b[1]) };
}

function boxOf(words: string | undefined): Box | null {
  const [left, right, bottom, top] = (words ?? "").split(",").map(Number);
  if (left === undefined || right === undefined || bottom === undefined || top === undefined || [left, right, bottom, top].some(Number.isNaN)) return null;
  return { left, right, bottom, top };
}

function isIn(box: Box, x: number, y: number): boolean {
  return x >= box.left && x <= box.right && y >= box.bottom && y <= box.top;
}
