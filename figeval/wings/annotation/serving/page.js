// The page of `figeval annotate serve`. Every text from outside becomes a text node; nothing is inserted as HTML.
"use strict";

const MOST_BUTTONS = 11; // labels that are shown as buttons; longer scales are a list
const SHORT = 2; // characters of a name that stands beside its text, such as the letter of an option

const at = (id) => document.getElementById(id);
const place = new URLSearchParams(location.hash.slice(1)); // token, and the annotator once there is one
let work = null; // what the server has sent: annotator, instructions, criteria, items with answers
let shown = 0; // place of the item on the page
let current = 0; // place of the criterion that keys answer
let isRead = false; // the instructions, which are closed once when the annotator leaves the first item
let sending = Promise.resolve(); // answers are sent one after the other, so that the last one counts

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function complain(text) {
  at("alert").textContent = text;
  at("alert").hidden = !text;
}

async function request(path, options = {}) {
  let reply;
  try {
    reply = await fetch(path, { ...options, headers: { ...options.headers, authorization: `Bearer ${place.get("token")}` } });
  } catch {
    throw new Error("The server does not answer. Start it again, and open the address that it prints.");
  }
  const content = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(content.error || `The server answered with status ${reply.status}.`);
  return content;
}

// ---- the start ------------------------------------------------------------------------------------------------------

async function begin() {
  const { only, known } = await request("/api/annotators");
  const name = only || place.get("annotator");
  if (name) return open(name);
  at("known").replaceChildren(...known.map((value) => element("option", { value })));
  at("start").hidden = false;
  at("name").focus();
}

async function open(name) {
  work = await request(`/api/items?${new URLSearchParams({ annotator: name })}`);
  place.set("annotator", work.annotator);
  history.replaceState(null, "", `#${place}`);
  at("start").hidden = true;
  at("work").hidden = false;
  at("told").textContent = work.instructions;
  at("instructions").hidden = !work.instructions;
  complain("");
  go(Math.max(0, work.items.findIndex((item) => !isComplete(item))));
}

// ---- the item -------------------------------------------------------------------------------------------------------

const isComplete = (item) => work.criteria.every((one) => item.answers[one.name]);

function go(to) {
  const before = shown;
  shown = Math.min(Math.max(to, 0), work.items.length - 1);
  if (shown !== before && !isRead) {
    isRead = true;
    at("instructions").open = false;
  }
  const item = work.items[shown];
  at("texts").replaceChildren(...item.fields.map(([name, text]) => part(name, text)));
  at("answers").replaceChildren(...work.criteria.map(question));
  at("status").textContent = "";
  turnTo(work.criteria.findIndex((one) => !item.answers[one.name]));
  at("place").focus({ preventScroll: true });
  scrollTo(0, 0);
}

function part(name, text) {
  const made = element("div", {}, element("h2", { dir: "auto", textContent: name }), element("p", { dir: "auto", textContent: text }));
  made.className = [...name].length <= SHORT ? "short" : "";
  return made;
}

function question(criterion, index) {
  const item = work.items[shown];
  const choose = (label) => answer(item, criterion, label);
  const choices = element("div", { className: "labels" });
  if (criterion.labels.length > MOST_BUTTONS) {
    const list = element("select", { onchange: () => choose(list.value) }, ...["", ...criterion.labels].map((label) => element("option", { value: label, textContent: label || "–" })));
    list.setAttribute("aria-label", criterion.name);
    choices.append(list);
  } else {
    for (const label of criterion.labels) {
      const input = element("input", { type: "radio", name: `criterion-${index}`, value: label, onchange: () => choose(label) });
      const made = element("label", {}, input, element("span", { dir: "auto", textContent: label }));
      const key = keyOf(label, criterion.labels.indexOf(label), criterion.labels);
      if (key && key !== label) made.append(element("kbd", { textContent: key, ariaHidden: "true" }));
      choices.append(made);
    }
    const clear = element("button", { type: "button", className: "clear", textContent: "Clear", onclick: () => choose("") });
    clear.setAttribute("aria-label", `Clear ${criterion.name}`);
    choices.append(clear);
  }
  const legend = element("legend", { dir: "auto", textContent: criterion.name });
  const made = element("fieldset", {}, legend);
  if (criterion.description) {
    const id = `description-${index}`;
    made.append(element("p", { id, className: "description", dir: "auto", textContent: criterion.description }));
    made.setAttribute("aria-describedby", id);
  }
  made.append(choices);
  made.addEventListener("focusin", () => turnTo(index));
  return made;
}

function turnTo(index) {
  current = Math.min(Math.max(index, 0), work.criteria.length - 1);
  at("labels").textContent = work.criteria[current].labels.map(keyOf).filter(Boolean).join(", ");
  update();
}

// Show the state of the answers, which is what the server has stored.
function update() {
  const item = work.items[shown];
  const answered = work.items.filter(isComplete).length;
  at("place").textContent = `Item ${shown + 1} of ${work.items.length}`;
  at("who").textContent = `${answered} answered · ${work.annotator}`;
  at("progress").max = work.items.length;
  at("progress").value = answered;
  at("done").hidden = answered < work.items.length;
  at("open").hidden = answered === work.items.length;
  at("back").disabled = shown === 0;
  at("next").disabled = shown === work.items.length - 1;
  at("next").textContent = isComplete(item) ? "Next →" : "Skip →";
  [...at("answers").children].forEach((fieldset, index) => {
    const label = item.answers[work.criteria[index].name] || "";
    fieldset.classList.toggle("current", index === current && work.criteria.length > 1);
    for (const input of fieldset.querySelectorAll("input")) input.checked = input.value === label;
    for (const list of fieldset.querySelectorAll("select")) list.value = label;
    for (const clear of fieldset.querySelectorAll(".clear")) clear.hidden = !label;
  });
}

function answer(item, criterion, label) {
  const body = JSON.stringify({ annotator: work.annotator, item: item.item, criterion: criterion.name, label });
  sending = sending.then(async () => {
    try {
      const stored = await request("/api/answers", { method: "POST", headers: { "content-type": "application/json" }, body });
      item.answers[stored.criterion] = stored.label;
      at("status").textContent = `${stored.criterion}: ${stored.label || "no answer"}, saved`;
      complain("");
    } catch (error) {
      complain(`Not saved. ${error.message}`);
    }
    update();
  });
  return sending;
}

// ---- keys -----------------------------------------------------------------------------------------------------------

// The key that chooses a label: the label itself if it is one character, else its number, unless that is another label.
function keyOf(label, index, labels) {
  if ([...label].length === 1) return label;
  return index < 9 && !labels.some((one) => /^\d$/.test(one)) ? String(index + 1) : "";
}

function press(event) {
  if (!work || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input:not([type=radio])")) return;
  const { labels } = work.criteria[current];
  const index = labels.findIndex((label, place) => keyOf(label, place, labels).toLowerCase() === event.key.toLowerCase());
  const vertical = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (event.key === "ArrowLeft") go(shown - 1);
  else if (event.key === "ArrowRight") go(shown + 1);
  else if (vertical && !event.target.matches("input") && work.criteria.length > 1) {
    turnTo(current + vertical);
  } else if (index >= 0) {
    answer(work.items[shown], work.criteria[current], labels[index]);
    turnTo(current + 1);
  } else return;
  event.preventDefault();
}

// Another tab may have stored answers of the same annotator. They are asked for in turn with the sending of answers: a
// reply from before the last answer would take that answer off the page.
function refresh() {
  if (!work) return;
  sending = sending.then(async () => {
    try {
      const { items } = await request(`/api/items?${new URLSearchParams({ annotator: work.annotator })}`);
      const answers = new Map(items.map((item) => [item.item, item.answers]));
      for (const item of work.items) item.answers = answers.get(item.item) || {};
      update();
    } catch (error) {
      if (at("alert").hidden) complain(error.message); // "Not saved" stays
    }
  });
}

const guarded = (action) => (...values) => action(...values).catch((error) => complain(error.message));

at("start").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(open)(at("name").value);
});
at("answers").addEventListener("submit", (event) => event.preventDefault());
at("back").addEventListener("click", () => go(shown - 1));
at("next").addEventListener("click", () => go(shown + 1));
at("open").addEventListener("click", () => go(work.items.findIndex((item) => !isComplete(item))));
addEventListener("keydown", press);
addEventListener("focus", refresh);
addEventListener("hashchange", () => location.reload());
guarded(begin)();
