// The slider: it only looks up the row that the server has worked out.
"use strict";
(function () {
  const rows = Array.from(document.querySelectorAll("#scale tbody tr"), (row) => Array.from(row.cells, (cell) => cell.textContent));
  const [range, field, right, ever] = ["range", "epsilon", "right", "ever"].map((id) => document.getElementById(id));
  const nearest = () => {
    const wanted = Math.log(parseFloat(field.value));
    const far = rows.map((row) => Math.abs(Math.log(parseFloat(row[0])) - wanted));
    return far.indexOf(Math.min(...far));
  };
  const say = (at) => {
    right.textContent = rows[at][1];
    ever.textContent = rows[at][2];
    range.setAttribute("aria-valuetext", "epsilon " + rows[at][0] + ", right at most " + rows[at][1]);
  };
  range.addEventListener("input", () => { field.value = rows[range.value][0]; say(range.value); });
  field.addEventListener("input", () => { if (parseFloat(field.value) > 0) { range.value = nearest(); say(range.value); } });
  document.getElementById("slider").hidden = false;
  if (parseFloat(field.value) > 0) { range.value = nearest(); range.setAttribute("aria-valuetext", "epsilon " + field.value + ", right at most " + right.textContent); }
  document.querySelectorAll('input[name="method"]').forEach((radio) => radio.addEventListener("change", () => { document.getElementById("other").value = ""; }));
})();
