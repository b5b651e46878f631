// Keeps open pages of the queue up to date. Everything here is also on the page after a reload.
"use strict";
(function () {
  if (!window.EventSource) return;
  const source = new EventSource("/runs/events");
  const put = (place, name, text) => {
    const found = place.querySelector('[data-live="' + name + '"]');
    if (found && text !== null && text !== undefined && found.textContent !== text) found.textContent = text;
  };
  const update = (row) => {
    const place = document.querySelector('[data-job="' + row.id + '"]');
    if (!place) return false;
    if (place.dataset.state !== row.state) return true;
    const counted = row.total && row.done !== null && row.done !== undefined;
    put(place, "stage", row.stage);
    put(place, "count", counted ? row.done + " of " + row.total : "");
    put(place, "note", row.note);
    const bar = place.querySelector("progress") || (place.parentElement && place.parentElement.querySelector("progress"));
    if (bar && row.percent !== null) bar.value = row.percent;
    const picture = place.querySelector('[data-live="picture"]');
    if (picture && row.picture) {
      const address = "/runs/" + row.id + "/preview.png?" + row.picture;
      if (picture.getAttribute("src") !== address) picture.setAttribute("src", address);
      picture.closest("figure").hidden = false;
    }
    return false;
  };
  let rows = null;
  source.onmessage = (event) => {
    const told = JSON.parse(event.data);
    const gallery = location.pathname === "/audit" && rows !== null && rows !== event.data;
    rows = event.data;
    if (told.map(update).some(Boolean) || gallery) location.reload();
  };
  window.addEventListener("pagehide", () => source.close());
})();
