// Shows the nearest point of every line under the pointer. Reads only data- attributes; writes only text.
for (const svg of document.querySelectorAll("svg.curves")) {
  const [left, top, width, height] = JSON.parse(svg.dataset.frame);
  const lines = [...svg.querySelectorAll(".series")].map((line) => ({
    name: line.dataset.name,
    style: line.getAttribute("class").split(" ").pop(),
    points: JSON.parse(line.dataset.points),
  }));
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  svg.parentElement.append(tip);
  const rule = document.createElementNS("http://www.w3.org/2000/svg", "line");
  rule.setAttribute("y1", top);
  rule.setAttribute("y2", top + height);
  const cursor = svg.querySelector(".cursor");

  const hide = () => {
    tip.hidden = true;
    cursor.replaceChildren();
  };
  const show = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale;
    if (x < left - 4 || x > left + width + 4) return hide();
    const near = lines
      .filter((line) => line.points.length)
      .map((line) => ({ ...line, at: line.points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a)) }));
    if (!near.length) return hide();
    const main = near.reduce((a, b) => (Math.abs(b.at[0] - x) < Math.abs(a.at[0] - x) ? b : a));
    rule.setAttribute("x1", main.at[0]);
    rule.setAttribute("x2", main.at[0]);
    const dots = near.map((line) => {
      const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      dot.setAttribute("cx", line.at[0]);
      dot.setAttribute("cy", line.at[1]);
      dot.setAttribute("r", 3.2);
      dot.setAttribute("class", line.style);
      return dot;
    });
    cursor.replaceChildren(rule, ...dots);
    const head = document.createElement("b");
    head.textContent = `${svg.dataset.xLabel} ${main.at[2]}`;
    const rows = near.map((line) => {
      const row = document.createElement("span");
      row.className = `key ${line.style}`;
      row.textContent = near.length > 1 ? `${line.name}: ${line.at[3]}` : line.at[3];
      return row;
    });
    tip.replaceChildren(head, ...rows);
    tip.hidden = false;
    const figure = svg.parentElement.getBoundingClientRect();
    const place = box.left - figure.left + main.at[0] / scale;
    const flip = place > figure.width / 2;
    tip.style.left = `${place + (flip ? -tip.offsetWidth - 12 : 12)}px`;
    tip.style.top = `${box.top - figure.top + (top + 6) / scale}px`;
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
}
// A link to a folded list unfolds it.
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let box = target; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();
