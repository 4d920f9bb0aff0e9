import type { JSX } from "preact";
import type { RunDetails } from "../../wire/types";
import { Section } from "./tiles";

/** What is worth showing first, in words. The rest follows by its own name. */
const TITLES: ReadonlyMap<string, string> = new Map([
  ["framework", "Framework"],
  ["python", "Python"],
  ["models", "Models"],
  ["optimizers", "Optimizers"],
  ["parameters", "Watched parameters"],
  ["layers", "Watched layers"],
  ["processes", "Processes in the group"],
  ["in_parts", "Parameters sharded across processes"],
  ["threads", "torch threads"],
  ["pid", "Process"],
  ["memory", "Memory"],
]);
const ELSEWHERE = new Set(["schema", "settings", "not_watched"]);
const LONGEST = 400;

/** What the run was recorded on, how, and what of it was not watched. */
export function MachineSection({ details }: { readonly details: RunDetails }): JSX.Element | null {
  const { info } = details;
  const names = [...TITLES.keys(), ...Object.keys(info).filter((name) => !TITLES.has(name) && !ELSEWHERE.has(name))];
  const rows = names
    .filter((name) => Object.hasOwn(info, name))
    .map((name) => [TITLES.get(name) ?? name, textOf(info[name])] as const);
  const settings = objectOf(info["settings"]);
  const unwatched = Array.isArray(info["not_watched"]) ? info["not_watched"].map(textOf) : [];
  if (rows.length === 0 && settings.length === 0) return null;
  return (
    <Section title="Machine and settings">
      <div class="card-grid">
        <div class="card page-card">
          <Pairs rows={rows} />
          {settings.length > 0 && (
            <details>
              <summary>Settings of nd.watch</summary>
              <Pairs rows={settings} />
            </details>
          )}
        </div>
      </div>
      {unwatched.length > 0 && (
        <div class="card page-card">
          <h4>Not watched</h4>
          <ul class="gap-list">
            {unwatched.slice(0, 30).map((text, place) => (
              <li key={place}>
                <bdi>{text}</bdi>
              </li>
            ))}
            {unwatched.length > 30 && <li class="muted">and {unwatched.length - 30} more</li>}
          </ul>
        </div>
      )}
    </Section>
  );
}

function Pairs({ rows }: { readonly rows: readonly (readonly [string, string])[] }): JSX.Element {
  return (
    <dl class="pairs">
      {rows.map(([title, text]) => (
        <div key={title}>
          <dt>{title.slice(0, 80)}</dt>
          <dd>
            <bdi>{text}</bdi>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function objectOf(value: unknown): (readonly [string, string])[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  return Object.entries(value).map(([name, each]) => [name, textOf(each)] as const);
}

/** Whatever was recorded, as a line of text. */
function textOf(value: unknown): string {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string" || typeof value === "number") return String(value).slice(0, LONGEST);
  if (Array.isArray(value)) return value.length > 0 ? value.map(textOf).join(", ").slice(0, LONGEST) : "–";
  const parts = objectOf(value).map(([name, text]) => (name === "" ? text : `${name}: ${text}`));
  return parts.join(", ").slice(0, LONGEST) || "–";
}
