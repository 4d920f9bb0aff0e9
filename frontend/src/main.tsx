import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/runs.css";
import "./style/chart.css";
import { render } from "preact";
import { startDebugger } from "./app/debugger";
import { startAttendance } from "./app/debugger-attendance";
import { startClient } from "./app/debugger-client";
import { listenToKeys } from "./app/keyboard";
import { followLink } from "./app/link";
import { remember } from "./app/remembered";
import { startSession } from "./app/session";
import { Shell } from "./app/shell";
import { colourChoices, SORTS, sort } from "./app/state";
import { followTheme } from "./app/theme";

function isColours(found: unknown): found is Record<string, number> {
  return typeof found === "object" && found !== null && Object.values(found).every((each) => Number.isInteger(each));
}

followTheme();
remember("colours", colourChoices, isColours);
remember("sort", sort, (found): found is (typeof SORTS)[number] => SORTS.some((each) => each === found));
followLink();
listenToKeys();
startSession();
startClient();
startDebugger();
startAttendance();
const place = document.getElementById("page");
if (place) render(<Shell />, place);
