// Links to the sections that a page shows, below its title.

function showSections() {
  const sections = [...document.querySelectorAll("section")].filter(section => !section.hidden);
  document.querySelector("nav").append(...sections.map(section =>
    element("a", {href: `#${section.id}`}, section.querySelector("h2").textContent)));
}
