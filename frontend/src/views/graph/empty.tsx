import type { JSX } from "preact";
import type { RunDetails } from "../../wire/types";

/** Why there is no graph, and how to get one. */
export function EmptyGraph({ details }: { readonly details: RunDetails }): JSX.Element {
  if (details.kind === "summary") {
    return (
      <section class="notice">
        <h2>This run holds no graph</h2>
        <p>
          It was written by a SummaryWriter. To record the modules of a network and the data flow between them, use:
        </p>
        <pre class="code">{"import tb_netdebug as nd\n\nmonitor = nd.watch(model, optimizer)"}</pre>
      </section>
    );
  }
  return (
    <section class="notice">
      <h2>No graph yet</h2>
      <p>
        The graph is recorded in the first forward pass with gradients, and written at the end of that step. A model
        that is compiled before it is watched shows its modules without the flow between them.
      </p>
      <p class="muted">It appears here automatically as soon as it has been written.</p>
    </section>
  );
}
