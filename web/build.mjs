// Bundles src/ into the folder that is the first argument: index.html, app.js, app.css, icon.svg.
// The same sources give the same bytes, whatever the version of node: esbuild does the work, and its version is fixed.
import { copyFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, "../src/onward/web/static");

mkdirSync(target, { recursive: true });
const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  target: ["es2022", "chrome123", "firefox120", "safari17.5"],
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
};
await build({
  ...common,
  entryPoints: ["src/main.tsx"],
  outfile: join(target, "app.js"),
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
});
await build({ ...common, entryPoints: ["src/style.css"], outfile: join(target, "app.css") });
for (const name of ["index.html", "icon.svg"]) copyFileSync(join(here, "src", name), join(target, name));
