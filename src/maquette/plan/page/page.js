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

const xs = Float64Array.from({ length: N }, (_, i) => i);
const stacked = () => {
  const sums = [], running = new Float64Array(N);
  for (let k = 0; k < K; k++) {
    for (let i = 0; i < N; i++) running[i] += levels[k][i];
    sums.push(running.slice());
  }
  return sums.reverse();  // the whole first, so that the lower ones are drawn over it
};
const table = [xs, ...stacked()];
const shown = D.categories.map((name, k) => [name, k]).reverse();
let chart = null, cursor = peak;

const describe = (i) => {
  if (i >= D.operators.name.length) return `after the step: ${bytes(total[i])} in use`;
  const o = D.operators, place = [D.modules[o.module[i]] || "(model)", D.lines[o.line[i]]].filter(Boolean).join("  ");
  return `${i}: ${D.names[o.name[i]]} (${D.phases[o.phase[i]]})  ${bytes(total[i])} in use  ${count(o.flops[i])} FLOPs  ${place}`;
};

const draw = () => {
  const styles = getComputedStyle(document.documentElement), text = styles.getPropertyValue("--dim"), grid = styles.getPropertyValue("--line");
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  if (chart) chart.destroy();
  chart = new uPlot({
    width: $("chart").clientWidth, height: 340,
    scales: { x: { time: false }, y: { range: (u, low, high) => [0, high * 1.05 || 1] } },
    axes: [{ ...axis, label: "operator", labelFont: "13px system-ui", stroke: text },
           { ...axis, size: 78, incrs: Array.from({ length: 62 }, (_, i) => 2 ** i), values: (u, ticks) => ticks.map(bytes) }],
    series: [{ label: "operator" }, ...shown.map(([name, k]) => ({
      label: name, stroke: color(k), fill: color(k), width: 1, points: { show: false },
      value: (u, v, s, i) => (i == null ? "" : bytes(levels[k][i])),
    }))],
    hooks: {
      setCursor: [(u) => { if (u.cursor.idx != null) { cursor = u.cursor.idx; $("readout").textContent = describe(cursor); } }],
      draw: [(u) => {
        const x = u.valToPos(peak, "x", true), y = u.valToPos(total[peak], "y", true), c = u.ctx;
        c.save(); c.strokeStyle = c.fillStyle = styles.getPropertyValue("--text"); c.lineWidth = devicePixelRatio;
        c.setLineDash([4, 4]); c.beginPath(); c.moveTo(x, u.bbox.top); c.lineTo(x, u.bbox.top + u.bbox.height); c.stroke();
        c.font = `${12 * devicePixelRatio}px system-ui`; c.textAlign = x > u.bbox.left + u.bbox.width / 2 ? "right" : "left";
        c.fillText(` peak ${bytes(total[peak])} `, x, Math.max(y - 4 * devicePixelRatio, u.bbox.top + 12 * devicePixelRatio)); c.restore();
      }],
    },
  }, table, $("chart"));
  chart.over.addEventListener("click", () => showAlive(cursor));
};

const showAlive = (i) => {
  const alive = new Map();
  for (let e = 0; e <= moment[i]; e++) {
    const a = D.events.allocation[e], left = (alive.get(a) || 0) + D.events.bytes[e];
    if (left > 0) alive.set(a, left); else alive.delete(a);
  }
  const rows = [...alive].sort((p, q) => q[1] - p[1]), list = make("table");
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

$("chart").addEventListener("keydown", (event) => {
  const step = event.shiftKey ? Math.max(1, Math.round(N / 50)) : 1;
  const to = { ArrowLeft: cursor - step, ArrowRight: cursor + step, Home: 0, End: N - 1, p: peak, P: peak }[event.key];
  if (event.key === "Enter") showAlive(cursor);
  else if (to === undefined) return;
  else {
    cursor = Math.min(Math.max(to, 0), N - 1);
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
let by = "activation_bytes", root = "";
const size = (row) => row[by], told = (n) => (by === "flops" ? `${count(n)} FLOPs` : bytes(n));
const flame = () => {
  const box = $("flame"), width = box.clientWidth, top = D.tree.find((r) => r.path === root), whole = size(top) || 1;
  box.replaceChildren();
  let deepest = 0;
  const place = (row, left, depth) => {
    const wide = (size(row) / whole) * width;
    if (wide < 2) return;
    deepest = Math.max(deepest, depth);
    const name = row.path.split(".").pop() || "(model)", node = make("button", `${name} ${row.kind}`, { type: "button" });
    const says = `${row.path || "(model)"} ${row.kind}: ${told(size(row))}, ${(100 * size(row) / (size(D.tree[0]) || 1)).toFixed(1)} % of the whole`;
    node.setAttribute("aria-label", says);
    node.style.cssText = `left:${left}px;top:${depth * 22}px;width:${wide}px;background:hsl(${(row.kind.length * 47 + row.kind.charCodeAt(0) * 13) % 360} 45% 28%)`;
    node.tabIndex = depth < 2 ? 0 : -1;
    node.onmouseenter = node.onfocus = () => { $("flame-readout").textContent = says; };
    node.onclick = () => { root = root === row.path ? row.path.slice(0, Math.max(row.path.lastIndexOf("."), 0)) : row.path; flame(); };
    box.append(node);
    let at = left;
    for (const child of children.get(row.path) || []) { place(child, at, depth + 1); at += (size(child) / whole) * width; }
  };
  place(top, 0, 0);
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
