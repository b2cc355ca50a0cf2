// Explanations on hover and by keyboard: every title becomes a tip that focus shows as well.
{
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  let owner = null;
  const show = (node) => {
    owner = node;
    tip.textContent = node.dataset.help;
    tip.hidden = false;
    const box = node.getBoundingClientRect();
    const below = box.bottom + tip.offsetHeight + 12 < innerHeight;
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${below ? box.bottom + 6 : Math.max(4, box.top - tip.offsetHeight - 6)}px`;
    node.setAttribute("aria-describedby", "tip");
  };
  const hide = () => {
    owner?.removeAttribute("aria-describedby");
    owner = null;
    tip.hidden = true;
  };
  for (const node of document.querySelectorAll("[title]")) {
    if (node.closest("svg")) continue;
    const holder = node.matches("th") ? node.querySelector("button, a") ?? node : node;
    holder.dataset.help = node.title;
    node.removeAttribute("title");
    if (!holder.matches("a, button, td") || (holder.matches("td") && !holder.querySelector("a"))) holder.tabIndex = 0;
  }
  for (const [over, out] of [["mouseover", "mouseout"], ["focusin", "focusout"]]) {
    document.addEventListener(over, ({ target }) => {
      const node = target.closest?.("[data-help]") ?? target.closest?.("th")?.querySelector("[data-help]");
      if (node) show(node);
    });
    document.addEventListener(out, hide);
  }
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") hide(); });
}
