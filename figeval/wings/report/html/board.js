// Sorting and filtering of `figeval board`. The page shows everything without this script.
"use strict";

const page = document.documentElement;
window.addEventListener("error", (event) => { page.dataset.error = event.message; });

const $ = (id) => document.getElementById(id);
const START = "#find=";

// ---- sorting ------------------------------------------------------------------------------------------------------

/** Return the number or the text by which a row is sorted; empty cells come last in both directions. */
function keyOf(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.value) return Number(cell.dataset.value);
  return cell.textContent.trim().toLowerCase();
}

function compare(a, b, sign) {
  const [first, second] = [a === "" || a === "–", b === "" || b === "–"];
  if (first || second) return first - second;
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

function sort(head) {
  const [row, body] = [head.parentElement, head.closest("table").tBodies[0]];
  const column = [...row.cells].indexOf(head);
  const before = head.getAttribute("aria-sort");
  const isRank = head.textContent.trim() === "rank"; // the best rank is the lowest, the best score usually the highest
  const first = head.classList.contains("number") && !isRank ? "descending" : "ascending";
  const other = first === "descending" ? "ascending" : "descending";
  const direction = before === first ? other : first;
  for (const cell of row.cells) if (cell.hasAttribute("aria-sort")) cell.setAttribute("aria-sort", cell === head ? direction : "none");
  const keyedRows = [...body.rows].map((line) => [keyOf(line, column), line]);
  keyedRows.sort(([a], [b]) => compare(a, b, direction === "ascending" ? 1 : -1));
  body.append(...keyedRows.map(([, line]) => line));
}

function makeSortable(head) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  head.setAttribute("aria-sort", "none");
  button.addEventListener("click", () => sort(head));
}

// ---- filters ------------------------------------------------------------------------------------------------------

/** Show the rows whose own text or whose task has all words, and the tables that still have a run. */
function filter() {
  const words = $("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  let [runs, boards] = [0, 0];
  for (const section of document.querySelectorAll("section.benchmark")) {
    let shownBoards = 0;
    const isWanted = !$("benchmark").value || section.dataset.benchmark === $("benchmark").value;
    for (const board of section.querySelectorAll(".board")) {
      const about = `${section.dataset.benchmark} ${board.dataset.name ?? ""}`.toLowerCase();
      let boardRuns = 0;
      for (const row of board.querySelectorAll("tbody tr")) {
        const text = `${about} ${row.textContent.toLowerCase()}`;
        const isBaseline = row.classList.contains("baseline");
        row.hidden = isBaseline ? !$("baselines").checked : !words.every((word) => text.includes(word));
        if (!row.hidden && !isBaseline) boardRuns += 1;
      }
      board.hidden = !isWanted || boardRuns === 0 || (board.classList.contains("apart") && !$("apart").checked);
      if (!board.hidden) shownBoards += 1;
      if (!board.hidden && board.dataset.name) [runs, boards] = [runs + boardRuns, boards + 1];
    }
    section.hidden = shownBoards === 0;
  }
  $("match-count").textContent = `${runs.toLocaleString("en")} ${runs === 1 ? "result" : "results"} on ${boards.toLocaleString("en")} ${boards === 1 ? "leaderboard" : "leaderboards"}`;
}

/** Put the filters into the address, so that it is a link to this view. */
function remember() {
  const set = new URLSearchParams();
  if ($("words").value) set.set("words", $("words").value);
  if ($("benchmark").value) set.set("benchmark", $("benchmark").value);
  for (const id of ["baselines", "apart"]) if (!$(id).checked) set.set(id, "0");
  history.replaceState(null, "", set.size ? `${START}${set}` : "#");
}

function follow() {
  if (!location.hash.startsWith(START)) return;
  const set = new URLSearchParams(location.hash.slice(START.length));
  $("words").value = set.get("words") ?? "";
  $("benchmark").value = set.get("benchmark") ?? "";
  for (const id of ["baselines", "apart"]) $(id).checked = set.get(id) !== "0";
  filter();
}

document.querySelectorAll("th[data-sort]").forEach(makeSortable);
let pending = 0;
const changed = () => {
  filter();
  clearTimeout(pending); // browsers limit how often the address may change
  pending = setTimeout(remember, 300);
};
$("filters").addEventListener("input", changed);
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("filters").addEventListener("reset", () => setTimeout(changed));
window.addEventListener("hashchange", follow);
follow();
filter();
page.dataset.ready = "true";
