import type { JSX } from "preact";
import { Icon } from "./icons";
import { collectorAddress, complaints, listError, logdir } from "./state";
import { refreshList } from "./session";

/** The page when there is no list of runs to show. */
export function Unreachable(): JSX.Element {
  return (
    <section class="notice" role="alert">
      <h2>TensorBoard does not answer</h2>
      <p>{listError.value}</p>
      <p class="muted">
        This page tries again by itself. If TensorBoard was stopped, start it again with the same port.
      </p>
      <button type="button" class="button" onClick={() => void refreshList()}>
        <Icon name="reset" /> Try now
      </button>
    </section>
  );
}

const RECORD = `import tb_netdebug as nd

monitor = nd.watch(model, optimizer)   # before the loop
monitor.step(loss=loss)                # at the end of each batch`;

/** The page of a logdir without runs: how to get one. */
export function NoRuns(): JSX.Element {
  return (
    <section class="notice">
      <h2>No runs yet</h2>
      <p>
        Nothing was recorded below <code class="path">{logdir.value || "the logdir"}</code>. These lines in a training
        script record a run there; it appears here by itself within a second.
      </p>
      <pre class="code">{RECORD}</pre>
      <p class="muted">
        Runs go into <code>runs/</code> of the folder where the script is started; <code>logdir=</code> of{" "}
        <code>nd.watch</code> says where else.
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
      A training elsewhere sends its records here with <code>remote="{target}"</code>, or with{" "}
      <code>netdebug run --remote {target} train.py</code>. From a machine that cannot reach this address, a tunnel
      leads there (<code>ssh -R</code>).
    </p>
  );
}

export function NoRunChosen(): JSX.Element {
  return (
    <section class="notice">
      <h2>No run chosen</h2>
      <p>Click a run in the list to look at it, or tick several to draw them together.</p>
    </section>
  );
}
