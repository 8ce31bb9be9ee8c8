// Small helpers for plain pages: elements, times, and texts that people read.

/** Make an element: props are its properties, "on..." handlers, aria-... attributes. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((x) => x !== null && x !== undefined));
  return element;
}

/** Replace what an element contains. Where the focus was inside, it stays on the element
 * with the same data-key, so that a table that is drawn anew can be used by keyboard. */
export function fill(element, ...children) {
  const active = document.activeElement;
  const key = element.contains(active) ? active.closest("[data-key]")?.dataset.key : null;
  element.replaceChildren(...children.flat().filter((x) => x !== null));
  if (key) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

/** A number of things: "1 tool", "2 tools". */
export const many = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

/** Milliseconds for people. */
export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 60_000) return `${(value / 60_000).toFixed(1)} min`;
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return `${Math.round(value * 10) / 10 >= 10 ? Math.round(value) : Math.round(value * 10) / 10} ms`;
}

/** A length of time for people: 90500 is "1 min 30 s". */
export function span(value) {
  const all = Math.max(0, Math.floor(value / 1000));
  const parts = [
    [Math.floor(all / 86400), "d"], [Math.floor(all / 3600) % 24, "h"],
    [Math.floor(all / 60) % 60, "min"], [all % 60, "s"],
  ].filter(([n]) => n);
  return parts.slice(0, 2).map(([n, unit]) => `${n} ${unit}`).join(" ") || "0 s";
}

export const clock = (at) => new Date(at).toLocaleTimeString([], { hour12: false });

/** Show a text for a while, and have screen readers say it. */
export function tell(text, kind = "") {
  const box = document.getElementById("told");
  const line = h("div", { className: `notice ${kind}` }, text);
  box.append(line);
  while (box.children.length > 4) box.firstChild.remove();
  setTimeout(() => line.remove(), kind === "bad" ? 15_000 : 6_000);
}

/** Ask in a dialog; resolves to the form's values, or null. */
export function ask(title, body, { ok = "OK", cancel = "Cancel" } = {}) {
  return new Promise((resolve) => {
    const form = h("form", { method: "dialog" },
      h("h2", { id: "dialog-title" }, title), body,
      h("div", { className: "row" },
        ok ? h("button", { className: "main", value: "ok" }, ok) : null,
        h("button", { value: "", formNoValidate: true }, cancel)));
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    const before = document.activeElement;
    dialog.addEventListener("close", () => {
      dialog.remove();
      before?.focus?.();
      resolve(dialog.returnValue === "ok" ? Object.fromEntries(new FormData(form)) : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Make buttons with role=tab show their panels: by click, and by arrow keys. */
export function tabs(list, show) {
  const all = [...list.querySelectorAll('[role="tab"]')];
  function choose(tab, focus) {
    for (const each of all) {
      const chosen = each === tab;
      each.setAttribute("aria-selected", chosen);
      each.tabIndex = chosen ? 0 : -1;
      document.getElementById(each.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) tab.focus();
    // No element has that id: the focus begins at the top of the page.
    history.replaceState(null, "", `#view-${tab.dataset.name}`);
    show(tab.dataset.name);
  }
  list.addEventListener("click", (event) => {
    const tab = event.target.closest('[role="tab"]');
    if (tab) choose(tab, false);
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(all[(all.indexOf(document.activeElement) + step + all.length) % all.length], true);
  });
  choose(all.find((tab) => `#view-${tab.dataset.name}` === location.hash) ?? all[0], false);
}
