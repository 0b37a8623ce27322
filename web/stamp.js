// Writes built.json: which sources the committed files were built from. Tests compare it without Node.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const SOURCES = ["src", "index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];
const BUILT = ["../src/ethogram/viewer/static", "../src/ethogram/viewer/paper_static"];

function filesOf(place) {
  if (!statSync(place).isDirectory()) return [place];
  return readdirSync(place).flatMap((name) => filesOf(join(place, name)));
}

function digest(places) {
  const hash = createHash("sha256");
  for (const file of places.flatMap(filesOf).sort()) {
    hash.update(`${file}\0`).update(readFileSync(file)).update("\0");
  }
  return hash.digest("hex");
}

writeFileSync("built.json", JSON.stringify({ sources: digest(SOURCES), built: digest(BUILT) }, null, 2) + "\n");
