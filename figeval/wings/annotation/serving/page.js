// The page of `figeval annotate serve`. Every text from outside becomes a text node; nothing is inserted as HTML.
"use strict";

const MAX_BUTTONS = 11; // longer scales are a list
const MAX_WORDS = 4; // labels that are chosen by their initials
const MAX_CHARS_BESIDE_TEXT = 2; // of a name, such as the letter of an option

const at = (id) => document.getElementById(id);
const parameters = new URLSearchParams(location.hash.slice(1)); // token, and the annotator once there is one
let work = null; // what the server has sent: annotator, instructions, criteria, items with answers
let itemIndex = 0; // the item on the page
let criterionIndex = 0; // the criterion that keys answer
let isRead = false; // the instructions, which are closed once when the annotator leaves the first item
let sending = Promise.resolve(); // answers are sent one after the other, so that the last one counts

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function complain(text) {
  at("alert").textContent = text;
  at("alert").hidden = !text;
}

async function request(path, options = {}) {
  let reply;
  try {
    reply = await fetch(path, { ...options, headers: { ...options.headers, authorization: `Bearer ${parameters.get("token")}` } });
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
  const name = only || parameters.get("annotator");
  if (name) return open(name);
  at("known").replaceChildren(...known.map((value) => element("option", { value })));
  at("start").hidden = false;
  at("name").focus();
}

async function open(name) {
  work = await request(`/api/items?${new URLSearchParams({ annotator: name })}`);
  parameters.set("annotator", work.annotator);
  history.replaceState(null, "", `#${parameters}`);
  at("start").hidden = true;
  at("work").hidden = false;
  at("instructions-text").textContent = work.instructions;
  at("instructions").hidden = !work.instructions;
  complain("");
  go(Math.max(0, work.items.findIndex((item) => !isComplete(item))));
}

// ---- the item -------------------------------------------------------------------------------------------------------

const isComplete = (item) => work.criteria.every((criterion) => item.answers[criterion.name]);

function go(index) {
  const before = itemIndex;
  itemIndex = Math.min(Math.max(index, 0), work.items.length - 1);
  if (itemIndex !== before && !isRead) {
    isRead = true;
    at("instructions").open = false;
  }
  const item = work.items[itemIndex];
  const texts = item.fields.filter(([name]) => work.beside.includes(name)).map(([name, text]) => part(name, text));
  const inputs = item.fields.filter(([name]) => !work.beside.includes(name)).map(([name, text]) => part(name, text));
  at("texts").replaceChildren(...inputs, ...(texts.length ? [element("div", { className: "beside" }, ...texts)] : []));
  at("answers").replaceChildren(...work.criteria.map(question));
  at("comment").value = item.draft ?? item.answers.comment ?? "";
  at("comment").onchange = () => {
    item.draft = at("comment").value; // stays on the page, saved or not
    answer(item, { name: "comment" }, item.draft);
  };
  at("status").textContent = "";
  const open = work.criteria.findIndex((criterion) => !item.answers[criterion.name]);
  turnTo(open);
  at("position").focus({ preventScroll: true });
  scrollTo(0, 0); // a new text is read from its beginning
  if (open > 0) showQuestion();
}

function part(name, text) {
  const node = element("div", {}, element("h2", { dir: "auto", textContent: name }), element("p", { dir: "auto", textContent: text }));
  node.className = [...name].length <= MAX_CHARS_BESIDE_TEXT && !work.beside.includes(name) ? "short" : "";
  return node;
}

function question(criterion, index) {
  const item = work.items[itemIndex];
  const choose = (label) => answer(item, criterion, label);
  const choices = element("div", { className: "labels" });
  if (criterion.labels.length > MAX_BUTTONS) {
    const list = element("select", { onchange: () => choose(list.value) }, ...["", ...criterion.labels].map((label) => element("option", { value: label, textContent: label || "–" })));
    list.setAttribute("aria-label", criterion.name);
    choices.append(list);
  } else {
    for (const label of criterion.labels) {
      const input = element("input", { type: "radio", name: `criterion-${index}`, value: label, onchange: () => choose(label) });
      const choice = element("label", {}, input, element("span", { dir: "auto", textContent: label }));
      const key = keyOf(label, criterion.labels.indexOf(label), criterion.labels);
      if (key && key !== label) choice.append(element("kbd", { textContent: key, ariaHidden: "true" }));
      choices.append(choice);
    }
    const clear = element("button", { type: "button", className: "clear", textContent: "Clear", onclick: () => choose("") });
    clear.setAttribute("aria-label", `Clear ${criterion.name}`);
    choices.append(clear);
  }
  const legend = element("legend", { dir: "auto", textContent: criterion.name });
  const fieldset = element("fieldset", {}, legend);
  if (criterion.description) {
    const id = `description-${index}`;
    fieldset.append(element("p", { id, className: "description", dir: "auto", textContent: criterion.description }));
    fieldset.setAttribute("aria-describedby", id);
  }
  fieldset.append(choices);
  fieldset.addEventListener("focusin", () => turnTo(index));
  return fieldset;
}

function turnTo(index) {
  criterionIndex = Math.min(Math.max(index, 0), work.criteria.length - 1);
  at("labels").textContent = work.criteria[criterionIndex].labels.map(keyOf).filter(Boolean).join(", ");
  update();
}

// Scroll to the question that keys answer, or to the buttons below after the last one, unless they can be seen.
function showQuestion(isPastLast = false) {
  const target = isPastLast ? document.querySelector("nav") : at("answers").children[criterionIndex];
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
  target.scrollIntoView({ block: "nearest", behavior });
}

// Show the state of the answers, which is what the server has stored.
function update() {
  const item = work.items[itemIndex];
  const answered = work.items.filter(isComplete).length;
  at("position").textContent = `Item ${itemIndex + 1} of ${work.items.length}`;
  at("who").textContent = `${answered} answered · ${work.annotator}`;
  at("progress").max = work.items.length;
  at("progress").value = answered;
  at("done").hidden = answered < work.items.length;
  at("open").hidden = answered === work.items.length;
  at("back").disabled = itemIndex === 0;
  at("next").disabled = itemIndex === work.items.length - 1;
  at("next").textContent = isComplete(item) ? "Next →" : "Skip →";
  [...at("answers").children].forEach((fieldset, index) => {
    const label = item.answers[work.criteria[index].name] || "";
    fieldset.classList.toggle("current", index === criterionIndex && work.criteria.length > 1);
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
      const shown = stored.criterion === "comment" ? "" : `: ${stored.label || "no answer"}`;
      at("status").textContent = `${stored.criterion}${shown}, saved`;
      complain("");
    } catch (error) {
      complain(`Not saved. ${error.message}`);
    }
    update();
  });
  return sending;
}

// ---- keys -----------------------------------------------------------------------------------------------------------

// The key that chooses a label: the label itself if it is one character, the initial of a word whose initial is its own
// (y and n for yes and no, T for tie beside A and B), else its number, unless that is another label.
function keyOf(label, index, labels) {
  if ([...label].length === 1) return label;
  const initials = labels.map((other) => [...other][0].toLowerCase());
  const isWordScale = labels.length <= MAX_WORDS && new Set(initials).size === labels.length && initials.every((initial) => /\p{L}/u.test(initial));
  const isOwn = initials.filter((other) => other === initials[index]).length === 1;
  if (work.beside.length && isOwn) return initials[index].toUpperCase();
  if (isWordScale) return initials[index];
  return numberOf(index, labels);
}

// The number of a label, which chooses it as well.
const numberOf = (index, labels) => (index < 9 && !labels.some((other) => /^\d$/.test(other)) ? String(index + 1) : "");

// The index of the label that a key chooses, -1 for none.
function labelIndex(key, labels) {
  const index = labels.findIndex((label, i) => keyOf(label, i, labels).toLowerCase() === key.toLowerCase());
  return index < 0 ? labels.findIndex((label, i) => numberOf(i, labels) === key) : index;
}

function press(event) {
  if (!work || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target === at("comment")) at("position").focus({ preventScroll: true }); // which stores the comment
  if (event.target.matches("select, textarea, input:not([type=radio])")) return;
  const { labels } = work.criteria[criterionIndex];
  const index = labelIndex(event.key, labels);
  const vertical = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (event.key === "ArrowLeft") go(itemIndex - 1);
  else if (event.key === "ArrowRight") go(itemIndex + 1);
  else if (vertical && !event.target.matches("input") && work.criteria.length > 1) {
    turnTo(criterionIndex + vertical);
    showQuestion();
  } else if (index >= 0) {
    const isLast = criterionIndex === work.criteria.length - 1;
    answer(work.items[itemIndex], work.criteria[criterionIndex], labels[index]);
    turnTo(criterionIndex + 1);
    showQuestion(isLast);
  } else if (event.key === "c") at("comment").focus();
  else if (event.key === "?") at("keys").open = !at("keys").open;
  else return;
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
at("back").addEventListener("click", () => go(itemIndex - 1));
at("next").addEventListener("click", () => go(itemIndex + 1));
at("open").addEventListener("click", () => go(work.items.findIndex((item) => !isComplete(item))));
addEventListener("keydown", press);
addEventListener("focus", refresh);
addEventListener("hashchange", () => location.reload());
guarded(begin)();
