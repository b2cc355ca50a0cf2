// Filters and folded variants, kept behind the # of the address, so that a view can be shared.
{
  const form = document.querySelector(".filters");
  const toggles = [...document.querySelectorAll("[data-toggle]")];
  const fields = form ? [...form.elements].filter((field) => field.name) : [];
  const fits = (data, wanted) => Object.entries(wanted).every(
    ([name, value]) => !(name in data) || data[name].split("|").includes(value));
  const apply = () => {
    const wanted = Object.fromEntries(fields.filter((f) => f.value).map((f) => [f.name, f.value]));
    let shown = 0;
    const rows = [...document.querySelectorAll("tr[data-row]")];
    for (const row of rows) {
      row.hidden = !fits(row.dataset, wanted);
      shown += !row.hidden;
    }
    for (const head of document.querySelectorAll("tr.family")) {
      const own = [...head.parentElement.rows].filter((row) => "row" in row.dataset);
      head.hidden = own.length > 0 && own.every((row) => row.hidden);
    }
    for (const table of document.querySelectorAll("table.matrix")) {
      const heads = [...table.tHead.rows[0].cells];
      heads.forEach((head, column) => {
        const hidden = !fits(head.dataset, wanted);
        for (const row of table.rows) if (row.cells[column]) row.cells[column].hidden = hidden;
      });
      const columns = heads.slice(1).some((head) => !head.hidden);
      table.closest(".scroll").hidden = !columns || ![...table.tBodies[0].rows].some((row) => !row.hidden);
    }
    if (form) form.querySelector("output").value = Object.keys(wanted).length ? `${shown} of ${rows.length} rows` : "";
  };
  const fold = () => toggles.forEach((box) => {
    const target = box.dataset.toggle;
    const tables = target === "matrix" ? document.querySelectorAll("table.foldable") : [document.getElementById(target)];
    tables.forEach((table) => table.classList.toggle("folded", !box.checked));
  });
  const store = () => {
    const state = new URLSearchParams();
    for (const field of fields) if (field.value) state.set(field.name, field.value);
    if (toggles.some((box) => box.checked)) state.set("variants", "shown");
    history.replaceState(null, "", `#${state}`);
  };
  const restore = () => {
    if (location.hash.length > 1 && !location.hash.includes("=")) return;
    const state = new URLSearchParams(location.hash.slice(1));
    for (const field of fields) {
      const value = state.get(field.name) ?? "";
      field.value = [...field.options].some((option) => option.value === value) ? value : "";
    }
    toggles.forEach((box) => { box.checked = state.get("variants") === "shown"; });
    apply();
    fold();
  };
  for (const node of document.querySelectorAll(".filters, .toggle")) node.hidden = false;
  form?.addEventListener("change", () => { apply(); store(); });
  form?.addEventListener("reset", () => setTimeout(() => { apply(); store(); }));
  toggles.forEach((box) => box.addEventListener("change", () => { fold(); store(); }));
  addEventListener("hashchange", restore);
  fold();
  restore();
}
