import type { JSX } from "preact";
import { Icon, type IconName } from "../../app/icons";
import { page, range, setParam } from "../../app/state";
import { formatCount, formatNumber } from "../../lib/format";
import type { Finding, RunDetails, Severity } from "../../wire/types";

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
  const findings = [...details.findings].sort(
    (a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity) || a.first_step - b.first_step,
  );
  return (
    <section class="findings" aria-label="Verdict">
      <Verdict details={details} />
      {findings.length > 0 && (
        <ul class="finding-list">
          {findings.map((finding) => (
            <FindingRow key={`${finding.rule} ${finding.first_step} ${finding.where.join()}`} finding={finding} />
          ))}
        </ul>
      )}
    </section>
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

function FindingRow({ finding }: { readonly finding: Finding }): JSX.Element {
  const [icon, word, tone] = SEVERITIES[finding.severity];
  const evidence = Object.entries(finding.evidence);
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
        {finding.advice && <p class="finding-advice">{finding.advice}</p>}
        {evidence.length > 0 && (
          <details>
            <summary>Evidence</summary>
            <dl class="evidence">
              {evidence.map(([name, value]) => (
                <div key={name}>
                  <dt>{name.replace(/_/g, " ")}</dt>
                  <dd>{typeof value === "number" ? formatNumber(value) : String(value)}</dd>
                </div>
              ))}
            </dl>
          </details>
        )}
      </div>
    </li>
  );
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
