import "./style.css"; // before the sheets of pages, which may say otherwise
import { render } from "preact";
import { listenToKeys } from "./keys";
import { listen } from "./live";
import { Shell } from "./shell";
import "./theme";

listen();
listenToKeys();
const root = document.getElementById("app");
root?.replaceChildren(); // on paper: what readers without scripts see
if (root) render(<Shell />, root);
