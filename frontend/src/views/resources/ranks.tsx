import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { axis, range, rank as chosenRank, smoothing, theme } from "../../app/state";
import { LineChart, type LineSeries } from "../../charts/line-chart";
import { categorical } from "../../lib/colour";
import { curveOf } from "../../lib/curves";
import { formatBytes, formatPercent, formatSeconds } from "../../lib/format";
import { PHASE_NAMES, PHASE_TEXTS, TIME_SCALARS } from "../../lib/phases";
import { rankReading, rankSpread, type RankTimes, rankTimes } from "../../lib/ranks";
import { useColumns } from "../../wire/client";
import type { RunDetails, RunRow, ScalarColumns, ScalarsQuery } from "../../wire/types";
import { axisProps, originOf, type Scalars, scalarsOf } from "./run-scalars";
import { PHASE_COLOURS } from "./step-time";
import { Section } from "./tiles";

/** More are asked for one by one, by choosing them at the top. */
const MOST_RANKS = 16;
const POINTS = 240;
const NAMES = [...TIME_SCALARS, "memory/rss"];

interface RanksProps {
  readonly run: RunRow;
  readonly details: RunDetails;
}

/** The processes of a distributed training side by side; nothing for a single one. */
export function RanksSection({ run, details }: RanksProps): JSX.Element | null {
  const numbers = details.rank_list.slice(0, MOST_RANKS);
  const part = range.value ? { first: range.value.first, last: range.value.last } : {};
  const { answers } = useColumns((): ScalarsQuery[] =>
    numbers.length < 2
      ? []
      : numbers.map((number) => ({
          what: "scalars",
          run: run.name,
          names: NAMES,
          points: POINTS,
          rank: number,
          ...part,
        })),
  );
  const ranks = useMemo(
    () => new Map(numbers.map((number, place) => [number, scalarsOf(answers?.[place])] as const)),
    [answers, numbers.join()],
  );
  if (numbers.length < 2) return null;
  const times = rankTimes(ranks);
  const reading = rankReading(times);
  return (
    <Section
      title={`Ranks (${details.rank_list.length})`}
      reading={reading.text || undefined}
      tone={reading.slowest === null ? undefined : "warning"}
    >
      <div class="two-thirds">
        <div class="card page-card">
          <RankLines ranks={ranks} />
          <SpreadText ranks={ranks} />
        </div>
        <div class="card page-card">
          <RankTable times={times} ranks={ranks} slowest={reading.slowest} />
        </div>
      </div>
      {Number(details.info["in_parts"] ?? 0) > 0 && (
        <p class="muted">
          The weights are sharded across the ranks. Rank 0 shows all of them in steps that every rank has sampled; the
          other ranks show their own shards.
        </p>
      )}
      {details.rank_list.length > MOST_RANKS && (
        <p class="muted">The first {MOST_RANKS} are shown; select another one at the top.</p>
      )}
    </Section>
  );
}

type Ranks = ReadonlyMap<number, Scalars>;

function RankLines({ ranks }: { readonly ranks: Ranks }): JSX.Element {
  const colours = categorical(theme.value);
  const all = [...ranks.values()][0]?.get("time/step");
  const series = [...ranks].flatMap(([rank, scalars], place): LineSeries[] => {
    const columns = scalars.get("time/step");
    if (!columns) return [];
    const dash = place >= colours.length ? { dash: [5, 4] } : {};
    return [
      {
        label: `rank ${rank}`,
        colour: colours[place % colours.length] ?? "",
        ...curveOf(columns, axis.value, smoothing.value, originOf(all)),
        ...dash,
      },
    ];
  });
  // Bands of many ranks over one another would hide the lines.
  const lines = series.map(({ low: _low, high: _high, ...rest }) => rest);
  return (
    <LineChart
      {...axisProps(all)}
      title="Step time by rank"
      series={lines}
      formatY={formatSeconds}
      syncKey="steps"
      exportName="step-time-by-rank"
      height={220}
    />
  );
}

/** Who is the slowest by so much cannot be chance alone. */
const CLEARLY = 1.02;

/** Who is the slowest how often. */
function SpreadText({ ranks }: { readonly ranks: Ranks }): JSX.Element | null {
  const columns = new Map(
    [...ranks].flatMap(([rank, scalars]): [number, ScalarColumns][] => {
      const found = scalars.get("time/step");
      return found ? [[rank, found]] : [];
    }),
  );
  const spread = rankSpread(columns);
  if (spread.step.length === 0) return null;
  const counts = new Map<number, number>();
  for (const [row, rank] of spread.slowest.entries()) {
    const isClear = (spread.most[row] ?? 0) > CLEARLY * (spread.least[row] ?? 0);
    if (isClear) counts.set(rank, (counts.get(rank) ?? 0) + 1);
  }
  if (counts.size === 0) return null;
  const [rank = 0, count = 0] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? [];
  const gaps = Array.from(spread.most, (most, row) => most - (spread.least[row] ?? 0)).sort((a, b) => a - b);
  const median = gaps[Math.floor(gaps.length / 2)] ?? 0;
  return (
    <p class="muted">
      The median gap between the fastest and the slowest rank is {formatSeconds(median)}. Rank {rank} is the slowest
      most often: at {formatPercent(count / spread.step.length)} of the points.
    </p>
  );
}

interface RankTableProps {
  readonly times: readonly RankTimes[];
  readonly ranks: Ranks;
  readonly slowest: number | null;
}

function RankTable({ times, ranks, slowest }: RankTableProps): JSX.Element {
  const colours = categorical(theme.value);
  const longest = Math.max(...times.map(({ seconds }) => seconds));
  return (
    <div class="rank-scroll">
      <table class="rank-table">
        <thead>
          <tr>
            <th>Rank</th>
            <th>Latest steps</th>
            <th>Step</th>
            <th>Memory</th>
          </tr>
        </thead>
        <tbody>
          {times.map(({ rank, seconds, shares }) => (
            <tr key={rank} class={rank === slowest ? "slowest" : ""}>
              <td>
                <button
                  type="button"
                  class="link"
                  title="Show this rank on all pages"
                  aria-pressed={chosenRank.value === rank}
                  onClick={() => (chosenRank.value = rank)}
                >
                  {rank}
                  {rank === slowest && <span class="unseen"> (slowest)</span>}
                </button>
              </td>
              <td>
                <span
                  class="rank-bar"
                  style={{ width: `${(seconds / longest) * 100}%` }}
                  role="img"
                  aria-label={PHASE_NAMES.map(
                    (name) => `${PHASE_TEXTS[name].title} ${formatPercent(shares[name])}`,
                  ).join(", ")}
                >
                  {PHASE_NAMES.map((name) => (
                    <i
                      key={name}
                      title={`${PHASE_TEXTS[name].title} ${formatSeconds(shares[name] * seconds)}`}
                      style={{ flexGrow: shares[name], background: colours[PHASE_COLOURS[name]] }}
                    />
                  ))}
                </span>
              </td>
              <td>{formatSeconds(seconds)}</td>
              <td>{memoryText(ranks.get(rank))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="faint phase-note">
        The bars have the colours of the step time above. Ranks wait for each other in the backward pass.
      </p>
    </div>
  );
}

function memoryText(scalars: Scalars | undefined): string {
  const bytes = scalars?.get("memory/rss")?.mean.at(-1);
  return bytes === undefined ? "–" : formatBytes(bytes);
}
