// Filters of `figeval board`. The page shows everything without this script.
"use strict";

const page = document.documentElement;
window.addEventListener("error", (event) => { page.dataset.error = event.message; });

const $ = (id) => document.getElementById(id);
const START = "#find=";

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
