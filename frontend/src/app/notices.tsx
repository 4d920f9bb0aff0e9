import type { JSX } from "preact";
import { Icon } from "./icons";
import { collectorAddress, complaints, listError, logdir } from "./state";
import { refreshList } from "./session";

/** The page when there is no list of runs to show. */
export function Unreachable(): JSX.Element {
  return (
    <section class="notice" role="alert">
      <h2>TensorBoard is not responding</h2>
      <p>{listError.value}</p>
      <p class="muted">This page keeps trying to reconnect. If TensorBoard was stopped, restart it on the same port.</p>
      <button type="button" class="button" onClick={() => void refreshList()}>
        <Icon name="reset" /> Retry now
      </button>
    </section>
  );
}

const RECORD = `import tb_netdebug as nd

# before the loop
monitor = nd.watch(model, optimizer)
# at the end of each batch
monitor.step(loss=loss)`;

/** The page of a logdir without runs: how to get one. */
export function NoRuns(): JSX.Element {
  return (
    <section class="notice">
      <h2>No runs yet</h2>
      <p>
        Nothing has been recorded in <code class="path">{logdir.value || "the logdir"}</code>. To record a run, add
        these lines to a training script; the run appears here within a second.
      </p>
      <pre class="code">{RECORD}</pre>
      <p class="muted">
        By default, runs are written to <code>runs/</code> in the folder where the script is started. To write them
        elsewhere, pass <code>logdir=</code> to <code>nd.watch</code>.
      </p>
      {collectorAddress.value && <Elsewhere address={collectorAddress.value} />}
      {complaints.value.map((complaint) => (
        <p key={complaint} class="bad">
          {complaint}
        </p>
      ))}
    </section>
  );
}

function Elsewhere({ address }: { readonly address: string }): JSX.Element {
  // Where it listens under all names, the one by which this page came leads there.
  const target = address.replace(/^(0\.0\.0\.0|\[::\])(?=:)/, location.hostname);
  return (
    <p class="muted">
      To record a run on another machine, pass <code>remote="{target}"</code> to <code>nd.watch</code>, or use{" "}
      <code>netdebug run --remote {target} train.py</code>. If that machine cannot reach this address, open a tunnel
      with <code>ssh -R</code>.
    </p>
  );
}

export function NoRunChosen(): JSX.Element {
  return (
    <section class="notice">
      <h2>No run selected</h2>
      <p>Click a run in the list to open it, or check several to compare them.</p>
    </section>
  );
}
