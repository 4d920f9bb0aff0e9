import { Fragment, type JSX } from "preact";
import { Icon, type IconName } from "../../app/icons";
import { axis, page, range, rank } from "../../app/state";
import { layerPlace } from "../../lib/finding-places";
import { findingTree, type FindingTree } from "../../lib/finding-tree";
import { formatCount, formatNumber, formatPercent } from "../../lib/format";
import type { Evidence, Finding, RunDetails, Severity } from "../../wire/types";
import { openPlace } from "../layers/choices";

const SEVERITIES: Readonly<Record<Severity, readonly [icon: IconName, word: string, tone: string]>> = {
  error: ["error", "Error", "bad"],
  warning: ["warning", "Warning", "warning"],
  info: ["info", "Note", "muted"],
};
const VERDICTS = {
  sick: ["error", "This network is sick.", "bad"],
  suspect: ["warning", "Something may be wrong.", "warning"],
  healthy: ["check", "No sign of trouble.", "good"],
} as const;
const MOST_PLACES = 4;
const LONGEST_PLACE = 120;
/** Where the loss is drawn, for who asks when something was. */
export const LOSS_CHART = "loss-chart";

interface Told {
  readonly details: RunDetails;
  readonly tree: FindingTree;
}

/** The answer that the page opens with. */
export function Findings({ details }: { readonly details: RunDetails }): JSX.Element {
  const told = { details, tree: findingTree(details.findings) };
  const { causes, notes } = told.tree;
  return (
    <section class="findings" aria-label="Verdict">
      <Verdict details={details} />
      <FindingList findings={causes} {...told} />
      {notes.length > 0 && (
        <details class="finding-notes">
          <summary>{notes.length === 1 ? "1 note" : `${notes.length} notes`}: worth knowing, not a fault</summary>
          <FindingList findings={notes} {...told} />
        </details>
      )}
    </section>
  );
}

function Verdict({ details }: { readonly details: RunDetails }): JSX.Element {
  if (details.verdict === null) {
    return (
      <p class="verdict muted">
        <Icon name="info" />
        <span>
          <Words text={details.reason ?? "This run is not judged yet."} />
        </span>
      </p>
    );
  }
  if (details.verdict === "unknown") {
    return (
      <p class="verdict unknown">
        <Icon name="unknown" />
        <span>
          <Words text={details.reason ?? "Nothing is known about this run."} />
        </span>
      </p>
    );
  }
  const [icon, sentence, tone] = VERDICTS[details.verdict];
  return (
    <p class={`verdict ${tone}`}>
      <Icon name={icon} /> {sentence}
    </p>
  );
}

function FindingList({ findings, ...told }: Told & { readonly findings: readonly Finding[] }): JSX.Element | null {
  if (findings.length === 0) return null;
  return (
    <ul class="finding-list">
      {findings.map((finding) => (
        <FindingRow key={finding.rule} finding={finding} {...told} />
      ))}
    </ul>
  );
}

function FindingRow({ finding, details, tree }: Told & { readonly finding: Finding }): JSX.Element {
  const explained = tree.explainedBy(finding);
  return (
    <li class={`card finding finding-${finding.severity}`}>
      <SeverityWord severity={finding.severity} />
      <div class="finding-body">
        <p class="finding-message">
          <Words text={finding.message} />
        </p>
        <p class="finding-facts">
          <code class="faint" title="Name of the check">
            {finding.rule}
          </code>
          <Since finding={finding} end={details.last_step} />
          <Places finding={finding} details={details} />
        </p>
        {finding.advice && (
          <p class="finding-advice">
            <strong>Try:</strong> <Words text={finding.advice} />
          </p>
        )}
        <EvidenceList finding={finding} />
        {explained.length > 0 && (
          <details class="finding-explains">
            <summary>
              <Explained findings={explained} />
            </summary>
            <FindingList findings={explained} details={details} tree={tree} />
          </details>
        )}
      </div>
    </li>
  );
}

function SeverityWord({ severity }: { readonly severity: Severity }): JSX.Element {
  const [icon, word, tone] = SEVERITIES[severity];
  return (
    <span class={`finding-severity ${tone}`}>
      <Icon name={icon} /> {word}
    </span>
  );
}

/** A milder cause may explain an error, and then the verdict speaks of that. */
function Explained({ findings }: { readonly findings: readonly Finding[] }): JSX.Element {
  return (
    <>
      Explains {findings.length === 1 ? "another finding" : `${findings.length} others`}:{" "}
      {findings.map(({ rule, severity }, i) => (
        <Fragment key={rule}>
          {i > 0 && ", "}
          <span class={severity === "error" ? "bad" : ""}>
            {rule}
            {severity === "error" && " (error)"}
          </span>
        </Fragment>
      ))}
    </>
  );
}

/** What stands in backticks is code. */
function Words({ text }: { readonly text: string }): JSX.Element {
  return (
    <>{text.split(/(`[^`]+`)/).map((part, i) => (i % 2 === 1 ? <code key={i}>{part.slice(1, -1)}</code> : part))}</>
  );
}

function EvidenceList({ finding }: { readonly finding: Finding }): JSX.Element {
  const told = Object.entries(finding.evidence).map(([name, value]) => [name.replace(/_/g, " "), evidenceText(value)]);
  return (
    <details>
      <summary>Evidence</summary>
      <dl class="evidence">
        {[...told, ["confidence", formatPercent(finding.sureness)]].map(([name, text]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </Fragment>
        ))}
      </dl>
    </details>
  );
}

/** Stored findings come from anywhere: what is no evidence is text as well. */
function evidenceText(evidence: Evidence | null): string {
  if (typeof evidence !== "object" || evidence === null) return plain(evidence);
  return `${plain(evidence.value)} (threshold ${plain(evidence.limit)})`;
}

function plain(value: unknown): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? formatNumber(value) : String(value);
}

/** Leads to the steps on the curve of the loss, with some before them. */
function Since({ finding, end }: { readonly finding: Finding; readonly end: number | null }): JSX.Element {
  const { first_step: first, last_step: last } = finding;
  const margin = Math.max(50, Math.round((last - first) / 4));
  const show = (): void => {
    axis.value = "step";
    range.value = {
      first: Math.max(0, first - margin),
      last: Math.max(last, Math.min(last + margin, end ?? Infinity)),
    };
    document.getElementById(LOSS_CHART)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <button type="button" class="link" title="Show these steps in the charts" onClick={show}>
      {last > first ? `steps ${formatCount(first)} – ${formatCount(last)}` : `step ${formatCount(first)}`}
    </button>
  );
}

interface PlacesProps {
  readonly finding: Finding;
  readonly details: RunDetails;
}

function Places({ finding, details }: PlacesProps): JSX.Element | null {
  const { where, rule } = finding;
  if (where.length === 0) return null;
  const hidden = where.length - MOST_PLACES;
  return (
    <span class="places">
      <span class="muted">in</span>
      {where.slice(0, MOST_PLACES).map((name) => (
        <Place key={name} name={name} show={wayTo(rule, name, details)} />
      ))}
      {hidden > 0 && (
        <span class="faint" title={where.slice(MOST_PLACES, 50).join("\n").slice(0, 2000)}>
          and {hidden} more
        </span>
      )}
    </span>
  );
}

function Place({ name, show }: { readonly name: string; readonly show: (() => void) | null }): JSX.Element {
  const text = <bdi>{name.slice(0, LONGEST_PLACE)}</bdi>;
  if (show === null) return <code class="place">{text}</code>;
  return (
    <button type="button" class="link place" onClick={show}>
      {text}
    </button>
  );
}

/** What a click on the place does; null when no page has more about it, such as about a line of code. */
function wayTo(rule: string, name: string, details: RunDetails): (() => void) | null {
  const layers = layerPlace(rule, name, details);
  if (layers) return () => openPlace(layers);
  const number = /^rank (\d+)$/.exec(name)?.[1];
  if (number === undefined && !name.startsWith("memory/")) return null;
  return () => {
    if (number !== undefined) rank.value = Number(number);
    page.value = "resources";
  };
}
