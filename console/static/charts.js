// Charts of rates: what the server has kept is drawn, and asked for anew while somebody looks.
"use strict";
{
  const EVERY_MS = 2000;
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
        x: { range: (_, oldest, newest) => [Math.min(oldest, newest - SPAN_S_MIN), newest] },
        y: { range: (_, least, most) => [0, Math.max(most * 1.1, 1)] },
      },
      axes: [
        { ...axis, space: 80, values: "{HH}:{mm}" },
        { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => short.format(tick)) },
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
        draw(element, (await reply.json()).columns);
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
