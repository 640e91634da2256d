// The map of explore.html: draws the points, and answers to pointer, keys, buttons and the address (#file=NAME).
(() => {
  "use strict";

  const data = JSON.parse(document.getElementById("data").textContent);
  const count = data.files.length;
  const byId = (id) => document.getElementById(id);
  const canvas = byId("plot"), tip = byId("tip"), legend = byId("legend");

  // Colours of Okabe and Ito; a kind has a colour and a shape, and 8 x 8 pairs come before one is repeated.
  const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#f0e442", "#5b6770"];
  const SHAPES = ["circle", "square", "triangle", "diamond", "down", "plus", "star", "bar"];
  const UNKNOWN = "#fff", RADIUS = 4.5, THUMBNAIL = 40, MARGIN = 30, REACH = 18;

  const state = {
    across: 0, up: Math.min(1, data.position.length - 1), way: data.colourings[0], only: null,
    zoom: 1, centre: [0.5, 0.5], hovered: -1, selected: -1,
  };
  let width = 0, height = 0, x = [], y = [];

  // Positions on the screen

  function extent(values) {
    let low = Infinity, high = -Infinity;
    for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
    return [low, high > low ? high : low + 1];
  }

  function project() {
    const place = (dimension, length, flipped) => {
      const values = data.position[dimension], [low, high] = extent(values);
      const inside = Math.max(length - 2 * MARGIN, 1), centre = state.centre[flipped ? 1 : 0];
      const scale = (inside * state.zoom) / (high - low);
      const start = length / 2 - centre * inside * state.zoom;
      return { scale, at: values.map((value) => {
        const share = (value - low) / (high - low);
        return start + (flipped ? 1 - share : share) * inside * state.zoom;
      }) };
    };
    const first = place(state.across, width, false), second = place(state.up, height, true);
    x = first.at; y = second.at;
    return [first.scale, second.scale];
  }

  // Marks

  function kindMark(kind) {
    const colour = COLOURS[kind % COLOURS.length];
    return { colour, shape: SHAPES[(kind + Math.floor(kind / COLOURS.length)) % SHAPES.length] };
  }

  function mark(index) {
    const value = state.way.values[index];
    if (value < 0) return { colour: UNKNOWN, shape: "circle" };
    if (state.way.kinds.length) return kindMark(value);
    const place = value * (data.stops.length - 1), lower = Math.floor(place);
    const stop = data.stops[Math.min(lower, data.stops.length - 1)];
    return { colour: `rgb(${stop.join(",")})`, shape: "circle" };
  }

  function trace(pen, shape, px, py, r) {
    const corners = (number, turn, sharp) => {
      for (let corner = 0; corner < number; corner++) {
        const angle = turn + (2 * Math.PI * corner) / number, length = sharp && corner % 2 ? r * 0.5 : r * 1.2;
        pen[corner ? "lineTo" : "moveTo"](px + length * Math.cos(angle), py + length * Math.sin(angle));
      }
      pen.closePath();
    };
    pen.beginPath();
    switch (shape) {
      case "square": pen.rect(px - 0.9 * r, py - 0.9 * r, 1.8 * r, 1.8 * r); break;
      case "triangle": corners(3, -Math.PI / 2); break;
      case "down": corners(3, Math.PI / 2); break;
      case "diamond": corners(4, 0); break;
      case "star": corners(10, -Math.PI / 2, true); break;
      case "bar": pen.rect(px - 1.2 * r, py - 0.5 * r, 2.4 * r, r); break;
      case "plus": pen.rect(px - 1.1 * r, py - 0.4 * r, 2.2 * r, 0.8 * r); pen.rect(px - 0.4 * r, py - 1.1 * r, 0.8 * r, 2.2 * r); break;
      default: pen.arc(px, py, r, 0, 2 * Math.PI);
    }
  }

  function drawMark(pen, index, px, py, r) {
    const { colour, shape } = mark(index);
    trace(pen, shape, px, py, r);
    pen.lineWidth = 1; pen.strokeStyle = "#1f2933"; pen.stroke();
    pen.fillStyle = colour; pen.fill();
    if (crossed.has(index)) drawCross(pen, px, py, r);
  }

  function drawCross(pen, px, py, r) {
    pen.beginPath();
    pen.moveTo(px - 1.5 * r, py - 1.5 * r); pen.lineTo(px + 1.5 * r, py + 1.5 * r);
    pen.moveTo(px - 1.5 * r, py + 1.5 * r); pen.lineTo(px + 1.5 * r, py - 1.5 * r);
    pen.lineWidth = 3.5; pen.strokeStyle = "#fff"; pen.stroke();
    pen.lineWidth = 1.6; pen.strokeStyle = "#000"; pen.stroke();
  }

  // Thumbnails

  const sheet = new Image();
  sheet.addEventListener("load", () => draw());
  sheet.src = data.sheet;

  function drawPicture(pen, index, px, py, size) {
    const { side, columns, sizes } = data.atlas, [high, wide] = sizes[index], scale = size / side;
    const left = (index % columns) * side + (side - wide) / 2, top = Math.floor(index / columns) * side + (side - high) / 2;
    pen.drawImage(sheet, Math.floor(left), Math.floor(top), wide, high, px - (wide * scale) / 2, py - (high * scale) / 2, wide * scale, high * scale);
    return [wide * scale, high * scale];
  }

  let crossed = new Set();
  const byRank = data.rank.map((rank, index) => [rank, index]).sort((a, b) => a[0] - b[0]).map((pair) => pair[1]);

  // Where pictures would cover each other, the first one in this order is shown: the same in every view.
  const scatter = (index) => (Math.imul(index + 1, 2654435761) >>> 0);
  const scattered = [...byRank].sort((a, b) => scatter(a) - scatter(b));

  function shownPictures(visible) {
    const taken = new Set(), chosen = [], size = THUMBNAIL * 1.05;
    for (const index of scattered) {
      if (!visible(index)) continue;
      const column = Math.floor(x[index] / size), row = Math.floor(y[index] / size);
      let free = true;
      for (let i = -1; i <= 1 && free; i++) for (let j = -1; j <= 1 && free; j++) {
        const other = cells.get(`${column + i},${row + j}`);
        free = other === undefined || Math.max(Math.abs(x[other] - x[index]), Math.abs(y[other] - y[index])) >= size;
      }
      if (!free || taken.has(index)) continue;
      taken.add(index); chosen.push(index); cells.set(`${column},${row}`, index);
    }
    return chosen;
  }
  let cells = new Map();

  // Drawing

  // The map is painted on a layer of its own, so that pointing at thousands of points stays quick: that only
  // copies the layer and adds the rings.
  const layer = document.createElement("canvas");
  let waiting = false, isStale = true;

  function draw(isChanged = true) {
    isStale = isStale || isChanged;
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; render(); });
  }

  function render() {
    if (isStale) paintLayer();
    isStale = false;
    const pen = canvas.getContext("2d"), ratio = canvas.width / width;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(layer, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const index of new Set([state.selected, state.hovered])) if (index >= 0) ring(pen, index);
    showTip();
  }

  function paintLayer() {
    const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
    width = box.width; height = box.height;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = layer.width = Math.round(width * ratio); canvas.height = layer.height = Math.round(height * ratio);
    }
    const pen = layer.getContext("2d"), [scaleX, scaleY] = project();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const inside = (index) => x[index] > -40 && x[index] < width + 40 && y[index] > -40 && y[index] < height + 40;
    const isLit = (index) => state.only === null || state.way.values[index] === state.only;
    const seen = byRank.filter(inside).reverse();  // the odd ones last, on top
    seen.sort((a, b) => isLit(a) - isLit(b));
    if (byId("ellipses").checked) for (const index of seen) {
      pen.globalAlpha = (isLit(index) ? 1 : 0.15) * Math.max(0.12, Math.min(0.5, 150 / seen.length));
      pen.beginPath();
      pen.ellipse(x[index], y[index], data.std[state.across][index] * scaleX, data.std[state.up][index] * scaleY, 0, 0, 2 * Math.PI);
      pen.lineWidth = 1; pen.strokeStyle = mark(index).colour; pen.stroke();
      pen.globalAlpha *= 0.2; pen.fillStyle = mark(index).colour; pen.fill();
    }
    for (const index of seen) {
      pen.globalAlpha = isLit(index) ? 1 : 0.15;
      drawMark(pen, index, x[index], y[index], count > 1500 ? RADIUS * 0.75 : RADIUS);
    }
    pen.globalAlpha = 1;
    if (byId("pictures").checked && sheet.complete) {
      cells = new Map();
      for (const index of shownPictures((i) => inside(i) && isLit(i)).reverse()) {
        const [wide, high] = drawPicture(pen, index, x[index], y[index], THUMBNAIL);
        pen.lineWidth = 2.5; pen.strokeStyle = mark(index).colour;
        pen.strokeRect(x[index] - wide / 2, y[index] - high / 2, wide, high);
        drawMark(pen, index, x[index] - wide / 2, y[index] - high / 2, RADIUS);
      }
    }
    byId("status").textContent = `${seen.length} of ${count} examples are in view.`;
  }

  function ring(pen, index) {
    pen.beginPath(); pen.arc(x[index], y[index], THUMBNAIL * 0.75, 0, 2 * Math.PI);
    pen.lineWidth = 5; pen.strokeStyle = "#fff"; pen.stroke();
    pen.lineWidth = 2.5; pen.strokeStyle = "#000"; pen.stroke();
    const isPictured = byId("pictures").checked && sheet.complete;
    if (isPictured) drawPicture(pen, index, x[index], y[index], THUMBNAIL);
    drawMark(pen, index, x[index] - (isPictured ? THUMBNAIL / 2 : 0), y[index] - (isPictured ? THUMBNAIL / 2 : 0), RADIUS);
  }

  // What is said of an example

  let told = -1;
  function showTip() {
    const index = state.hovered >= 0 ? state.hovered : state.selected;
    tip.hidden = index < 0;
    if (index < 0) { told = -1; return; }
    if (index !== told) fillTip(index);
    told = index;
    const beside = x[index] + 34 + tip.offsetWidth < width ? x[index] + 34 : x[index] - 34 - tip.offsetWidth;
    tip.style.left = `${Math.max(4, Math.min(beside, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(y[index] - 40, height - tip.offsetHeight - 4))}px`;
  }

  function element(name, text, children = []) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    made.append(...children);
    return made;
  }

  function fillTip(index) {
    const picture = element("canvas");
    picture.width = picture.height = 128;
    const pen = picture.getContext("2d");
    pen.imageSmoothingEnabled = false;
    if (sheet.complete) drawPicture(pen, index, 64, 64, 128);
    const rows = data.facts[index].flatMap(([name, text]) => [element("dt", name), element("dd", text)]);
    tip.replaceChildren(picture, element("strong", data.files[index]), element("dl", "", rows));
  }

  function nearest(px, py, reach) {
    let found = -1, least = reach * reach;
    for (let index = 0; index < count; index++) {
      if (state.only !== null && state.way.values[index] !== state.only) continue;
      const distance = (x[index] - px) ** 2 + (y[index] - py) ** 2;
      if (distance < least) { least = distance; found = index; }
    }
    return found;
  }

  function select(index) {
    state.selected = index; state.hovered = -1;
    if (index >= 0) bringIntoView(index);
    draw();
  }

  function bringIntoView(index) {
    project();
    if (x[index] > 20 && x[index] < width - 20 && y[index] > 20 && y[index] < height - 20) return;
    const share = (dimension) => { const [low, high] = extent(data.position[dimension]); return (data.position[dimension][index] - low) / (high - low); };
    state.centre = [share(state.across), 1 - share(state.up)];
  }

  // Pointer

  let drag = null;
  const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => { drag = { from: at(event), centre: [...state.centre], moved: false }; canvas.setPointerCapture?.(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = at(event);
    if (drag && Math.hypot(px - drag.from[0], py - drag.from[1]) > 4) drag.moved = true;
    if (drag && drag.moved) {
      const step = (length) => Math.max(length - 2 * MARGIN, 1) * state.zoom;
      state.centre = [drag.centre[0] - (px - drag.from[0]) / step(width), drag.centre[1] - (py - drag.from[1]) / step(height)];
      draw();
      return;
    }
    const found = nearest(px, py, REACH);
    if (found !== state.hovered) { state.hovered = found; draw(false); }
  });
  canvas.addEventListener("pointerup", (event) => { if (drag && !drag.moved) select(nearest(...at(event), REACH)); drag = null; });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { state.hovered = -1; draw(false); });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 400), ...at(event));
  }, { passive: false });

  function zoomBy(factor, px = width / 2, py = height / 2) {
    const before = state.zoom;
    state.zoom = Math.min(60, Math.max(0.8, before * factor));
    const keep = (place, length, centre) => centre + ((place - length / 2) / Math.max(length - 2 * MARGIN, 1)) * (1 / before - 1 / state.zoom);
    state.centre = [keep(px, width, state.centre[0]), keep(py, height, state.centre[1])];
    draw();
  }

  function wholeMap() { state.zoom = 1; state.centre = [0.5, 0.5]; draw(); }

  // Keys

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  function inDirection([dx, dy]) {
    if (state.selected < 0) return nearest(width / 2, height / 2, Infinity);
    let found = state.selected, least = Infinity;
    for (let index = 0; index < count; index++) {
      const along = (x[index] - x[state.selected]) * dx + (y[index] - y[state.selected]) * dy;
      const aside = Math.abs((x[index] - x[state.selected]) * dy) + Math.abs((y[index] - y[state.selected]) * dx);
      if (index === state.selected || along <= 0 || aside > 1.2 * along) continue;
      const distance = along + 2 * aside;
      if (distance < least) { least = distance; found = index; }
    }
    return found;
  }

  function byOddness(step) {
    const rank = state.selected < 0 ? (step < 0 ? 2 : 0) : data.rank[state.selected];
    return byRank[Math.min(count - 1, Math.max(0, rank + step - 1))];
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      "+": () => zoomBy(1.5), "=": () => zoomBy(1.5), "-": () => zoomBy(1 / 1.5), 0: wholeMap, Escape: () => select(-1),
      o: () => select(byOddness(-1)), i: () => select(byOddness(1)),
    };
    const action = ARROWS[event.key] ? () => select(inDirection(ARROWS[event.key])) : actions[event.key] ?? actions[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  });

  // Buttons, legend and address

  function swatch(kind) {
    const made = element("canvas");
    made.width = made.height = 32;
    const pen = made.getContext("2d"), { colour, shape } = kindMark(kind);
    pen.scale(2, 2); trace(pen, shape, 8, 8, 5.5);
    pen.strokeStyle = "#1f2933"; pen.stroke(); pen.fillStyle = colour; pen.fill();
    return made;
  }

  function showLegend() {
    const way = state.way, parts = [];
    way.kinds.forEach((name, kind) => {
      const number = way.values.filter((value) => value === kind).length;
      const button = element("button", "", [swatch(kind), `${name} (${number})`]);
      button.type = "button"; button.setAttribute("aria-pressed", String(state.only === kind));
      button.addEventListener("click", () => { state.only = state.only === kind ? null : kind; showLegend(); legend.children[kind]?.focus(); draw(); });
      parts.push(button);
    });
    if (!way.kinds.length) {
      const scale = new Image(); scale.alt = ""; scale.src = byId("scale").src;
      parts.push(element("span", way.ends[0]), scale, element("span", way.ends[1]));
    }
    if (way.values.some((value) => value < 0)) parts.push(element("span", "○ white: not known"));
    if (way.crosses) parts.push(element("span", `✕ ${way.crosses}`));
    legend.replaceChildren(...parts);
    legend.title = way.explanation;
  }

  const buttons = [...document.querySelectorAll("[data-colour]")];
  function colourBy(number) {
    state.way = data.colourings[number]; state.only = null;
    crossed = new Set(state.way.crossed);
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === number)));
    showLegend(); draw();
  }
  buttons.forEach((button, index) => button.addEventListener("click", () => colourBy(index)));

  for (const [id, key] of [["across", "across"], ["up", "up"]]) {
    const chooser = byId(id);
    data.position.forEach((_, dimension) => chooser.append(new Option(`dimension ${dimension + 1}`, dimension, false, dimension === state[key])));
    chooser.addEventListener("change", () => { state[key] = Number(chooser.value); wholeMap(); });
  }
  for (const id of ["pictures", "ellipses"]) byId(id).addEventListener("change", () => draw());
  byId("closer").addEventListener("click", () => zoomBy(1.5));
  byId("farther").addEventListener("click", () => zoomBy(1 / 1.5));
  byId("whole").addEventListener("click", wholeMap);
  byId("find").addEventListener("input", (event) => {
    const text = event.target.value.trim().toLowerCase();
    select(text ? data.files.findIndex((file) => file.toLowerCase().includes(text)) : -1);
  });

  function followAddress() {
    if (!location.hash.startsWith("#file=")) return;
    let name = location.hash.slice(6);
    try { name = decodeURIComponent(name); } catch { /* a lone % is itself */ }
    const index = data.files.indexOf(name);
    if (index < 0) return;
    canvas.scrollIntoView({ block: "center" });
    canvas.focus({ preventScroll: true });
    select(index);
  }
  window.addEventListener("hashchange", followAddress);
  new ResizeObserver(() => draw()).observe(canvas);

  colourBy(0);
  render();
  followAddress();
})();
