// What changes from one configuration to another, in meaning: what `titan plan` says.

import { path } from "../api";
import { useLoad } from "../load";
import { Empty, Loading, State, Text, Wrong } from "../parts";
import type { FieldChange, Plan } from "../types";

/** What entry `id` of the history changes, seen from entry `against`. */
export function PlanShown({ id, against }: { id: number; against: number }) {
  const { value, failure, again } = useLoad<Plan>(path(["history", id, "plan"], { against }));
  if (failure) return <Wrong failure={failure} again={again} />;
  if (value === null) return <Loading rows={4} />;
  if (value.result === "same") return <Empty>Nothing changes in meaning.</Empty>;
  return (
    <div class="plan">
      {value.weaker.length > 0 && <Weaker plan={value} />}
      <ul class="changes">
        {value.changes.map((change, index) => (
          <li key={index} class="panel">
            <h3>
              <span class={`change ${change.change}`}>{change.change}</span> <Text of={placeOf(change)} mono />
            </h3>
            {change.fields.length > 0 && <Fields fields={change.fields} />}
          </li>
        ))}
      </ul>
      {value.moves.length > 0 && (
        <>
          <h3>Requests that go elsewhere</h3>
          <ul>
            {value.moves.map(({ requests, from, to }, index) => (
              <li key={index}>
                <Text of={requests} />: from <Text of={from} /> to <Text of={to} />
              </li>
            ))}
          </ul>
        </>
      )}
      {value.unreached.length > 0 && (
        <>
          <h3>Nothing reaches any more</h3>
          <ul>
            {value.unreached.map((text, index) => (
              <li key={index}>
                <Text of={text} />
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

/** Where it is in the file. */
const placeOf = ({ part, name }: { part: string; name: string | null }) => (name === null ? part : `${part}.${name}`);

function Weaker({ plan: { weaker } }: { plan: Plan }) {
  return (
    <div class="notice bad weaker">
      <h3>
        <State tone="bad">{weaker.length === 1 ? "One thing becomes weaker" : `${weaker.length} things become weaker`}</State>
      </h3>
      <ul>
        {weaker.map(({ part, name, what, requests }, index) => (
          <li key={index}>
            <b>
              <Text of={placeOf({ part, name })} mono />
            </b>
            : <Text of={what} />
            {requests !== null && (
              <>
                {" "}
                (<Text of={requests} />)
              </>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Fields({ fields }: { fields: FieldChange[] }) {
  return (
    <dl class="fields">
      {fields.map(({ field, old, new: now, weaker }, index) => (
        <div key={index} class={weaker ? "weaker" : undefined}>
          <dt>
            <Text of={field} mono />
          </dt>
          <dd>
            {old !== null && (
              <del>
                <Text of={old} mono />
              </del>
            )}
            {old !== null && now !== null && <span aria-hidden="true"> → </span>}
            {now !== null && (
              <ins>
                <Text of={now} mono />
              </ins>
            )}
            {weaker && (
              <>
                {" "}
                <State tone="bad">weaker</State>
              </>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}
