// Adds a sort button to every column of a sortable table. Without it, pages read the same.
// Rows stay in their group, below its heading; rows without a rank stay where they are.
for (const table of document.querySelectorAll("table.sortable")) {
  const headers = [...table.tHead.rows[0].cells];
  const bodies = [...table.tBodies].filter((body) => !body.matches(".missing"));
  const loose = (body) => [...body.rows].filter((row) => !("fixed" in row.dataset));
  if (!bodies.some((body) => loose(body).length > 1)) continue;
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    const text = cell?.dataset.value ?? cell?.textContent.trim() ?? "";
    return text === "" ? null : Number.isNaN(Number(text)) ? text : Number(text);
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en");
  headers.forEach((header, column) => {
    if (header.matches(".nosort")) return;
    const button = document.createElement("button");
    button.type = "button";
    if (header.querySelector("a")) button.setAttribute("aria-label", `sort by ${header.querySelector("a").textContent}`);
    else button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const now = header.getAttribute("aria-sort");
      const first = header.dataset.first ?? "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = now === first ? other : first;
      headers.forEach((each) => each.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      for (const body of bodies) {
        const keyed = loose(body).map((row) => [valueOf(row, column), row]);
        keyed.sort(([a], [b]) =>
          a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b));
        body.append(...keyed.map(([, row]) => row));
      }
    });
  });
}
