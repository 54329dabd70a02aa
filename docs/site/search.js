// The search of the documentation. It fetches what the pages say once somebody
// types, and looks for sections that have all words.
"use strict";
(() => {
  const input = document.getElementById("search"), results = document.getElementById("results");
  const root = input.dataset.root, most = 25, around = 90;
  let sections; // a promise of them, once somebody types

  const load = () => sections ??= fetch(root + "search.json").then((answer) => {
    if (!answer.ok) throw new Error(`search.json: ${answer.status}`);
    return answer.json();
  }).then((list) => list.map((s) => ({ ...s, heading: `${s.h ?? ""} ${s.t}`.toLowerCase(), text: s.x.toLowerCase(), terms: new Set((s.d ?? "").toLowerCase().split(" ")) })))
    .catch((failure) => { sections = undefined; throw failure; });

  // score says how well a section fits: words in its heading count most, then those
  // that one of its tables explains.
  function score(section, words) {
    let sum = 0;
    for (const word of words) {
      if (section.heading.split(/[^\p{L}\p{N}._-]+/u).includes(word)) sum += 20;
      else if (section.heading.includes(word)) sum += 10;
      else if (section.terms.has(word)) sum += 5;
      else if (section.text.includes(word)) sum += 1;
      else return 0;
    }
    return sum;
  }

  function make(tag, ...children) {
    const element = document.createElement(tag);
    element.append(...children);
    return element;
  }

  // excerpt is the text around the first word, with the word marked.
  function excerpt(section, words) {
    const at = words.map((word) => [section.text.indexOf(word), word.length]).filter(([i]) => i >= 0).sort((a, b) => a[0] - b[0])[0];
    if (!at) return make("p", section.x.slice(0, 2 * around));
    const [i, length] = at, from = Math.max(0, i - around);
    return make("p", from > 0 ? "…" : "", section.x.slice(from, i), make("mark", section.x.slice(i, i + length)), section.x.slice(i + length, i + length + around), "…");
  }

  function show(list, words) {
    const items = list.map((section) => {
      const link = make("a", section.h ? `${section.t}: ${section.h}` : section.t);
      link.href = root + section.f;
      return make("li", link, excerpt(section, words));
    });
    results.replaceChildren(items.length ? make("ul", ...items) : make("p", "No section has all these words."));
    results.hidden = false;
  }

  async function search() {
    const asked = input.value, words = asked.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 8);
    if (words.length === 0) {
      results.hidden = true;
      return;
    }
    try {
      const all = await load();
      if (input.value !== asked) return; // somebody has typed on
      const ranked = all.map((section) => [score(section, words), section]).filter(([points]) => points > 0);
      ranked.sort((a, b) => b[0] - a[0]);
      show(ranked.slice(0, most).map(([, section]) => section), words);
    } catch {
      results.replaceChildren(make("p", "The search cannot be loaded. The list of pages is beside."));
      results.hidden = false;
    }
  }

  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      input.value = "";
      results.hidden = true;
    }
  });
  results.addEventListener("click", (event) => { // a link into this very page
    if (event.target.closest("a")) results.hidden = true;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    }
  });
})();
