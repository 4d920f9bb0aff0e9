import type { JSX } from "preact";
import { formatElapsed } from "../../lib/elapsed";
import { formatBytes, formatCount } from "../../lib/format";
import type { RunDetails, RunRow } from "../../wire/types";

const DAY: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "short" };

/** What this run is, in one line. */
export function RunSummary({ run, details }: { readonly run: RunRow; readonly details: RunDetails }): JSX.Element {
  const { first_time: begin, last_time: end, rank_list: ranks } = details;
  // The row comes with each news, the details now and then.
  const { steps } = run;
  const facts = [
    steps === null ? null : `${formatCount(steps)} steps`,
    begin !== null && end !== null && end > begin ? `in ${formatElapsed(end - begin)}` : null,
    `since ${new Intl.DateTimeFormat(undefined, DAY).format(details.started * 1000)}`,
    ranks.length > 1 ? `${ranks.length} ranks` : null,
    `${formatBytes(details.size_bytes)} on disk`,
    details.kind === "summary" ? "written by a SummaryWriter" : null,
    run.ending?.well ? "ended normally" : null,
  ];
  return <ul class="run-summary">{facts.map((fact) => fact && <li key={fact}>{fact}</li>)}</ul>;
}

/** Damage in the files of the run: what could not be read. */
export function Gaps({ details }: { readonly details: RunDetails }): JSX.Element | null {
  const { gap_list: gaps, complaint } = details;
  if (gaps.length === 0 && !complaint) return null;
  const lost = gaps.reduce((sum, gap) => sum + gap.size, 0);
  return (
    <details class="card gaps">
      <summary class="warning">
        {complaint ?? `${placesText(details.gaps ?? gaps.length)} in the files, ${formatBytes(lost)} could not be read`}
      </summary>
      <ul>
        {gaps.map((gap) => (
          <li key={`${gap.file} ${gap.offset}`}>
            <code>{gap.file}</code> at byte {formatCount(gap.offset)}, {formatBytes(gap.size)}: {gap.complaint}
          </li>
        ))}
      </ul>
    </details>
  );
}

function placesText(count: number): string {
  return count === 1 ? "One damaged place" : `${formatCount(count)} damaged places`;
}
