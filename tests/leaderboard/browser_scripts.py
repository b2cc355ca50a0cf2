"""What tests run inside of a page."""

from __future__ import annotations

CONTRASTS = """
const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) =>
  0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const backdrop = (node) => {
  for (; node; node = node.parentElement) {
    const color = parse(getComputedStyle(node).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const poor = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!own || node.matches("script, svg *")) continue;
  const [a, b] = [parse(getComputedStyle(node).color), backdrop(node)].map(luminance);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push(node.outerHTML.slice(0, 80) + " " + ratio.toFixed(2));
}
return poor;
"""
"""Every text whose contrast with its background is too low."""

SCROLLED = """
const box = document.querySelector(".board");
box.scrollIntoView({behavior: "instant"});
box.scrollTo(200, 20);
const name = box.querySelector("tbody:last-of-type tr:last-child th").getBoundingClientRect();
const head = box.querySelector("thead th").getBoundingClientRect();
const frame = box.getBoundingClientRect();
return [box.scrollLeft, box.scrollTop, name.left - frame.left, name.width, head.top - frame.top];
"""
"""Where names and heads of a matrix are once it is scrolled."""

WITNESS = "window.alert = (words) => { window.ran = words; };"
"""An alert leaves a trace that a test can look for."""

TOO_WIDE = """
const seen = (node) => node.getClientRects().length && !node.closest(".hidden, svg *");
return [...document.querySelectorAll("body *")]
  .filter((node) => seen(node) && node.getBoundingClientRect().right > arguments[0] + 1)
  .map((node) => node.outerHTML.slice(0, 80));
"""
"""Every element that reaches beyond a width, also inside of boxes that would scroll."""
