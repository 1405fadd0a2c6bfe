// The sample explorer of `figeval report`, its tables and its list of tasks. Texts of models and benchmarks are set with textContent only.
"use strict";

const ROW = 52; // height of a row in pixels, as in report.css
const MARGIN = 6; // rows that are drawn above and below the visible ones
const MOST_OPTIONS = 12; // a longer list shows only the options that are right or were chosen

const page = document.documentElement;
window.addEventListener("error", (event) => { page.dataset.error = event.message; });
window.addEventListener("unhandledrejection", (event) => { page.dataset.error = String(event.reason); });

const $ = (id) => document.getElementById(id);

/** Make an element with text; `children` are elements or strings. */
function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children.filter((child) => child !== null)); // strings become text nodes
  return node;
}

/** Decompress the JSON of one task: base64 of gzip. */
async function unpack(element) {
  const packed = Uint8Array.from(atob(JSON.parse(element.textContent)), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const explorer = {
  columns: JSON.parse($("columns").textContent), // of each run its label, colour and whether it is a mean over seeds; `whole` is that mean, or the run
  blocks: new Map([...document.querySelectorAll("script.task")].map((block) => [block.dataset.task, block])),
  loaded: new Map(),
  task: null, // the content of the selected task
  samples: [], // indexes of the samples that pass the filters
  current: -1, // position in `samples` of the selected sample
  controls: {},
  pending: 0, // timer of the next change of the address
};

const labelOf = (run) => explorer.columns[run].label;
const colourOf = (run) => `run-${explorer.columns[run].colour}`;

/** Return the content of a task, with a lower-case text of each sample to search in. */
async function load(name) {
  if (!explorer.loaded.has(name)) {
    const task = await unpack(explorer.blocks.get(name));
    const columns = [...Object.values(task.fields), ...Object.values(task.meta), ...task.runs.map((run) => run.reply ?? [])];
    task.haystack = task.ids.map((id, i) => {
      const texts = columns.map((column) => column[i]).filter((value) => typeof value === "string" || Array.isArray(value));
      return [id, ...texts.flat()].join("\n").toLowerCase();
    });
    task.indexes = new Map(task.ids.map((id, i) => [id, i]));
    explorer.loaded.set(name, task);
  }
  return explorer.loaded.get(name);
}

/** Say how an answer is judged: right, wrong, partly right or none. */
function judge(run, i) {
  const status = run.status[i];
  if (status === null) return { key: "absent", text: "not asked", style: "none" };
  if (status !== "ok") return { key: "unanswered", text: status, style: "none" };
  const value = run.value[i];
  const { metric, binary } = explorer.task;
  const key = value === 1 ? "right" : value === 0 ? "wrong" : "between";
  if (value === null) return { key, text: "not scored", style: "none" };
  if (!binary) return { key, text: `${metric} ${value}`, style: "none" };
  if (key === "between") return { key, text: `tie: ${value}`, style: "none" };
  return key === "right" ? { key, text: "✓ right", style: key } : { key, text: "✗ wrong", style: key };
}

// ---- filters ------------------------------------------------------------------------------------------------------

/** Add a filter; `style` marks the filter of a run with its colour. */
function select(label, options, style = "") {
  const control = make("select", "");
  for (const [value, text] of options) {
    const option = make("option", "", text);
    option.value = value;
    control.append(option);
  }
  $("filters").append(make("label", "", make("span", style, label), control));
  return control;
}

function buildFilters() {
  const { controls, columns } = explorer;
  controls.task = select("Task", [...explorer.blocks].map(([name, block]) => [name, `${name} (${block.dataset.n})`]));
  controls.search = make("input", "");
  controls.search.type = "search";
  controls.search.placeholder = "words in texts, replies and ids";
  $("filters").append(make("label", "wide", "Search", controls.search));
  const judgements = [["", "any"], ["right", "right"], ["wrong", "wrong"], ["between", "in between"], ["unanswered", "no valid answer"]];
  const scoredRuns = [...columns.keys()].filter((run) => !columns[run].mean).sort((a, b) => columns[a].whole - columns[b].whole);
  controls.judged = new Map(scoredRuns.map((run) => [run, select(labelOf(run), judgements, `run ${colourOf(run)}`)]));
  controls.status = select("Status", [["", "any"]]);
  controls.kinds = make("span", "kinds"); // filled for each task
  $("filters").append(controls.kinds);
  controls.differ = select("Runs", [["", "any"], ["differ", "judged differently"]]);
  if (scoredRuns.length < 2) controls.differ.parentElement.hidden = true;
  controls.clear = make("button", "", "Clear filters");
  controls.clear.type = "button";
  $("filters").append(controls.clear);
  controls.clear.addEventListener("click", () => { clearFilters(); filter(); });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("input", (event) => event.target !== controls.task && filter());
  controls.task.addEventListener("change", () => open(controls.task.value));
}

function clearFilters() {
  const { controls } = explorer;
  for (const control of [controls.search, controls.status, controls.differ, ...controls.judged.values(), ...kindFilters()]) control.value = "";
}

const kindFilters = () => [...explorer.controls.kinds.querySelectorAll("select")];

/** Make a filter for each key by which the options of the task are of different kinds. */
function buildKindFilters() {
  const { controls, task } = explorer;
  controls.kinds.replaceChildren();
  for (const [key, column] of Object.entries(task.kinds ?? {})) {
    const kinds = [...new Set(column.flatMap((kind) => kind ?? []))].filter((kind) => kind !== null).sort();
    const control = select(`Chosen ${key}`, [["", "any"], ...kinds.map((kind) => [kind, kind])]);
    control.dataset.key = key;
    controls.kinds.append(control.parentElement);
  }
}

/** Apply the filters to the current task; keep the selected sample if it still passes. */
function filter() {
  const { controls, task } = explorer;
  const words = controls.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = task.runs.map((run) => [run, controls.judged.get(run.run).value]).filter(([, key]) => key);
  const status = controls.status.value;
  const kinds = kindFilters().filter((control) => control.value).map((control) => [task.kinds[control.dataset.key], control.value]);
  const selected = explorer.samples[explorer.current];
  explorer.samples = [];
  for (let i = 0; i < task.ids.length; i++) {
    if (words.length && !words.every((word) => task.haystack[i].includes(word))) continue;
    if (!wanted.every(([run, key]) => judge(run, i).key === key)) continue;
    if (status && !task.runs.some((run) => run.status[i] === status)) continue;
    if (controls.differ.value && new Set(task.runs.map((run) => judge(run, i).key)).size < 2) continue;
    if (!kinds.every(([column, kind]) => task.runs.some((run) => column[i]?.[run.pred[i]] === kind))) continue;
    explorer.samples.push(i);
  }
  const total = task.ids.length.toLocaleString("en");
  $("match-count").textContent = `${explorer.samples.length.toLocaleString("en")} of ${total} samples`;
  const rightCounts = task.binary
    ? task.runs.map((run) => {
        const count = explorer.samples.filter((i) => judge(run, i).key === "right").length;
        return make("span", `run ${colourOf(run.run)}`, `${labelOf(run.run)}: ${count.toLocaleString("en")} right`);
      })
    : [];
  $("right-counts").replaceChildren(...rightCounts);
  $("spacer").style.height = `${explorer.samples.length * ROW}px`;
  explorer.current = explorer.samples.indexOf(selected);
  draw();
}

// ---- the list, of which only the visible part is in the page --------------------------------------------------------

function draw() {
  const list = $("list");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - MARGIN);
  const last = Math.min(explorer.samples.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + MARGIN);
  const rows = [];
  for (let position = first; position < last; position++) rows.push(row(position));
  list.replaceChildren($("spacer"), ...rows);
  const active = explorer.current >= first && explorer.current < last ? `row-${explorer.current}` : "";
  if (active) list.setAttribute("aria-activedescendant", active);
  else list.removeAttribute("aria-activedescendant");
}

function row(position) {
  const { task, samples } = explorer;
  const i = samples[position];
  const judged = make("span", "judgements");
  for (const run of task.runs) {
    const judgement = judge(run, i);
    const mark = make("span", `run ${colourOf(run.run)} judgement ${judgement.style}`, judgement.text);
    mark.title = labelOf(run.run);
    judged.append(mark);
  }
  const item = make("div", "row", make("div", "line", make("span", "id", task.ids[i]), judged), make("div", "text", summary(task, i)));
  item.id = `row-${position}`;
  item.setAttribute("role", "option");
  item.setAttribute("aria-selected", String(position === explorer.current));
  item.setAttribute("aria-posinset", String(position + 1));
  item.setAttribute("aria-setsize", String(samples.length));
  item.style.top = `${position * ROW}px`;
  item.addEventListener("click", () => choose(position));
  return item;
}

/** Return one line about a sample: its first texts, or the first reply. */
function summary(task, i) {
  const texts = Object.values(task.fields).map((column) => column[i]).filter((value) => typeof value === "string");
  const replies = task.runs.map((run) => run.reply?.[i]).filter(Boolean);
  return (texts.length ? texts.slice(0, 2).join(" / ") : replies[0] ?? "").slice(0, 300);
}

function choose(position) {
  if (position < 0 || position >= explorer.samples.length) return;
  explorer.current = position;
  const list = $("list");
  if (position * ROW < list.scrollTop) list.scrollTop = position * ROW;
  if ((position + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (position + 1) * ROW - list.clientHeight;
  draw();
  const i = explorer.samples[position];
  showItem(i);
  clearTimeout(explorer.pending); // browsers limit how often the address may change
  explorer.pending = setTimeout(() => history.replaceState(null, "", address(explorer.task.task, explorer.task.ids[i])), 300);
}

const address = (task, id) => `#item=${encodeURIComponent(task)}/${encodeURIComponent(id)}`;

function onKey(event) {
  const onePage = Math.max(1, Math.floor($("list").clientHeight / ROW) - 1);
  const last = explorer.samples.length - 1;
  const moves = {
    ArrowDown: explorer.current + 1, ArrowUp: Math.max(0, explorer.current - 1), Home: 0, End: last,
    PageDown: Math.min(last, explorer.current + onePage), PageUp: Math.max(0, explorer.current - onePage),
  };
  if (event.key in moves) choose(moves[event.key]);
  else if (event.key === "Enter") $("item").focus();
  else return;
  event.preventDefault();
}

// ---- one sample -----------------------------------------------------------------------------------------------------

function showItem(i) {
  const { task } = explorer;
  const link = make("a", "small", "link to this sample");
  link.href = address(task.task, task.ids[i]);
  const texts = make("dl", "");
  for (const [name, column] of Object.entries(task.fields)) {
    const value = column[i];
    if (value === null || value === undefined) continue;
    texts.append(make("dt", "", name), make("dd", "", name === task.options ? options(i, listOf(value)) : coloured(i, name, listOf(value))));
  }
  const votes = task.votes?.[i];
  if (task.gold[i] !== null) texts.append(make("dt", "", votes ? "preferred" : "right answer"), make("dd", "", inWords(answer(task.gold[i], i))));
  if (votes) texts.append(make("dt", "", "votes"), make("dd", "", votes.map((count, index) => `${nameOf(index, i)}: ${count}`).join(" · ")));
  const meta = Object.entries(task.meta).filter(([, column]) => column[i] !== null).map(([name, column]) => `${name}: ${column[i]}`);
  if (meta.length) texts.append(make("dt", "", "columns"), make("dd", "small", meta.join(" · ")));
  const answers = make("div", "answers", ...task.runs.map((run) => answerOf(run, i)));
  const steps = make("span", "steps", step("← Previous", -1), step("Next →", 1));
  $("item").replaceChildren(make("h3", "", make("span", "id", task.ids[i]), link, steps), texts, answers);
  $("item").scrollTop = 0;
  $("samples").classList.add("selected"); // is printed
}

/** Make a button that turns to another sample of the list, and keeps the focus there. */
function step(text, distance) {
  const button = make("button", "", text);
  button.type = "button";
  button.disabled = !(explorer.current + distance in explorer.samples);
  button.addEventListener("click", () => {
    choose(explorer.current + distance);
    const buttons = $("item").querySelectorAll(".steps button");
    [buttons[distance < 0 ? 0 : 1], ...buttons].find((other) => !other.disabled)?.focus({ preventScroll: true });
  });
  return button;
}

const listOf = (value) => (typeof value === "number" ? explorer.task.lists[value] : value);
const inWords = (value) => (value === null || value === undefined ? "–" : typeof value === "string" ? value : Array.isArray(value) && value.every((part) => typeof part === "string") ? value.join(" · ") : JSON.stringify(value));

/** Return whether an index is that of the answer that the options are equal, which stands behind them. */
function isTie(index, i) {
  const { task } = explorer;
  return index === (listOf(task.fields[task.options]?.[i])?.length ?? task.votes?.[i]?.length - 1);
}

/** Return the short name of an answer: a label, or the number of an option. */
const nameOf = (index, i) => explorer.task.labels[index] ?? (isTie(index, i) ? "tie" : index + 1);

/** Return the text of a training example by its id, or the id if its text is not on the page. */
const trainingText = (id) => (Object.hasOwn(explorer.task.retrieved, id) ? explorer.task.retrieved[id] : id);

/** Return an answer in words: the option of an index, the passage of a span, a retrieved text, or the value itself. */
function answer(value, i, run) {
  const { task } = explorer;
  const list = listOf(task.fields[task.options]?.[i]);
  const unlisted = (index) => (isTie(index, i) ? task.fields.tie?.[i] ?? "tie" : `option ${index + 1}`);
  const named = (index) => (list?.[index] === undefined ? unlisted(index) : `${index + 1}. ${list[index]}`);
  if (Number.isInteger(value) && (list || task.options || !task.passage)) return named(value);
  if (Array.isArray(value) && value.length && value.every(Number.isInteger)) {
    const text = task.fields[task.passage]?.[i];
    if (list) return value.map(named).join(" · ");
    if (typeof text === "string" && isSpan(value)) return `“${[...text].slice(value[0], value[1]).join("")}”`;
  }
  const tokens = Object.values(task.fields).map((column) => listOf(column[i])).find((list) => Array.isArray(list) && isTags(value, list));
  if (tokens) {
    const letters = [...tokens.join(" ")];
    return taggedSpans(value, tokens).map(([start, end]) => `“${letters.slice(start, end).join("")}”`).join(" · ") || "no span";
  }
  if (typeof value === "string" && run?.retrieves) return trainingText(value);
  return wordsWithBits(value, i) ?? value;
}

/** Return the words of texts with the bits of each; undefined for another kind of answer. */
function wordsWithBits(value, i) {
  const scored = Object.entries(value ?? {}).filter(([name, pieces]) => pieces?.words && typeof explorer.task.fields[name]?.[i] === "string");
  const texts = scored.map(([name, { words }]) => {
    const letters = [...explorer.task.fields[name][i]];
    return words.map(([start, end, bits]) => `${letters.slice(start, end).join("")} ${bits === null ? "–" : bits.toFixed(1)}`).join(" · ");
  });
  return texts.length ? texts.join(" / ") : undefined;
}

// ---- spans ----------------------------------------------------------------------------------------------------------

const isSpan = (value) => Array.isArray(value) && value.length === 2 && value.every(Number.isInteger);
const isTags = (value, tokens) => Array.isArray(value) && value.length === tokens.length && value.every((part) => typeof part === "string");

/** Return the spans of labelled words in a text that joins the words with blanks. */
function taggedSpans(tags, tokens) {
  const spans = [];
  let start = 0;
  let before = "O";
  tokens.forEach((token, index) => {
    const end = start + [...token].length;
    const continues = before !== "O" && tags[index] !== "O" && !tags[index].startsWith("B-") && spans.length;
    if (continues) spans[spans.length - 1][1] = end;
    else if (tags[index] !== "O") spans.push([start, end]);
    before = tags[index];
    start = end + 1;
  });
  return spans;
}

/** Return a text in which the right spans are highlighted and the runs' spans are underlined in their colours. */
function coloured(i, name, value) {
  const { task } = explorer;
  if (typeof value === "string" && name === task.passage) {
    const gold = task.spans?.[i] ?? (isSpan(task.gold[i]) ? [task.gold[i]] : []);
    const spansByRun = task.runs.map((run) => run.spans?.[i] ?? (run.status[i] === "ok" && isSpan(run.pred[i]) ? [run.pred[i]] : []));
    return marked(value, gold, spansByRun.map((spans, index) => [task.runs[index].run, spans]));
  }
  if (typeof value === "string" && name === "known" && typeof task.fields.given?.[i] === "string") {
    const start = value.indexOf(task.fields.given[i]);
    const first = [...value.slice(0, Math.max(start, 0))].length;
    return start < 0 ? value : marked(value, [[first, first + [...task.fields.given[i]].length]], []);
  }
  if (Array.isArray(value) && isTags(task.gold[i], value)) {
    const tagged = task.runs.map((run) => [run.run, isTags(run.pred[i], value) ? taggedSpans(run.pred[i], value) : []]);
    return marked(value.join(" "), taggedSpans(task.gold[i], value), tagged);
  }
  return inWords(value);
}

function marked(text, gold, runs) {
  const letters = [...text]; // positions count characters as Python does, not UTF-16 units
  const edges = new Set([0, letters.length]);
  for (const spans of [gold, ...runs.map(([, runSpans]) => runSpans)]) for (const span of spans) span.forEach((edge) => edges.add(Math.min(edge, letters.length)));
  const places = [...edges].sort((a, b) => a - b);
  const box = make("span", "passage");
  for (let k = 0; k + 1 < places.length; k++) {
    const covers = (spans) => spans.some(([start, end]) => start <= places[k] && places[k + 1] <= end);
    let part = document.createTextNode(letters.slice(places[k], places[k + 1]).join(""));
    let depth = 0;
    for (const [run, spans] of runs) {
      if (covers(spans)) {
        part = make("span", `span ${colourOf(run)}`, part);
        part.title = labelOf(run);
        part.style.paddingBottom = `${1 + 4 * depth}px`;
      }
      depth += 1;
    }
    if (covers(gold)) part = make("mark", "", part);
    box.append(part);
  }
  const named = runs.filter(([, spans]) => spans.length).map(([run]) => make("span", `run ${colourOf(run)}`, labelOf(run)));
  if (!gold.length && !named.length) return text;
  if (!runs.length) return box; // the part of another text that is asked about
  const key = make("span", "key small", ...(gold.length ? [make("mark", "", "right")] : []), ...named);
  return make("span", "", box, key);
}

/** Return the options, with the right ones highlighted and the runs that chose them. */
function options(i, list) {
  const { task } = explorer;
  const gold = [task.gold[i]].flat();
  const items = make("ol", "");
  list.forEach((text, index) => {
    const runs = task.runs.filter((run) => run.pred[i] === index);
    const isGold = gold.includes(index);
    if (list.length > MOST_OPTIONS && !isGold && !runs.length) return;
    const kinds = Object.values(task.kinds ?? {}).map((column) => column[i]?.[index]).filter(Boolean);
    const item = make("li", isGold ? "gold" : "", text, kinds.length ? make("span", "small soft", ` (${kinds.join(", ")})`) : null);
    item.value = index + 1;
    for (const run of runs) item.append(make("span", `chosen run ${colourOf(run.run)}`, labelOf(run.run)));
    items.append(item);
  });
  if (list.length <= MOST_OPTIONS) return items;
  const options = make("div", "", items);
  options.append(make("div", "small", `${list.length} options; only those that are right or were chosen are shown`));
  return options;
}

/** Return the values with the number of times that each occurs. */
function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].map(([value, count]) => (count > 1 ? `${value} ×${count}` : value)).join(" · ");
}

function answerOf(run, i) {
  const { task } = explorer;
  const judgement = judge(run, i);
  const box = make("div", `answer ${colourOf(run.run)}`, make("div", "run", labelOf(run.run)), make("div", `judgement ${judgement.style}`, judgement.text));
  if (run.status[i] === "ok") box.append(make("div", "", inWords(answer(run.pred[i], i, run))));
  if (run.samples?.[i]) box.append(make("div", "small", `samples: ${counted(run.samples[i].map((sample) => (sample === null ? "no answer" : inWords(answer(sample, i, run)))))}`));
  if (run.retrieved?.[i]) box.append(make("div", "small", "added to the input, from: ", ...run.retrieved[i].flatMap((id, k) => [k ? " · " : "", trainingText(id)])));
  if (run.error?.[i]) box.append(make("div", "small", run.error[i]));
  if (run.reply?.[i]) box.append(make("pre", "", run.reply[i]));
  const scores = run.scores?.[i];
  if (scores && scores.length <= MOST_OPTIONS) {
    const labelledScores = scores.map((score, index) => `${nameOf(index, i)}: ${score ?? "NaN"}`);
    box.append(make("div", "small soft", `scores ${labelledScores.join(" · ")}`));
  }
  return box;
}

// ---- addresses ------------------------------------------------------------------------------------------------------

/** Show a task, and one of its samples if `id` is given. */
async function open(name, id) {
  explorer.task = await load(name);
  explorer.controls.task.value = name;
  explorer.current = -1;
  explorer.samples = [];
  const statuses = new Set(explorer.task.runs.flatMap((run) => run.status.filter(Boolean)));
  const { status, judged } = explorer.controls;
  const having = new Set(explorer.task.runs.map((run) => run.run));
  for (const [run, control] of judged) control.parentElement.hidden = !having.has(run);
  status.replaceChildren(...["", ...statuses].map((value) => { const option = make("option", "", value || "any"); option.value = value; return option; }));
  buildKindFilters();
  if (id !== undefined) clearFilters();
  $("list").scrollTop = 0;
  filter();
  $("samples").classList.remove("selected");
  $("item").replaceChildren(make("p", "soft", "Select a sample to see its texts and answers."));
  const sample = explorer.task.indexes.get(id);
  if (sample !== undefined) {
    choose(explorer.samples.indexOf(sample));
    $("samples").scrollIntoView();
  }
}

function follow() {
  const all = /^#samples=(.*)$/.exec(location.hash);
  const match = /^#item=([^/]+)\/(.*)$/.exec(location.hash) ?? all;
  if (!match) return false;
  let name, id;
  try {
    [name, id] = match.slice(1).map(decodeURIComponent);
  } catch {
    return false; // an address that was cut or mistyped
  }
  if (!explorer.blocks.has(name)) return false;
  open(name, id).then(() => all && $("samples").scrollIntoView());
  return true;
}

// ---- tables, the list of tasks, and paper ---------------------------------------------------------------------------

/** Make tables sortable, unless a row continues the one above it, or there is little to sort. */
function prepareTables() {
  document.querySelectorAll("#score-table th[data-sort]").forEach(makeSortable);
  for (const table of document.querySelectorAll("section table:not(#score-table, .two)")) {
    const rows = [...table.tBodies[0].rows];
    const isWhole = rows.every((row) => row.cells[0].textContent.trim());
    if (rows.length > 2 && isWhole) table.querySelectorAll("thead th").forEach((head) => head.textContent.trim() && makeSortable(head));
  }
}

/** Close the list of tasks when a task has been chosen, or the reader turns to something else. */
function prepareTaskList() {
  const list = $("tasks");
  if (!list) return;
  document.addEventListener("click", (event) => {
    if (event.target.closest("#tasks a") || !event.target.closest("#tasks")) list.open = false;
  });
  list.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    list.open = false;
    list.querySelector("summary").focus();
  });
}

/** Paper cannot be clicked: open what is closed, and close it again. */
function preparePrinting() {
  const closed = [];
  window.addEventListener("beforeprint", () => {
    closed.push(...document.querySelectorAll("details.printed:not([open])"));
    for (const details of closed) details.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const details of closed.splice(0)) details.open = false;
  });
}

async function begin() {
  prepareTables();
  prepareTaskList();
  preparePrinting();
  for (const link of document.querySelectorAll("a[data-image]")) link.href = link.closest("figure").querySelector("img").src;
  if (!explorer.blocks.size) return;
  buildFilters();
  $("list").addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  $("list").addEventListener("keydown", onKey);
  window.addEventListener("resize", draw);
  window.addEventListener("hashchange", follow);
  for (const button of document.querySelectorAll("button[data-judged]")) {
    button.addEventListener("click", async () => {
      await open(button.dataset.task);
      clearFilters();
      for (const pair of button.dataset.judged.split(" ")) {
        const [run, key] = pair.split(":");
        explorer.controls.judged.get(Number(run)).value = key;
      }
      filter();
      $("samples").scrollIntoView();
    });
  }
  if (!follow()) await open([...explorer.blocks.keys()][0]);
}

begin().then(() => { page.dataset.ready = "true"; });
