// Charts of rates: what the server has kept is drawn, and asked for anew while somebody looks.
"use strict";
{
  const EVERY_MS = 2000;
  const FONT = "12px Inter, system-ui, sans-serif";
  const TIMES = [
    [60, "{HH}:{mm}", null, null, null, null, null, null, 1], // seconds between marks, and how they look
    [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
  ];
  const SPAN_S_MIN = 60; // of what is drawn, when there is little yet
  const drawn = new Map(); // element -> its plot

  const color = (element, name) => {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    element.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const text = (value) => (value == null ? "–" : `${short.format(value)}/s`);

  const options = (element, names) => {
    const muted = color(element, "--muted");
    const line = color(element, "--line");
    const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    return {
      width: Math.max(element.clientWidth, 120),
      height: 190,
      cursor: { drag: { x: false, y: false } },
      scales: {
        y: { range: (_, least, most) => [0, Math.max(most * 1.1, 1)] },
      },
      axes: [
        { ...axis, space: 80, values: TIMES, font: FONT },
        { ...axis, size: 56, font: FONT, values: (_, ticks) => ticks.map((tick) => short.format(tick)) },
      ],
      series: [
        { label: "Time", value: "{HH}:{mm}:{ss}" },
        ...names.map(([label, name]) => ({
          label,
          stroke: color(element, name),
          width: 2,
          points: { show: false },
          value: (_, value) => text(value),
        })),
      ],
    };
  };

  const names = (element) =>
    element.dataset.series.split(";").map((each) => each.split("=").map((word) => word.trim()));

  // A chart of a moment has no width: it begins a minute ago at the latest.
  const widened = ([times, ...columns]) => {
    const first = times.length ? times.at(-1) - SPAN_S_MIN : Date.now() / 1000 - SPAN_S_MIN;
    if (times.length > 1 && times[0] <= first) return [times, ...columns];
    return [[first, ...times], ...columns.map((column) => [null, ...column])];
  };

  const draw = (element, data) => {
    let plot = drawn.get(element);
    if (plot === undefined) {
      element.replaceChildren();
      plot = new uPlot(options(element, names(element)), data, element);
      drawn.set(element, plot);
    } else {
      plot.setData(data);
    }
  };

  const fetchAll = async () => {
    for (const element of document.querySelectorAll("[data-chart]")) {
      if (document.hidden) continue;
      try {
        const reply = await fetch(element.dataset.chart, { headers: { "HX-Request": "true" } });
        if (!reply.ok) throw new Error(reply.statusText);
        draw(element, widened((await reply.json()).columns));
        element.removeAttribute("data-stale");
      } catch {
        element.setAttribute("data-stale", ""); // the next round may succeed; what is drawn stays
      }
    }
  };

  const again = async () => {
    await fetchAll();
    setTimeout(again, EVERY_MS);
  };

  document.addEventListener("DOMContentLoaded", () => {
    if (!document.querySelector("[data-chart]")) return;
    again();
    new ResizeObserver((entries) => {
      for (const { target } of entries) {
        const plot = drawn.get(target);
        if (plot && target.clientWidth !== plot.width) {
          plot.setSize({ width: Math.max(target.clientWidth, 120), height: plot.height });
        }
      }
    }).observe(document.querySelector("[data-chart]"));
  });

  document.addEventListener("aerobee:theme", () => {
    for (const [element, plot] of [...drawn]) {
      const { data } = plot;
      plot.destroy();
      drawn.delete(element);
      draw(element, data);
    }
  });
}
