"use strict";
// Sliders over planned points: every number and height that is shown stands in the data, none is made here.
const data = JSON.parse(document.getElementById("data").textContent);
const sliders = [...document.querySelectorAll("#sliders input")];
const rows = [...document.querySelectorAll("#errors tbody tr")];
const at = () => sliders.map((slider) => Number(slider.value));
const point = (setting) => data.points[setting.join(" ")];
const beyond = "Too many settings: this one was not planned.";

function say(id, text) {
  const place = document.getElementById(id);
  if (place) place.textContent = text;
}

function curve(release, axis, setting) {
  const svg = document.querySelectorAll(`[data-release="${release}"] svg`)[axis];
  const dots = svg.querySelectorAll("circle");
  let path = "", joined = false;
  data.axes[axis].places.forEach((x, value) => {
    const there = point(setting.map((other, number) => (number === axis ? value : other)));
    const y = there && there.heights[release];
    dots[value].setAttribute("class", value === setting[axis] ? "dot now" : "dot");
    dots[value].setAttribute("visibility", y ? "visible" : "hidden");
    if (y) {
      dots[value].setAttribute("cy", y);
      path += `${joined ? "L" : "M"}${x} ${y}`;
    }
    joined = Boolean(y);
  });
  svg.querySelector("path").setAttribute("d", path);
}

function show() {
  const setting = at();
  const now = point(setting);
  const declared = setting.every((value, axis) => value === data.axes[axis].declared);
  sliders.forEach((slider, axis) => {
    const shown = data.axes[axis].shown[setting[axis]];
    slider.parentElement.querySelector("output").textContent = shown;
    slider.setAttribute("aria-valuetext", shown);
  });
  const refused = now ? now.refused : beyond;
  say("state", refused || (declared ? "The policy as it stands." : "The policy with these lines:"));
  document.getElementById("state").classList.toggle("off", Boolean(refused));
  rows.forEach((row, release) => {
    const told = (now && now.releases[release]) || ["–", "–", "–", "–"];
    told.forEach((words, column) => { row.cells[column + 1].textContent = words; });
  });
  say("dropped", (now && now.dropped) || "not known");
  const writes = document.getElementById("writes");
  writes.hidden = declared || !now || !now.writes.length;
  writes.textContent = now ? now.writes.join("\n") : "";
  const list = document.getElementById("warnings");
  list.replaceChildren(...(now ? now.warnings : []).map((words) => {
    const item = document.createElement("li");
    item.textContent = words;
    return item;
  }));
  document.getElementById("back").hidden = declared;
  rows.forEach((_, release) => data.axes.forEach((_, axis) => curve(release, axis, setting)));
}

sliders.forEach((slider) => slider.addEventListener("input", show));
document.getElementById("back").addEventListener("click", () => {
  sliders.forEach((slider, axis) => { slider.value = data.axes[axis].declared; });
  show();
});
const chosen = document.getElementById("release");
if (chosen) chosen.addEventListener("change", () => {
  document.querySelectorAll("[data-release]").forEach((curves) => { curves.hidden = curves.dataset.release !== chosen.value; });
});
show();
