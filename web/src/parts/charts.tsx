// Charts as SVG: small, readable in both colour schemes, each with its words for those who do not see it.
import { useRef } from "preact/hooks";
import type { Estimate } from "../models";
import { basis, percent } from "../words";

export interface Curve {
  name: string;
  shape: "circle" | "square";
  points: { x: number; estimate: Estimate }[];
}

/** Estimates along a whole number, with their intervals as bands. */
export function Curves({ curves, label, axis }: { curves: Curve[]; label: string; axis: string }) {
  const width = 520;
  const height = 240;
  const box = { left: 40, right: 104, top: 12, bottom: 34 };
  const xs = [...new Set(curves.flatMap((curve) => curve.points.map((point) => point.x)))].sort((a, b) => a - b);
  const last = Math.max(...xs, 1);
  const first = Math.min(...xs, last);
  const x = (value: number) => box.left + ((value - first) / Math.max(last - first, 1)) * (width - box.left - box.right);
  const y = (share: number) => box.top + (1 - share) * (height - box.top - box.bottom);
  const ticks = xs.length > 9 ? xs.filter((_, i) => i % Math.ceil(xs.length / 8) === 0) : xs;
  return (
    <svg class="chart" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {[0, 0.25, 0.5, 0.75, 1].map((share) => (
        <g key={share}>
          <line class="rule" x1={box.left} x2={width - box.right} y1={y(share)} y2={y(share)} />
          <text class="tick" x={box.left - 7} y={y(share) + 4} text-anchor="end">
            {percent(share)}
          </text>
        </g>
      ))}
      {ticks.map((value) => (
        <text key={value} class="tick" x={x(value)} y={height - box.bottom + 17} text-anchor="middle">
          {value}
        </text>
      ))}
      <text class="tick" x={(box.left + width - box.right) / 2} y={height - 3} text-anchor="middle">
        {axis}
      </text>
      {curves.map((curve, i) => (
        <Line key={curve.name} curve={curve} x={x} y={y} tone={i === 0 ? "one" : "two"} />
      ))}
      <Names curves={curves} x={x} y={y} />
    </svg>
  );
}

type Scale = (value: number) => number;

function Line({ curve, x, y, tone }: { curve: Curve; x: Scale; y: Scale; tone: string }) {
  const known = curve.points.filter((point) => point.estimate.value !== null);
  const banded = known.filter((point) => point.estimate.low !== null && point.estimate.high !== null);
  const up = banded.map((p) => `${x(p.x)},${y(p.estimate.high ?? 0)}`);
  const downward = [...banded].reverse().map((p) => `${x(p.x)},${y(p.estimate.low ?? 0)}`);
  return (
    <g class={`curve ${tone}`}>
      {banded.length > 1 && <polygon class="band" points={[...up, ...downward].join(" ")} />}
      {banded.length === 1 &&
        banded.map((p) => (
          <line key={p.x} class="whisker" x1={x(p.x)} x2={x(p.x)} y1={y(p.estimate.low ?? 0)} y2={y(p.estimate.high ?? 0)} />
        ))}
      <polyline class="line" points={known.map((p) => `${x(p.x)},${y(p.estimate.value ?? 0)}`).join(" ")} />
      {known.map((p) => (
        <g key={p.x}>
          <title>{`${curve.name.replace("k", String(p.x))} ${percent(p.estimate.value, 1)} · ${basis(p.estimate)}`}</title>
          {curve.shape === "circle" ? (
            <circle cx={x(p.x)} cy={y(p.estimate.value ?? 0)} r="4" />
          ) : (
            <rect x={x(p.x) - 3.5} y={y(p.estimate.value ?? 0) - 3.5} width="7" height="7" />
          )}
        </g>
      ))}
    </g>
  );
}

/** Each curve's name at its end, moved apart where they would overlap. */
function Names({ curves, x, y }: { curves: Curve[]; x: Scale; y: Scale }) {
  const ends = curves.flatMap((curve, i) => {
    const known = curve.points.filter((point) => point.estimate.value !== null);
    const last = known[known.length - 1];
    return last ? [{ i, name: curve.name, value: last.estimate.value, x: x(last.x) + 10, y: y(last.estimate.value ?? 0) + 4 }] : [];
  });
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => {
    const above = ends[i - 1];
    if (above && end.y - above.y < 15) end.y = above.y + 15;
  });
  return (
    <>
      {ends.map((end) => (
        <text key={end.name} class={`name ${end.i === 0 ? "one" : "two"}`} x={end.x} y={end.y}>
          {end.name} {percent(end.value)}
        </text>
      ))}
    </>
  );
}

export interface Bar {
  name: string;
  value: number;
  words: string;
  note?: string;
  /** A second length inside the first, such as what was read from a cache. */
  part?: number;
  tone?: "fail" | "plain";
}

/** Horizontal bars; the words at their ends say the values. */
export function Bars({ bars, label }: { bars: Bar[]; label: string }) {
  const most = Math.max(...bars.map((bar) => bar.value), 1e-12);
  return (
    <div class="bars" role="img" aria-label={`${label}: ${bars.map((bar) => `${bar.name} ${bar.words}`).join(", ")}`}>
      {bars.map((bar) => (
        <div key={bar.name} class="bar-row" title={bar.note}>
          <span class="bar-name">{bar.name}</span>
          <svg class={`bar-line ${bar.tone ?? "plain"}`} viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true">
            <rect class="whole" x="0" y="1" height="12" width={Math.max((100 * bar.value) / most, 0.6)} />
            {bar.part !== undefined && <rect class="inside" x="0" y="1" height="12" width={(100 * bar.part) / most} />}
          </svg>
          <span class="bar-words">{bar.words}</span>
        </div>
      ))}
    </div>
  );
}

interface TurnChartProps {
  step: number[];
  context: (number | null)[];
  output: (number | null)[];
  failed: boolean[];
  now: number | null;
  jump: (step: number) => void;
  words: (i: number) => string;
}

/** Context as an area and output as bars over the turns; a click jumps to the turn. */
export function TurnChart({ step, context, output, failed, now, jump, words }: TurnChartProps) {
  const box = useRef<SVGSVGElement>(null);
  const n = step.length;
  const width = Math.max(n, 1);
  const height = 40;
  const mostContext = Math.max(...context.map((value) => value ?? 0), 1);
  const mostOutput = Math.max(...output.map((value) => value ?? 0), 1);
  const known = context.some((value) => value !== null);
  const area = context.map((value, i) => `${i},${height - 30 * ((value ?? 0) / mostContext)} ${i + 1},${height - 30 * ((value ?? 0) / mostContext)}`);
  // one path for all bars: hundreds of elements would be most of the page
  const bars = (tall: number[]) => tall.map((high, i) => (high ? `M${i + 0.15} ${height}v${-high}h.7v${high}z` : "")).join("");
  let at = 0;
  if (now !== null) while (at + 1 < n && (step[at + 1] ?? 0) <= now) at += 1;
  const pick = (event: MouseEvent) => {
    const place = box.current?.getBoundingClientRect();
    if (!place || n === 0) return;
    const i = Math.min(Math.max(Math.floor(((event.clientX - place.left) / place.width) * n), 0), n - 1);
    jump(step[i] ?? 0);
  };
  return (
    <svg ref={box} class="turns" viewBox={`0 0 ${width} ${height + 6}`} preserveAspectRatio="none" role="img" aria-label="context and output tokens over turns; click to jump" onClick={pick}>
      <title>{now === null ? "context (area) and output (bars) over turns; click to jump" : words(at)}</title>
      {known && <polygon class="context" points={`0,${height} ${area.join(" ")} ${n},${height}`} />}
      {!known && <path class="plain-turn" d={bars(step.map(() => 9))} />}
      <path class="output" d={bars(output.map((value) => 18 * ((value ?? 0) / mostOutput)))} />
      <path class="failed-turn" d={failed.map((bad, i) => (bad ? `M${i} ${height + 1}h1v5h-1z` : "")).join("")} />
      {now !== null && <rect class="now" x={at} width="1" y="0" height={height + 6} />}
    </svg>
  );
}
