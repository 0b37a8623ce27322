// Every page of the viewer: its name in the address, where it stands, and the code that is fetched when it is opened.
import type { ComponentType } from "preact";
import type { Params } from "../address";
import type { RunView } from "../models";

export interface PageProps {
  params: Params;
}

export interface Page {
  path: string;
  title: string;
  /** `run` pages are tabs of a run and get its name as `params.run`; the others are reached by links. */
  place: "home" | "run" | "below";
  load: () => Promise<{ default: ComponentType<PageProps> }>;
  /** Of a tab: whether this run has something to show there. */
  applies?: (run: RunView) => boolean;
  /** Whether a report on disk holds what the page shows. */
  onPaper?: boolean;
}

export const PAGES: Page[] = [
  { path: "runs", title: "Runs", place: "home", load: () => import("./runs") },
  { path: "run", title: "Overview", place: "run", load: () => import("./run"), onPaper: true },
  { path: "report", title: "Report", place: "run", load: () => import("./report"), onPaper: true },
  { path: "trace", title: "Trace", place: "below", load: () => import("./trace"), onPaper: true },
  { path: "task", title: "Task", place: "below", load: () => import("./task") },
  { path: "diff", title: "Diff", place: "below", load: () => import("./diff") },
  { path: "perturbation", title: "Perturbation", place: "run", load: () => import("./perturbation"), applies: (run) => run.experiment },
  { path: "explore", title: "Explore", place: "run", load: () => import("./explore"), applies: (run) => run.overview.kind === "explore" },
  { path: "field", title: "Field", place: "run", load: () => import("./field") },
  { path: "gate", title: "Gate", place: "run", load: () => import("./gate") },
  { path: "judge", title: "Judge", place: "run", load: () => import("./judge") },
  { path: "golden", title: "Golden sets and incidents", place: "home", load: () => import("./golden") },
];

export function pageOf(path: string): Page | undefined {
  return PAGES.find((page) => page.path === path);
}
