// What makes a page live: graphs that zoom, pan and are searched, tooltips, a legend that hides, tables that are sorted
// and filtered. Without it the page shows everything, too. Nothing is fetched.
(function (root) {
  "use strict";
  root.classList.add("live");
  const all = (selector, inside) => Array.from((inside || root).querySelectorAll(selector));

  // the tooltip: what stands in the <title> of what the pointer is on
  const tip = root.appendChild(document.createElement("div"));
  tip.className = "tip";
  all("svg g").forEach((group) => {
    const title = Array.from(group.children).find((child) => child.tagName === "title");
    if (!title) return;
    group.dataset.tip = title.textContent;
    title.remove();
    group.setAttribute("aria-label", group.dataset.tip);
  });
  root.addEventListener("pointermove", (event) => {
    const group = event.target.closest && event.target.closest("g[data-tip]");
    tip.style.display = group ? "block" : "none";
    if (!group) return;
    tip.textContent = group.dataset.tip;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  });
  root.addEventListener("pointerleave", () => (tip.style.display = "none"));

  // a picture: its viewBox is what is looked at
  all(".picture").forEach((picture) => {
    const svg = picture.querySelector("svg");
    if (!svg) return;
    const flat = picture.classList.contains("line"); // a time line is stretched along one axis
    const size = svg.viewBox.baseVal;
    const whole = [size.x, size.y, size.width, size.height];
    let box = whole.slice();
    const show = () => {
      svg.setAttribute("viewBox", box.map((n) => +n.toFixed(3)).join(" "));
      if (flat) stretch();
    };
    const labels = all("text", svg);
    const stretch = () => {
      const wide = box[2] / (svg.clientWidth || whole[2]); // of a pixel: letters keep their width
      labels.forEach((label) => {
        const group = label.parentElement, lane = label.classList.contains("lane");
        const x = Number(label.getAttribute("x")), moved = lane ? box[0] + 6 * wide : x;
        label.setAttribute("transform", "translate(" + moved + " 0) scale(" + wide + " 1) translate(" + -x + " 0)");
        if (group.dataset.name === undefined) return;
        const room = Math.floor(group.querySelector("rect").width.baseVal.value / wide / 7);
        label.textContent = room > 0 ? group.dataset.name.slice(0, room) : "";
      });
    };
    if (flat) {
      svg.setAttribute("preserveAspectRatio", "none");
      svg.style.height = whole[3] + "px";
      addEventListener("resize", stretch);
      show();
    }
    const zoom = (factor, x, y) => {
      const most = 4, least = 1 / 400;
      const wide = Math.min(Math.max(box[2] * factor, whole[2] * least), whole[2] * most);
      const by = wide / box[2];
      box[0] = x - (x - box[0]) * by;
      box[2] = wide;
      if (!flat) {
        box[1] = y - (y - box[1]) * by;
        box[3] *= by;
      }
      show();
    };
    const at = (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return [point.x, point.y];
    };
    const middle = () => [box[0] + box[2] / 2, box[1] + box[3] / 2];
    const fit = () => {
      box = whole.slice();
      show();
    };
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(event.deltaY / 500), ...at(event));
    }, { passive: false });
    let from = null;
    svg.addEventListener("pointerdown", (event) => {
      from = at(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      const here = at(event);
      box[0] += from[0] - here[0];
      if (!flat) box[1] += from[1] - here[1];
      show();
    });
    ["pointerup", "pointercancel"].forEach((name) => svg.addEventListener(name, () => (from = null)));
    const act = { in: () => zoom(0.7, ...middle()), out: () => zoom(1 / 0.7, ...middle()), fit };
    all("button[data-act]", picture).forEach((button) => button.addEventListener("click", act[button.dataset.act]));

    // search: marks what has the words, Enter goes from one to the next
    const field = picture.querySelector("input[type=search]"), found = picture.querySelector(".found");
    let hits = [], place = -1;
    const groups = all("g[data-tip]", svg);
    const search = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      hits = words.length ? groups.filter((g) => words.every((w) => g.dataset.tip.toLowerCase().includes(w))) : [];
      groups.forEach((g) => g.classList.toggle("hit", hits.includes(g)));
      place = -1;
      found.textContent = words.length ? hits.length + " found" : "";
    };
    const next = () => {
      if (!hits.length) return;
      place = (place + 1) % hits.length;
      const bounds = hits[place].getBBox();
      const wide = flat ? Math.max(bounds.width * 6, whole[2] / 400) : Math.min(whole[2], 900);
      const by = wide / box[2];
      box[2] = wide;
      box[0] = bounds.x + bounds.width / 2 - wide / 2;
      if (!flat) {
        box[3] *= by;
        box[1] = bounds.y + bounds.height / 2 - box[3] / 2;
      }
      found.textContent = place + 1 + " of " + hits.length;
      show();
    };
    if (field) {
      field.addEventListener("input", search);
      field.addEventListener("keydown", (event) => {
        if (event.key === "Enter") next();
        if (event.key === "Escape") {
          field.value = "";
          search();
          fit();
        }
      });
    }
  });

  // the legend: what is switched off is faint
  all(".legend input").forEach((box) => {
    box.addEventListener("change", () => {
      all('[data-place="' + CSS.escape(box.value) + '"]').forEach((e) => {
        if (e.tagName === "TR") e.style.display = box.checked ? "" : "none";
        else e.classList.toggle("dim", !box.checked);
      });
    });
  });

  // tables: a click on a heading sorts, the field above filters
  all("table").forEach((table) => {
    const body = table.tBodies[0], heads = all("th", table);
    const value = (row, k) => {
      const cell = row.cells[k];
      return cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent;
    };
    heads.forEach((head, k) => head.addEventListener("click", () => {
      const down = !head.classList.contains("down");
      heads.forEach((other) => other.classList.remove("up", "down"));
      head.classList.add(down ? "down" : "up");
      Array.from(body.rows)
        .sort((a, b) => {
          const x = value(a, k), y = value(b, k);
          const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
          return down ? -order : order;
        })
        .forEach((row) => body.appendChild(row));
    }));
    const field = table.previousElementSibling && table.previousElementSibling.querySelector("input[type=search]");
    if (field) field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      Array.from(body.rows).forEach((row) => {
        row.hidden = !words.every((w) => row.textContent.toLowerCase().includes(w));
      });
    });
  });
})(document.currentScript.parentElement);
