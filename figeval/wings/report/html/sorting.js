// Tables that are sorted by the buttons in their heads. The pages show everything without this script.
"use strict";

const INITIAL = new WeakMap(); // table → its rows in the order in which the page was written

/** Return the number or the text by which a row is sorted; empty cells come last in both directions. */
function keyOf(row, column, isNumber) {
  const cell = row.cells[column];
  if (cell.dataset.value) return Number(cell.dataset.value);
  const text = cell.textContent.trim();
  const number = isNumber ? Number.parseFloat(text.replace(/^[<≤]\s*/, "").replaceAll(",", "")) : NaN;
  return Number.isNaN(number) ? text.toLowerCase() : number;
}

function compare(a, b, sign) {
  const [first, second] = [a === "" || a === "–", b === "" || b === "–"];
  if (first || second) return first - second;
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Sort a table by a column: in one direction, in the other, and as it was. */
function sort(head) {
  const [row, table] = [head.parentElement, head.closest("table")];
  const body = table.tBodies[0];
  const column = [...row.cells].indexOf(head);
  const isNumber = head.classList.contains("number");
  const isRank = head.textContent.trim() === "rank"; // the best rank is the lowest, the best score usually the highest
  const [first, second] = isNumber && !isRank ? ["descending", "ascending"] : ["ascending", "descending"];
  const direction = { [first]: second, [second]: "none" }[head.getAttribute("aria-sort")] ?? first;
  for (const cell of row.cells) if (cell.hasAttribute("aria-sort")) cell.setAttribute("aria-sort", cell === head ? direction : "none");
  if (!INITIAL.has(table)) INITIAL.set(table, [...body.rows]);
  const rows = [...INITIAL.get(table)];
  table.classList.toggle("sorted", direction !== "none");
  if (direction !== "none") {
    const keys = new Map(rows.map((line) => [line, keyOf(line, column, isNumber)]));
    rows.sort((a, b) => compare(keys.get(a), keys.get(b), direction === "ascending" ? 1 : -1));
  }
  body.append(...rows);
}

function makeSortable(head) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  head.setAttribute("aria-sort", "none");
  button.addEventListener("click", () => sort(head));
}
