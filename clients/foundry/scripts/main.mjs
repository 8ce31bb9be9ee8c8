// What Foundry VTT loads: see foundry.mjs.

import { install } from "./foundry.mjs";

install(globalThis);
