import type { JSX } from "preact";
import { setParam } from "../../app/state";
import { setValueScale, valueScale } from "../layers/choices";
import { Segments, VALUE_AXES } from "../layers/segments";
import type { HistogramChoices } from "./choices";

/** How the histogram is drawn, and what that means. */
export function Looks({
  choices,
  compared,
}: {
  readonly choices: HistogramChoices;
  readonly compared: boolean;
}): JSX.Element {
  const { mode, logCounts, fit } = choices;
  return (
    <div class="looks">
      <span class="setting">
        Values <Segments options={VALUE_AXES} value={valueScale()} onChange={setValueScale} label="Value axis" />
      </span>
      <span class="setting">
        Height{" "}
        <Segments
          options={[
            {
              value: "density",
              label: "density",
              hint: "Equal areas hold equal numbers of values; 1 is an even spread over the axis",
            },
            {
              value: "count",
              label: compared ? "share" : "count",
              hint: "Number of values in each bin, whatever its width",
            },
          ]}
          value={mode}
          onChange={(next) => setParam("histograms.height", next === "count" ? "count" : null)}
          label="Bar height"
        />
      </span>
      <label class="setting">
        <input
          type="checkbox"
          checked={logCounts}
          onChange={() => setParam("histograms.log", logCounts ? null : "1")}
        />
        Log height
      </label>
      <label class="setting">
        Axis
        <select
          value={fit}
          onChange={(event) =>
            setParam("histograms.fit", event.currentTarget.value === "auto" ? null : event.currentTarget.value)
          }
        >
          <option value="auto">automatic</option>
          <option value="all">same for all steps</option>
          <option value="shown">fit to this step</option>
        </select>
      </label>
    </div>
  );
}

/** What the height of a bar means. */
export function Why({ mode }: { readonly mode: HistogramChoices["mode"] }): JSX.Element {
  return (
    <p class="faint looks-why">
      {mode === "density"
        ? "Density: the area is the number of values; 1 is an even spread over the axis. Bins are those recorded, 6 to 12 % wide; bins too narrow for the screen are merged."
        : "Count: the height is the number of values in the bin. Bins are those recorded and get wider with the magnitude, so wide ones hold more; bins too narrow for the screen are merged."}
    </p>
  );
}
