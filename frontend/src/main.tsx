import "./style/tokens.css";
import "./style/base.css";
import { render } from "preact";
import { Shell } from "./app/shell";
import { chosen, focus, runs } from "./app/state";
import { getJson } from "./wire/http";
import { parseRunList } from "./wire/json";

const place = document.getElementById("page");
if (place) render(<Shell />, place);
void getJson("runs").then((json) => {
  const list = parseRunList(json);
  runs.value = list.runs;
  chosen.value = list.runs.slice(0, 3).map((run) => run.name);
  focus.value = list.runs[0]?.name ?? null;
});
