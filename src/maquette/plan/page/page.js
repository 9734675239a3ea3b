"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const make = (tag, text, attributes) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  return node;
};
const scaled = (value, base, units) => {
  let at = 0;
  while (Math.abs(value) >= base && at < units.length - 1) { value /= base; at++; }
  return `${at ? value.toFixed(2) : value} ${units[at]}`.trim();
};
const bytes = (n) => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
const count = (n) => scaled(n, 1000, ["", "K", "M", "G", "T", "P", "E"]);
const color = (i) => getComputedStyle(document.documentElement).getPropertyValue(`--c${i % 6}`).trim();

// --- summary ---------------------------------------------------------------------------
for (const [name, value, more] of D.summary) {
  const box = make("div");
  box.append(make("dt", name));
  const dd = make("dd", value);
  if (more) dd.append(make("small", more));
  box.append(dd);
  $("summary").append(box);
}
for (const note of D.notes) $("notes").append(make("li", note));

// --- memory: the level of each category at the highest moment of each operator -----------
const N = D.operators.name.length + 1, K = D.categories.length;
const levels = D.categories.map(() => new Float64Array(N));
const total = new Float64Array(N);
const moment = new Int32Array(N).fill(-1);  // the event up to which an operator is shown
(() => {
  const now = new Float64Array(K);
  let sum = 0, last = -1;
  const store = (op, event) => {
    for (let k = 0; k < K; k++) levels[k][op] = now[k];
    total[op] = sum; moment[op] = event;
  };
  for (let e = 0; e < D.events.op.length; e++) {
    const op = D.events.op[e], a = D.events.allocation[e], by = D.events.bytes[e];
    while (last < op - 1) store(++last, e - 1);
    now[D.allocations.category[a]] += by; sum += by;
    if (last < op) { store(op, e); last = op; } else if (sum > total[op]) store(op, e);
  }
  while (last < N - 1) store(++last, D.events.op.length - 1);
})();
let peak = 0;
for (let i = 1; i < N; i++) if (total[i] > total[peak]) peak = i;

// What is drawn: of each pixel column's operators the lowest and the highest, so that a redraw
// costs as much for a million operators as for a thousand. Zooming in shows every one.
const stacked = [];  // sums of the levels up to each category
for (let k = 0; k < K; k++) stacked.push(k ? levels[k].map((n, i) => n + stacked[k - 1][i]) : levels[0]);
const drawn = (low, high, width) => {
  const first = Math.max(Math.floor(low) - 1, 0), last = Math.min(Math.ceil(high) + 1, N - 1), kept = [];
  const keep = (i) => { if (!kept.length || kept[kept.length - 1] < i) kept.push(i); };
  const per = Math.max((last - first + 1) / width, 1);
  keep(0); keep(first);  // the ends are always there: they are how far zooming out goes
  for (let c = 0; first + c * per <= last; c++) {
    let i = Math.floor(first + c * per), least = i, most = i;
    for (const end = Math.min(first + (c + 1) * per, last + 1); i < end; i++) {
      if (total[i] < total[least]) least = i;
      if (total[i] > total[most]) most = i;
    }
    keep(Math.min(least, most)); keep(Math.max(least, most));
  }
  keep(last); keep(N - 1);
  // the whole first, so that the lower ones are drawn over it
  return [kept, ...stacked.map((sums) => kept.map((i) => sums[i])).reverse()];
};
const shown = D.categories.map((name, k) => [name, k]).reverse();
let chart = null, cursor = peak, keyed = null;  // keyed: where a key put the cursor

const describe = (i) => {
  if (i >= D.operators.name.length) return `after the step: ${bytes(total[i])} in use`;
  const o = D.operators, place = [D.modules[o.module[i]] || "(model)", D.lines[o.line[i]]].filter(Boolean).join("  ");
  return `${i}: ${D.names[o.name[i]]} (${D.phases[o.phase[i]]})  ${bytes(total[i])} in use  ${count(o.flops[i])} FLOPs  ${place}`;
};

const draw = () => {
  const styles = getComputedStyle(document.documentElement), text = styles.getPropertyValue("--dim"), grid = styles.getPropertyValue("--line");
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  const width = $("chart").clientWidth;
  if (chart) chart.destroy();
  chart = new uPlot({
    width, height: 340,
    scales: { x: { time: false }, y: { range: (u, low, high) => [0, high * 1.05 || 1] } },
    axes: [{ ...axis, label: "operator", labelFont: "13px system-ui", stroke: text },
           { ...axis, size: 78, incrs: Array.from({ length: 62 }, (_, i) => 2 ** i), values: (u, ticks) => ticks.map(bytes) }],
    series: [{ label: "operator" }, ...shown.map(([name, k]) => ({
      label: name, stroke: color(k), fill: color(k), width: 1, points: { show: false },
      value: (u, v, s, i) => (i == null ? "" : bytes(levels[k][u.data[0][i]])),
    }))],
    hooks: {
      setScale: [(u, axis) => {
        const { min, max } = u.scales.x;
        if (axis !== "x" || min == null || (min === u.low && max === u.high)) return;
        [u.low, u.high] = [min, max];
        u.setData(drawn(min, max, u.over.clientWidth || width), false);
      }],
      setCursor: [(u) => {
        if (u.cursor.idx == null) return;
        cursor = keyed ?? u.data[0][u.cursor.idx];
        $("readout").textContent = describe(cursor);
      }],
      draw: [(u) => {
        const x = u.valToPos(peak, "x", true), y = u.valToPos(total[peak], "y", true), c = u.ctx;
        c.save(); c.strokeStyle = c.fillStyle = styles.getPropertyValue("--text"); c.lineWidth = devicePixelRatio;
        c.setLineDash([4, 4]); c.beginPath(); c.moveTo(x, u.bbox.top); c.lineTo(x, u.bbox.top + u.bbox.height); c.stroke();
        c.font = `${12 * devicePixelRatio}px system-ui`; c.textAlign = x > u.bbox.left + u.bbox.width / 2 ? "right" : "left";
        c.fillText(` peak ${bytes(total[peak])} `, x, Math.max(y - 4 * devicePixelRatio, u.bbox.top + 12 * devicePixelRatio)); c.restore();
      }],
    },
  }, drawn(0, N - 1, width), $("chart"));
  chart.over.addEventListener("click", () => showAlive(cursor));
};

const showAlive = (i) => {
  const alive = new Float64Array(D.allocations.made.length), rows = [];
  for (let e = 0; e <= moment[i]; e++) alive[D.events.allocation[e]] += D.events.bytes[e];
  alive.forEach((n, a) => { if (n > 0) rows.push([a, n]); });
  rows.sort((p, q) => q[1] - p[1]);
  const list = make("table");
  list.append(make("caption", `Alive at operator ${i}: ${rows.length} storages, ${bytes(total[i])}`));
  const head = make("tr");
  for (const name of ["bytes", "what", "made by"]) head.append(make("th", name, { scope: "col" }));
  list.append(head);
  for (const [a, n] of rows.slice(0, 100)) {
    const row = make("tr"), what = make("td"), k = D.allocations.category[a], made = D.allocations.made[a];
    row.append(make("td", bytes(n), { class: "n" }));
    const swatch = make("span", "", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = `var(--c${k % 6})`;
    what.append(swatch, D.allocations.name[a] || D.categories[k]);
    row.append(what, make("td", made < 0 ? "before the step" : describe(made).replace(/ {2}.* in use/, "")));
    list.append(row);
  }
  if (rows.length > 100) list.append(make("caption", `the largest 100 of ${rows.length}`));
  const box = make("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": "What is alive" });
  box.append(list);
  $("alive").replaceChildren(box);
};

$("chart").addEventListener("mousemove", () => { keyed = null; }, true);
$("chart").addEventListener("keydown", (event) => {
  const step = event.shiftKey ? Math.max(1, Math.round(N / 50)) : 1;
  const to = { ArrowLeft: cursor - step, ArrowRight: cursor + step, Home: 0, End: N - 1, p: peak, P: peak }[event.key];
  if (event.key === "Enter") showAlive(cursor);
  else if (to === undefined) return;
  else {
    cursor = keyed = Math.min(Math.max(to, 0), N - 1);
    const { min, max } = chart.scales.x, half = (max - min) / 2;
    if (cursor < min || cursor > max) chart.setScale("x", { min: cursor - half, max: cursor + half });
    chart.setCursor({ left: chart.valToPos(cursor, "x"), top: chart.valToPos(total[cursor], "y") });
    $("readout").textContent = describe(cursor);
  }
  event.preventDefault();
});

// --- modules: nested blocks, wide as their share -----------------------------------------
const children = new Map();
for (const row of D.tree) {
  if (row.path === "") continue;
  const cut = row.path.lastIndexOf("."), parent = cut < 0 ? "" : row.path.slice(0, cut);
  if (!children.has(parent)) children.set(parent, []);
  children.get(parent).push(row);
}
// Neighbours too narrow to point at share a block; a click on it shows them alone.
const NARROW = 6, SHARED = 24;  // pixels
let by = "activation_bytes", root = "", part = null;  // part: the children of root that are shown
const size = (row) => row[by], told = (n) => (by === "flops" ? `${count(n)} FLOPs` : bytes(n));
const total_of = (rows) => rows.reduce((sum, row) => sum + size(row), 0);
const last = (path) => path.split(".").pop();
const parent = (path) => path.slice(0, Math.max(path.lastIndexOf("."), 0));
const look = (path, rows) => { root = path; part = rows; flame(); };
const flame = () => {
  const box = $("flame"), width = box.clientWidth, top = D.tree.find((r) => r.path === root);
  const whole = (part ? total_of(part) : size(top)) || 1;
  box.replaceChildren();
  let deepest = 0;
  const block = (text, who, n, kind, left, depth, go) => {
    const node = make("button", text, { type: "button" });
    const says = `${who}: ${told(n)}, ${(100 * n / (size(D.tree[0]) || 1)).toFixed(1)} % of the whole`;
    deepest = Math.max(deepest, depth);
    node.setAttribute("aria-label", says);
    node.style.cssText = `left:${left}px;top:${depth * 22}px;width:${(n / whole) * width}px;background:hsl(${(kind.length * 47 + kind.charCodeAt(0) * 13) % 360} 45% 28%)`;
    node.tabIndex = depth < 2 ? 0 : -1;
    node.onmouseenter = node.onfocus = () => { $("flame-readout").textContent = says; };
    node.onclick = go;
    box.append(node);
  };
  const share = (rows, left, depth) => {
    const names = `${rows[0].path} to ${last(rows[rows.length - 1].path)}`, n = total_of(rows);
    if ((n / whole) * width >= 2) block(`${rows.length} modules`, `${rows.length} modules, ${names}`, n, rows[0].kind, left, depth, () => look(parent(rows[0].path), rows));
  };
  const place = (row, n, rows, left, depth) => {
    block(`${last(row.path) || "(model)"} ${row.kind}`, `${row.path || "(model)"} ${row.kind}`, n, row.kind, left, depth,
      () => look(root === row.path && !part ? parent(row.path) : row.path, null));
    let at = left, narrow = [], from = left;
    const end = () => { if (narrow.length) share(narrow, from, depth + 1); narrow = []; };
    for (const child of rows) {
      const wide = (size(child) / whole) * width;
      if (wide >= NARROW) { end(); place(child, size(child), children.get(child.path) || [], at, depth + 1); }
      else if (wide > 0) { if (!narrow.length) from = at; narrow.push(child); }
      at += wide;
      if (narrow.length && at - from >= SHARED) end();
    }
    end();
  };
  place(top, part ? total_of(part) : size(top), part || children.get(root) || [], 0, 0);
  box.style.height = `${(deepest + 1) * 22}px`;
};
for (const button of document.querySelectorAll("[data-by]")) {
  button.onclick = () => {
    by = button.dataset.by;
    for (const other of document.querySelectorAll("[data-by]")) other.setAttribute("aria-pressed", String(other === button));
    flame();
  };
}

// --- operators: a table that sorts and filters --------------------------------------------
const columns = [["overload", 0], ["calls", 1], ["FLOPs", 2], ["bytes moved", 3]];
let sorted = 2, downwards = true;
const rows = () => {
  const wanted = $("filter").value.toLowerCase();
  const found = D.table.filter((r) => r[0].toLowerCase().includes(wanted));
  found.sort((a, b) => (a[sorted] < b[sorted] ? -1 : a[sorted] > b[sorted] ? 1 : 0) * (downwards ? -1 : 1));
  $("operators").tBodies[0].replaceChildren(...found.map((r) => {
    const row = make("tr");
    row.append(make("th", r[0], { scope: "row" }), make("td", r[1].toLocaleString("en"), { class: "n" }),
      make("td", count(r[2]), { class: "n" }), make("td", bytes(r[3]), { class: "n" }));
    return row;
  }));
};
const head = make("tr");
for (const [name, at] of columns) {
  const cell = make("th", undefined, { scope: "col", "aria-sort": at === sorted ? "descending" : "none" }), button = make("button", name, { type: "button" });
  if (at) cell.className = "n";
  button.onclick = () => {
    downwards = sorted === at ? !downwards : at > 0;
    sorted = at;
    for (const other of head.children) other.setAttribute("aria-sort", "none");
    cell.setAttribute("aria-sort", downwards ? "descending" : "ascending");
    rows();
  };
  cell.append(button);
  head.append(cell);
}
$("operators").tHead.append(head);
$("filter").oninput = rows;

// --- theme and size ------------------------------------------------------------------------
const setTheme = (dark) => {
  document.documentElement.classList.toggle("dark", dark);
  $("theme").setAttribute("aria-pressed", String(dark));
  draw();
};
const asked = new URLSearchParams(location.search).get("theme");
$("theme").onclick = () => setTheme(!document.documentElement.classList.contains("dark"));
let waiting = 0;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { chart.setSize({ width: $("chart").clientWidth, height: 340 }); flame(); }, 60);
});
setTheme(asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
flame();
rows();
$("readout").textContent = describe(peak);
showAlive(peak);
