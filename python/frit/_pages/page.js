/* Marks everything that belongs to the kernel or line on which the mouse or the keyboard is. Without it the page has links for that. */
(() => {
  if (window.fritMarks) return;
  window.fritMarks = true;
  const mark = (event, on) => {
    const at = event.target instanceof Element && event.target.closest(".frit [data-k]");
    if (!at) return;
    for (const key of at.dataset.k.split(" "))
      for (const other of at.closest(".frit").querySelectorAll(`[data-k~="${key}"]`)) other.classList.toggle("hot", on);
  };
  for (const [name, on] of [["mouseover", true], ["mouseout", false], ["focusin", true], ["focusout", false]])
    document.addEventListener(name, (event) => mark(event, on));
})();
