// Tables sort by a click on a column's name, and long ones are folded. Without scripts everything is shown as it is.
for (const table of document.querySelectorAll('table[data-fold-after]')) {
  const body = table.tBodies[0];
  const limit = Number(table.dataset.foldAfter);
  let folded = body.rows.length > limit + 2;
  const button = document.createElement('button');
  const fold = () => {
    [...body.rows].forEach((row, number) => row.classList.toggle('hidden', folded && number >= limit));
    button.textContent = folded ? `Show all ${body.rows.length} rows` : `Show the first ${limit} rows`;
  };
  if (folded) {
    button.className = 'unfold';
    button.addEventListener('click', () => { folded = !folded; fold(); });
    table.parentElement.after(button);
    fold();
  }
  const key = (row, column) => {
    const shown = row.cells[column].textContent.trim();
    const number = parseFloat(shown.replaceAll('−', '-').replaceAll(',', ''));
    return Number.isNaN(number) ? shown : number;
  };
  const compare = (a, b) => {
    if (typeof a === 'number' && typeof b === 'number') return a - b;
    // Numbers before words: what could not be computed comes last in either order of numbers.
    if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
    return a.localeCompare(b);
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.classList.add('sortable');
    head.tabIndex = 0;
    const sort = () => {
      const descending = head.getAttribute('aria-sort') !== 'descending';
      for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      const rows = [...body.rows].sort((a, b) => {
        const x = key(a, column), y = key(b, column);
        if (typeof x !== typeof y) return compare(x, y);
        return descending ? compare(y, x) : compare(x, y);
      });
      for (const row of rows) body.appendChild(row);
      fold();
    };
    head.addEventListener('click', sort);
    head.addEventListener('keydown', event => { if (event.key === 'Enter') sort(); });
  });
}
