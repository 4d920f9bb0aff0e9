import type { JSX } from "preact";
import { Icon, type IconName } from "../../app/icons";
import { page, range, setParam } from "../../app/state";
import { formatCount, formatNumber, formatPercent } from "../../lib/format";
import type { Evidence, Finding, RunDetails, Severity } from "../../wire/types";

const SEVERITIES: Readonly<Record<Severity, readonly [icon: IconName, word: string, tone: string]>> = {
  error: ["error", "Error", "bad"],
  warning: ["warning", "Warning", "warning"],
  info: ["info", "Note", "muted"],
};
const ORDER: readonly Severity[] = ["error", "warning", "info"];
const VERDICTS = {
  sick: ["error", "This network is sick.", "bad"],
  suspect: ["warning", "Something may be wrong.", "warning"],
  healthy: ["check", "No sign of trouble.", "good"],
} as const;
const MOST_PLACES = 4;

/** The answer that the page opens with. */
export function Findings({ details }: { readonly details: RunDetails }): JSX.Element {
  const { roots, notes } = arranged(details.findings);
  return (
    <section class="findings" aria-label="Verdict">
      <Verdict details={details} />
      <FindingList findings={roots} all={details.findings} />
      {notes.length > 0 && (
        <details class="finding-notes">
          <summary>{notes.length === 1 ? "1 note" : `${notes.length} notes`}: worth knowing, no fault</summary>
          <FindingList findings={notes} all={details.findings} />
        </details>
      )}
    </section>
  );
}

/** Causes, the worst first; what they explain is told below them. Notes are for who wants to know. */
function arranged(findings: readonly Finding[]): { roots: Finding[]; notes: Finding[] } {
  const roots = findings
    .filter((finding) => !findings.some((each) => each.rule === finding.cause))
    .sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity) || a.first_step - b.first_step);
  const isNote = (finding: Finding): boolean => finding.severity === "info";
  return { roots: roots.filter((finding) => !isNote(finding)), notes: roots.filter(isNote) };
}

interface ListProps {
  readonly findings: readonly Finding[];
  readonly all: readonly Finding[];
}

function FindingList({ findings, all }: ListProps): JSX.Element | null {
  if (findings.length === 0) return null;
  return (
    <ul class="finding-list">
      {findings.map((finding) => (
        <FindingRow key={finding.rule} finding={finding} all={all} />
      ))}
    </ul>
  );
}

function Verdict({ details }: { readonly details: RunDetails }): JSX.Element {
  if (details.verdict === null) {
    return (
      <p class="verdict muted">
        <Icon name="info" /> Recorded, not judged yet. Below are the vital signs.
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

function FindingRow({ finding, all }: { readonly finding: Finding; readonly all: readonly Finding[] }): JSX.Element {
  const [icon, word, tone] = SEVERITIES[finding.severity];
  const evidence = Object.entries(finding.evidence);
  const explained = all.filter((each) => each.cause === finding.rule);
  return (
    <li class={`card finding finding-${finding.severity}`}>
      <span class={`finding-severity ${tone}`}>
        <Icon name={icon} /> {word}
      </span>
      <div class="finding-body">
        <p class="finding-message">{finding.message}</p>
        <p class="finding-facts">
          <Since finding={finding} />
          <Places where={finding.where} />
          <code class="faint">{finding.rule}</code>
        </p>
        {finding.advice && (
          <p class="finding-advice">
            <strong>Try:</strong> {finding.advice}
          </p>
        )}
        {evidence.length > 0 && (
          <details>
            <summary>Evidence</summary>
            <dl class="evidence">
              {evidence.map(([name, value]) => (
                <div key={name}>
                  <dt>{name.replace(/_/g, " ")}</dt>
                  <dd>{evidenceText(value)}</dd>
                </div>
              ))}
              <div>
                <dt>how sure</dt>
                <dd>{formatPercent(finding.sureness)}</dd>
              </div>
            </dl>
          </details>
        )}
        {explained.length > 0 && (
          <details class="finding-explains">
            <summary>
              Explains {explained.length === 1 ? "another finding" : `${explained.length} others`}:{" "}
              {explained.map((each) => each.rule).join(", ")}
            </summary>
            <FindingList findings={explained} all={all} />
          </details>
        )}
      </div>
    </li>
  );
}

function evidenceText(evidence: Evidence): string {
  if (typeof evidence !== "object") return plain(evidence);
  return `${plain(evidence.value)} (threshold ${plain(evidence.limit)})`;
}

function plain(value: string | number): string {
  return typeof value === "number" ? formatNumber(value) : value;
}

/** Leads to the steps, with some before them. */
function Since({ finding: { first_step: first, last_step: last } }: { readonly finding: Finding }): JSX.Element {
  const margin = Math.max(50, Math.round((last - first) / 4));
  const show = (): void => {
    range.value = { first: Math.max(0, first - margin), last: last + margin };
  };
  return (
    <button type="button" class="link" onClick={show}>
      {last > first ? `steps ${formatCount(first)} – ${formatCount(last)}` : `step ${formatCount(first)}`}
    </button>
  );
}

/** Leads to the layers. */
function Places({ where }: { readonly where: readonly string[] }): JSX.Element {
  const show = (name: string): void => {
    setParam("layers.search", name);
    page.value = "layers";
  };
  return (
    <>
      {where.slice(0, MOST_PLACES).map((name) => (
        <button key={name} type="button" class="link place" onClick={() => show(name)}>
          <bdi>{name.slice(0, 120)}</bdi>
        </button>
      ))}
      {where.length > MOST_PLACES && <span class="faint">and {where.length - MOST_PLACES} more</span>}
    </>
  );
}
