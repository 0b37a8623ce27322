import preact from "@preact/preset-vite";
import { type BuildOptions, defineConfig } from "vite";

// For a report: everything in one script and one style sheet, which Python puts into the file.
const paper: BuildOptions = {
  outDir: "../src/ethogram/viewer/paper_static",
  cssCodeSplit: false,
  modulePreload: false,
  rollupOptions: {
    input: "src/main.tsx",
    output: { format: "iife", entryFileNames: "app.js", assetFileNames: "app[extname]", codeSplitting: false },
  },
};

// The built files are committed: their names carry no hash, so that a change is a change of a file.
export default defineConfig(({ mode }) => ({
  base: "./",
  plugins: [preact({ devToolsEnabled: false, prefreshEnabled: false })],
  server: { proxy: { "/api": "http://127.0.0.1:7420" } },
  build: {
    outDir: "../src/ethogram/viewer/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
    ...(mode === "paper" ? paper : {}),
  },
}));
