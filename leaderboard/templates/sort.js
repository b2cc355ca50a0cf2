"use strict";
// Adds a sort button to every column of a sortable table. Without it, pages read the same.
for (const table of document.querySelectorAll("table.sortable")) {
  const headers = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2) continue;
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
    if (header.querySelector("a")) button.setAttribute("aria-label", `sort by ${header.textContent}`);
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
      const keyed = [...body.rows].map((row) => [valueOf(row, column), row]);
      keyed.sort(([a], [b]) =>
        a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b));
      body.append(...keyed.map(([, row]) => row));
    });
  });
}
