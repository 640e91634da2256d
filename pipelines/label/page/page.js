"use strict";

// All that comes from files is shown by textContent, never as HTML. Addresses are relative: they begin with
// the token. A key counts only once the image that it is about is on the screen.

const $ = (id) => document.getElementById(id);
const LARGE = 2048; // longest side of an image that comes with fewer pixels than it has
const CLASS_KEYS = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"];

const state = {
  tab: sessionStorage.getItem("tab") || crypto.randomUUID(),
  classes: [],
  question: null,
  mode: "ask",
  isBusy: true,
  isReady: false,
  zoom: { scale: 1, x: 0, y: 0 },
  whole: "",
};
sessionStorage.setItem("tab", state.tab);

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function setBusy(isBusy) {
  state.isBusy = isBusy;
  document.body.setAttribute("aria-busy", String(isBusy));
}

function say(text) {
  $("message").textContent = text;
  $("message").hidden = !text;
}

// The server

async function call(path, given) {
  const options = given && { method: "POST", body: JSON.stringify({ tab: state.tab, ...given }) };
  let reply;
  try {
    reply = await fetch(path, options || {});
  } catch {
    throw new Error("The server does not answer. What was answered is kept. Start the command again, and open the address that it prints.");
  }
  if (reply.status === 403) throw new Error("This page is of an earlier start. Open the address that the command prints now.");
  const found = await reply.json();
  if (found.error) throw new Error(found.error);
  return found;
}

async function exchange(path, given) {
  if (state.isBusy) return null;
  setBusy(true);
  try {
    const found = await call(path, { mode: state.mode, who: $("who").value, ...given });
    say("");
    await show(found.question);
    showProgress();
    return found;
  } catch (error) {
    say(error.message);
    return null;
  } finally {
    setBusy(false);
  }
}

// Shows what can be said of the same image now; a key that is pressed meanwhile counts.
async function refresh() {
  try {
    const { question } = await call("question", { mode: state.mode });
    if (state.isBusy) return;
    if (question && state.question && question.number === state.question.number) {
      state.question = question;
      describe(question);
    } else {
      await exchange("question", {});
    }
  } catch (error) {
    say(error.message);
  }
}

// The question

function placeholder(image, text) {
  image.removeAttribute("src");
  $("placeholder").textContent = text;
  $("placeholder").hidden = !text;
}

function loaded(image, source) {
  return new Promise((resolve) => {
    image.onload = () => { $("placeholder").hidden = true; resolve(); };
    image.onerror = () => { placeholder(image, "This image cannot be shown. Say that it is not usable."); resolve(); };
    image.src = source;
  });
}

async function show(question) {
  const isSame = state.question && question && state.question.number === question.number;
  state.question = question;
  if (!question) {
    placeholder($("image"), state.mode === "review" ? "Nothing is left for review." : "All images are answered.");
  } else if (!isSame || !$("image").src) {
    fitWhole();
    state.whole = "";
    await loaded($("image"), `image/${question.number}`);
  }
  $("image").alt = $("name").textContent = question ? question.name : "";
  describe(question);
}

function describe(question) {
  const prediction = question && question.prediction;
  const judges = Boolean(question && question.judges);
  let note = "";
  if (judges) note = "Drawn at random to judge the model: it never trains, and its prediction is hidden.";
  else if (question && question.reason) note = question.reason;
  else if (question && !prediction) note = "Drawn at random until the features are computed.";
  if (question && question.label && !question.reason) note += ` Its label is ${question.label}.`;
  $("note").textContent = note;
  $("note").classList.toggle("judges", judges);
  [...$("classes").children].forEach((row, place) => {
    const share = prediction ? prediction.probability[place] : 0;
    row.querySelector(".share span").style.width = `${100 * share}%`;
    row.querySelector(".share").hidden = row.querySelector(".value").hidden = !prediction;
    row.querySelector(".value").textContent = prediction ? `${(100 * share).toFixed(0)} %` : "";
  });
  $("familiarity").textContent = prediction ? `Familiarity: ${prediction.familiarity}.` : "";
  const similar = prediction ? prediction.similar.map(similarFigure) : [];
  $("similar").replaceChildren(...similar);
}

function similarFigure(one) {
  const figure = element("figure");
  const image = element("img");
  image.alt = one.name;
  image.src = `thumbnail/${one.number}`;
  figure.append(image, element("figcaption", "", `${one.label} · alike ${one.similarity.toFixed(2)}`));
  return figure;
}

function makeClasses() {
  const rows = state.classes.map((name, place) => {
    const button = element("button");
    button.type = "button";
    const share = element("span", "share");
    share.append(element("span"));
    const key = place < 10 ? CLASS_KEYS[place] : place < 20 ? `⇧${CLASS_KEYS[place - 10]}` : "";
    button.append(element("kbd", "", key), element("span", "class-name", name), share, element("span", "value"));
    button.onclick = () => answer("class", place);
    const row = element("li");
    row.append(button);
    const option = element("option", "", name);
    option.value = name;
    $("grid-class").append(option);
    return row;
  });
  $("classes").replaceChildren(...rows);
}

function answer(verdict, place) {
  if (!state.question) return;
  const given = { images: [state.question.number], verdict };
  if (verdict === "class") given.class_name = state.classes[place];
  exchange("answer", given);
}

async function undo() {
  const found = await exchange("undo", {});
  if (found && !found.undone) say("There is no answer of this page to take back.");
}

function setMode(mode) {
  state.mode = mode;
  $("mode").setAttribute("aria-pressed", String(mode === "review"));
}

function changeMode() {
  if (state.isBusy) return;
  setMode(state.mode === "ask" ? "review" : "ask");
  exchange("answer", {});
}

// Zoom

function zoomTo(scale, x, y) {
  scale = Math.min(Math.max(scale, 1), 32);
  const bound = (scale - 1) / 2;
  const view = $("view");
  state.zoom = {
    scale,
    x: Math.min(Math.max(x, -bound * view.clientWidth), bound * view.clientWidth),
    y: Math.min(Math.max(y, -bound * view.clientHeight), bound * view.clientHeight),
  };
  $("image").style.transform = `translate(${state.zoom.x}px, ${state.zoom.y}px) scale(${scale})`;
  $("image").classList.toggle("close", scale > 4);
  if (scale > 1.5) showWhole();
}

// A large image comes with fewer pixels first, and with all of them once somebody looks closer.
function showWhole() {
  const image = $("image");
  const asked = state.question && `whole/${state.question.number}`;
  if (!asked || Math.max(image.naturalWidth, image.naturalHeight) < LARGE || state.whole === asked) return;
  state.whole = asked;
  const whole = new Image();
  whole.onload = () => {
    if (state.whole === asked && state.question && asked.endsWith(`/${state.question.number}`)) image.src = whole.src;
  };
  whole.src = asked;
}

function zoomBy(factor, clientX, clientY) {
  const box = $("view").getBoundingClientRect();
  const fromMiddle = [clientX - box.left - box.width / 2, clientY - box.top - box.height / 2];
  const { scale, x, y } = state.zoom;
  const next = Math.min(Math.max(scale * factor, 1), 32);
  zoomTo(next, fromMiddle[0] - (fromMiddle[0] - x) * next / scale, fromMiddle[1] - (fromMiddle[1] - y) * next / scale);
}

function zoomInMiddle(factor) {
  const box = $("view").getBoundingClientRect();
  zoomBy(factor, box.left + box.width / 2, box.top + box.height / 2);
}

const fitWhole = () => zoomTo(1, 0, 0);
const pan = (x, y) => zoomTo(state.zoom.scale, state.zoom.x + x, state.zoom.y + y);

function watchPointers() {
  const view = $("view");
  const held = new Map();
  const spread = () => {
    const [one, other] = [...held.values()];
    return Math.hypot(one.x - other.x, one.y - other.y);
  };
  view.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomBy(event.deltaY < 0 ? 1.25 : 0.8, event.clientX, event.clientY);
  }, { passive: false });
  view.addEventListener("dblclick", (event) => (state.zoom.scale > 1 ? fitWhole() : zoomBy(4, event.clientX, event.clientY)));
  view.addEventListener("pointerdown", (event) => {
    view.setPointerCapture(event.pointerId);
    held.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  view.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) return;
    const apart = held.size === 2 ? spread() : 0;
    held.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (held.size === 1) pan(event.clientX - before.x, event.clientY - before.y);
    if (held.size === 2 && apart) zoomBy(spread() / apart, event.clientX, event.clientY);
  });
  for (const name of ["pointerup", "pointercancel"]) view.addEventListener(name, (event) => held.delete(event.pointerId));
  $("image").draggable = false;
}

// The grid of images that are alike

const isGridOpen = () => !$("grid").hidden;

async function openGrid() {
  if (!state.question || state.isBusy) return;
  setBusy(true);
  try {
    const found = await call(`alike/${state.question.number}`);
    if (!found.images.length) {
      say("Nothing can be shown beside this image: it judges the model, or its features are not computed yet.");
      return;
    }
    $("grid-class").value = found.class;
    $("cells").replaceChildren(...found.images.map(gridCell));
    $("single").hidden = true;
    $("grid").hidden = false;
    countChosen();
    $("cells").firstChild.focus();
  } catch (error) {
    say(error.message);
  } finally {
    setBusy(false);
  }
}

function gridCell(one) {
  const button = element("button");
  button.type = "button";
  button.value = one.number;
  button.setAttribute("aria-pressed", "true");
  const image = element("img");
  image.alt = one.name;
  image.src = `thumbnail/${one.number}`;
  button.append(image, element("span", "mark", one.name));
  button.onclick = () => {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    countChosen();
  };
  return button;
}

const chosenCells = () => [...$("cells").children].filter((cell) => cell.getAttribute("aria-pressed") === "true");

function countChosen() {
  $("confirm-count").textContent = `${chosenCells().length} as ${$("grid-class").value}`;
}

function closeGrid() {
  $("grid").hidden = true;
  $("single").hidden = false;
}

async function confirmGrid() {
  const images = chosenCells().map((cell) => Number(cell.value));
  if (!images.length) return;
  const found = await exchange("answer", { images, verdict: "class", class_name: $("grid-class").value });
  if (found) closeGrid();
}

function moveInGrid(key) {
  const cells = [...$("cells").children];
  const across = cells.filter((cell) => cell.offsetTop === cells[0].offsetTop).length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[key];
  const next = cells[cells.indexOf(document.activeElement) + step];
  if (next) next.focus();
}

// Progress

const percent = (found) => (found ? `${(100 * found[0]).toFixed(0)} % (${(100 * found[1]).toFixed(0)} to ${(100 * found[2]).toFixed(0)} %)` : "not yet known");
const number = (found) => (found ? `${found[0].toFixed(2)} (${found[1].toFixed(2)} to ${found[2].toFixed(2)})` : "not yet known");

async function showProgress() {
  let found;
  try {
    found = await call("progress");
  } catch (error) {
    say(error.message);
    return;
  }
  const labelled = Object.entries(found.labelled).map(([name, count]) => `${name} ${count}`).join(", ");
  $("counts").textContent = `${found.answered} of ${found.images} answered · ${labelled}`;
  $("encoding").hidden = found.ready;
  $("encoding-bar").max = found.images;
  $("encoding-bar").value = found.encoded;
  $("encoding-words").textContent = found.failure || `Computing features: ${found.encoded} of ${found.images} images. You can label meanwhile.`;
  showLearned(found.learned);
  $("judged").hidden = found.judges_left > 0;
  if (found.ready && !state.isReady) {
    state.isReady = true;
    refresh();
  }
  clearTimeout(state.timer);
  if (!found.ready && !found.failure) state.timer = setTimeout(showProgress, 1000);
}

function showLearned(learned) {
  $("progress").hidden = !learned;
  if (!learned) return;
  $("sentence").textContent = learned.sentence;
  const rows = [
    ["Labels that train", String(learned.num_training)],
    ["Labels that judge", `${learned.num_judging} of ${learned.num_judging_groups} groups`],
    ["Accuracy on those that judge", percent(learned.accuracy)],
    ["Their negative log likelihood", number(learned.nll)],
    ["Share that could be kept at 5 % error", percent(learned.kept_now)],
    ["The same with 50 more labels", percent(learned.kept_later)],
  ];
  $("scores").replaceChildren(...rows.map(([name, value]) => {
    const row = element("tr");
    row.append(element("th", "", name), element("td", "", value));
    return row;
  }));
}

// Keys

const PAN = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
const ACTIONS = {
  u: () => answer("unsure"),
  x: () => answer("not usable"),
  z: undo,
  Backspace: undo,
  g: openGrid,
  r: changeMode,
  f: fitWhole,
  "+": () => zoomInMiddle(1.5),
  "=": () => zoomInMiddle(1.5),
  "-": () => zoomInMiddle(1 / 1.5),
};

function classOfKey(event) {
  const found = /^(?:Digit|Numpad)(\d)$/.exec(event.code);
  const digit = found ? found[1] : event.key;
  const place = CLASS_KEYS.indexOf(digit);
  return place < 0 ? -1 : place + (event.shiftKey ? 10 : 0);
}

function keyDown(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.target.id === "who") return;
  const place = classOfKey(event);
  if (place >= 0 && place < state.classes.length) {
    event.preventDefault();
    if (!isGridOpen()) answer("class", place);
    else $("grid-class").value = state.classes[place];
    countChosen();
  } else if (isGridOpen()) {
    if (event.key === "Enter" && event.target.id === "close-grid") return;
    if (event.key === "Escape") closeGrid();
    else if (event.key.startsWith("Arrow") && event.target.id !== "grid-class") moveInGrid(event.key);
    else if (event.key === "Enter") confirmGrid();
    else return;
    event.preventDefault();
  } else if (event.key in PAN && state.zoom.scale > 1) {
    event.preventDefault();
    pan(...PAN[event.key]);
  } else if (event.key in ACTIONS) {
    event.preventDefault();
    ACTIONS[event.key]();
  }
}

async function start() {
  const buttons = {
    unsure: ACTIONS.u, unusable: ACTIONS.x, undo, "open-grid": openGrid, mode: changeMode, whole: fitWhole,
    closer: ACTIONS["+"], farther: ACTIONS["-"], confirm: confirmGrid, "close-grid": closeGrid,
  };
  for (const [id, action] of Object.entries(buttons)) $(id).onclick = action;
  $("grid-class").onchange = countChosen;
  document.addEventListener("keydown", keyDown);
  watchPointers();
  try {
    const found = await call("session");
    state.classes = found.classes;
    setMode(found.mode);
    $("folder").textContent = found.folder;
    $("who").value = sessionStorage.getItem("who") || found.who;
    $("who").onchange = () => sessionStorage.setItem("who", $("who").value);
    makeClasses();
  } catch (error) {
    say(error.message);
    return;
  }
  state.isBusy = false;
  await exchange("question", {});
}

start();
