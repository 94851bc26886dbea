// Puts fragments that the server has drawn into their elements. All text in them is escaped there,
// and the page's policy lets no markup run anything.
"use strict";

const address = document.body.dataset.events;
const sign = document.getElementById("link");
let source = null;
let again = 0;

function say(text, good) {
  if (sign.textContent !== text) sign.textContent = text;
  sign.classList.toggle("bad", !good);
}

function selected(place) {
  const chosen = document.getSelection();
  return chosen && !chosen.isCollapsed && place.contains(chosen.anchorNode);
}

// Fills an element, and keeps the reader's focus and place in it.
function fill(place, html) {
  const focus = place.contains(document.activeElement) ? document.activeElement : null;
  const link = focus && focus.getAttribute("href");
  const alike = () => [...place.querySelectorAll("a")].filter((each) => each.getAttribute("href") === link);
  const at = link ? alike().indexOf(focus) : 0; // a job on several GPUs has a link on each
  const old = place.querySelector("[data-end]");
  const top = old ? old.scrollTop : 0;
  const atEnd = !old || old.scrollHeight - old.scrollTop - old.clientHeight < 24;
  place.innerHTML = html;
  const box = place.querySelector("[data-end]");
  if (box) box.scrollTop = atEnd ? box.scrollHeight : top;
  if (link) {
    const same = alike()[at] || alike()[0];
    if (same) same.focus({ preventScroll: true });
  } else if (focus && box && focus.matches("[data-end]")) {
    box.focus({ preventScroll: true });
  }
}

const late = new Map();

function show(fragments) {
  for (const [name, html] of Object.entries(fragments)) late.set(name, html);
  for (const [name, html] of late) {
    if (name === "title") {
      document.title = `${html} · radrm`;
    } else {
      const place = document.getElementById(name);
      if (place && selected(place)) continue; // until the reader has copied it
      if (place) fill(place, html);
    }
    late.delete(name);
  }
}

function listen() {
  clearTimeout(again);
  if (source) source.close();
  if (document.hidden) return;
  source = new EventSource(address);
  source.onmessage = (event) => {
    say("live", true);
    show(JSON.parse(event.data));
  };
  source.onerror = () => {
    say(source.readyState === EventSource.CLOSED ? "not live; reload the page" : "reconnecting", false);
    if (source.readyState === EventSource.CLOSED) again = setTimeout(listen, 10000);
  };
}

// A hidden page asks for nothing: browsers allow few connections to one server.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    listen();
  } else if (source) {
    source.close();
  }
});
addEventListener("pagehide", () => source && source.close());
addEventListener("pageshow", (event) => event.persisted && listen());

for (const box of document.querySelectorAll("[data-end]")) box.scrollTop = box.scrollHeight;
listen();
