// Steps through the snapshots of a board one at a time; without it, all of them are listed.
for (const viewer of document.querySelectorAll(".viewer")) {
  const examples = [...viewer.children];
  if (examples.length < 2) continue;
  const bar = document.createElement("div");
  bar.className = "stepper";
  const [back, next] = ["Previous", "Next"].map((label) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    return button;
  });
  const place = document.createElement("span");
  place.setAttribute("aria-live", "polite");
  bar.append(back, next, place);
  viewer.prepend(bar);
  let current = 0;
  const show = (index) => {
    current = index;
    examples.forEach((example, each) => { example.hidden = each !== index; });
    back.disabled = index === 0;
    next.disabled = index === examples.length - 1;
    place.textContent = `example ${index + 1} of ${examples.length}`;
  };
  back.addEventListener("click", () => show(current - 1));
  next.addEventListener("click", () => show(current + 1));
  show(0);
}
