// Draws every chart whose data the page holds, in the page's own colours, again where those change.
"use strict";
const kinds = { default: "#8250df", best: "#1a7f37", other: "#6e7781", headroom: "#d4572a", quiet: "#6e7781" };

// What Chart.js has no kind for: a line from low to high over a bar, and a rule across all.
const marks = {
  id: "marks",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea, scales: { x, y }, options: { ink, data } } = chart;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = ink;
    ctx.lineWidth = 1.5;
    data.bars.forEach((bar, i) => {
      if (bar.low == null || bar.high == null) return;
      const at = y.getPixelForValue(i), from = x.getPixelForValue(bar.low), to = x.getPixelForValue(bar.high);
      ctx.beginPath();
      for (const [ax, ay, bx, by] of [[from, at, to, at], [from, at - 4, from, at + 4], [to, at - 4, to, at + 4]]) {
        ctx.moveTo(ax, ay);
        ctx.lineTo(bx, by);
      }
      ctx.stroke();
    });
    if (data.rule != null) {
      const at = x.getPixelForValue(data.rule);
      ctx.setLineDash([5, 4]);
      ctx.beginPath();
      ctx.moveTo(at, chartArea.top);
      ctx.lineTo(at, chartArea.bottom);
      ctx.stroke();
    }
    ctx.restore();
  },
};

// Spans on lanes: rectangles over a chart that gives the axes.
const spans = {
  id: "spans",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea, scales: { x, y }, options: { data, tones } } = chart;
    const height = Math.min(18, (chartArea.bottom - chartArea.top) / data.labels.length * 0.7);
    ctx.save();
    for (const [lane, from, to, tone] of data.spans) {
      const left = x.getPixelForValue(from);
      ctx.fillStyle = tones[tone % tones.length];
      ctx.fillRect(left, y.getPixelForValue(lane) - height / 2, Math.max(x.getPixelForValue(to) - left, 0.5), height);
    }
    ctx.restore();
  },
};

const short = (text, narrow) => narrow && text.length > 22 ? text.slice(0, 21) + "\u2026" : text;

function drawLanes(canvas, data, style, narrow) {
  const ink = style.getPropertyValue("--ink").trim(), line = style.getPropertyValue("--line").trim();
  const tones = [0, 1, 2, 3, 4, 5, 6, 7].map(tone => style.getPropertyValue(`--tone${tone}`).trim());
  canvas.parentElement.style.height = `${60 + 26 * data.labels.length}px`;
  canvas.chart?.destroy();
  canvas.chart = new Chart(canvas, {
    type: "bar",
    data: { labels: data.labels.map(label => short(label, narrow)), datasets: [{ data: data.labels.map(() => null) }] },
    options: {
      indexAxis: "y", animation: false, maintainAspectRatio: false, events: [], data, tones,
      plugins: { legend: { display: false }, tooltip: { enabled: false } },
      scales: {
        x: { min: data.begin, max: data.end, ticks: { color: ink, maxTicksLimit: narrow ? 4 : 9 }, grid: { color: line },
             title: { display: true, text: data.unit, color: ink } },
        y: { ticks: { color: ink, autoSkip: false, font: { size: 11 } }, grid: { display: false } },
      },
    },
    plugins: [spans],
  });
  canvas.dataset.drawn = String(data.spans.length);
}

function draw(canvas) {
  const data = JSON.parse(document.getElementById(canvas.dataset.from).textContent);
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim(), line = style.getPropertyValue("--line").trim();
  const narrow = canvas.parentElement.clientWidth < 500;
  if (data.spans) return drawLanes(canvas, data, style, narrow);
  const ends = data.bars.map(bar => Math.max(bar.value, bar.high ?? bar.value)).concat(data.rule ?? 0);
  canvas.parentElement.style.height = `${60 + 24 * data.bars.length}px`;
  canvas.chart?.destroy();
  canvas.chart = new Chart(canvas, {
    type: "bar",
    data: {
      labels: data.bars.map(bar => short(bar.label, narrow)),
      datasets: [{ data: data.bars.map(bar => bar.value), backgroundColor: data.bars.map(bar => kinds[bar.kind]), barPercentage: 0.7 }],
    },
    options: {
      indexAxis: "y", animation: false, maintainAspectRatio: false, ink, data,
      plugins: { legend: { display: false }, tooltip: { callbacks: { title: items => data.bars[items[0].dataIndex].label } } },
      scales: {
        x: { beginAtZero: true, suggestedMax: Math.max(...ends) * 1.02, ticks: { color: ink, maxTicksLimit: narrow ? 4 : 9 }, grid: { color: line },
             title: { display: true, text: data.unit, color: ink } },
        y: { ticks: { color: ink, autoSkip: false, font: { size: 11 } }, grid: { display: false } },
      },
    },
    plugins: [marks],
  });
  canvas.dataset.drawn = String(data.bars.length);
}

const drawAll = () => document.querySelectorAll("canvas[data-from]").forEach(draw);
drawAll();
for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", drawAll);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(each => { each.open = true; }));
