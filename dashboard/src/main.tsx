// The dashboard of the gateway. Loaded before the body is drawn, so that colours are right from the first picture on.

import { render } from "preact";
import { App } from "./app";
import { follow } from "./live";
import { applySettings } from "./settings";

applySettings();
addEventListener("DOMContentLoaded", () => {
  follow();
  render(<App />, document.getElementById("page")!);
});
