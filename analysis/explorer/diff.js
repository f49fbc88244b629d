// Two sources next to each other, line by line.

const CONTEXT = 3; // unchanged lines that stay visible around a change

/** Pairs of places in two lists with the greatest sum of `score`, in order; a place without partner is null. */
function aligned(left, right, score) {
  const best = Array.from({ length: left.length + 1 }, () => new Float64Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      const paired = score(left[i], right[j]);
      best[i][j] = Math.max(best[i + 1][j], best[i][j + 1], paired > 0 ? paired + best[i + 1][j + 1] : 0);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < left.length || j < right.length;) {
    const paired = i < left.length && j < right.length ? score(left[i], right[j]) : 0;
    if (paired > 0 && best[i][j] === paired + best[i + 1][j + 1]) pairs.push([i++, j++]);
    else if (j === right.length || (i < left.length && best[i][j] === best[i + 1][j])) pairs.push([i++, null]);
    else pairs.push([null, j++]);
  }
  return pairs;
}

const words = line => line.match(/\w+|[^\s\w]/g) ?? [];

/** How alike two lines are, from 0 to 1: twice their common words over all; 0 where less than half agrees. */
function likeness(line, other) {
  const left = words(line), right = words(other), unused = [...right];
  if (!left.length || !right.length) return 0;
  let common = 0;
  for (const word of left) {
    const place = unused.indexOf(word);
    if (place < 0) continue;
    unused.splice(place, 1);
    common++;
  }
  const found = 2 * common / (left.length + right.length);
  return found > 0.5 ? found : 0;
}

/** Rows of a diff: { left, right, same }, places in both lists of lines or null. Indentation is no change. */
function diffOf(before, after) {
  const weight = line => (/\w{2}/.test(line) ? 2 + line.length / 100 : 0.3); // braces and empty lines align last
  const rows = [];
  let removed = [], added = [];
  const flush = () => { // lines of one change that resemble each other stand next to each other
    for (const [i, j] of aligned(removed, added, (x, y) => likeness(before[x], after[y]))) {
      rows.push({ left: i === null ? null : removed[i], right: j === null ? null : added[j], same: false });
    }
    removed = [];
    added = [];
  };
  for (const [left, right] of aligned(before, after, (x, y) => (x.trim() === y.trim() ? weight(x.trim()) : 0))) {
    if (right === null) removed.push(left);
    else if (left === null) added.push(right);
    else {
      flush();
      rows.push({ left, right, same: true });
    }
  }
  flush();
  return rows;
}

/** A line with what differs from its partner marked: all between the common beginning and the common end. */
function markedLine(line, partner) {
  const here = words(line), there = words(partner), shorter = Math.min(here.length, there.length);
  let first = 0, last = 0, from = 0, to = line.length;
  while (first < shorter && here[first] === there[first]) first++;
  while (last < shorter - first && here.at(-1 - last) === there.at(-1 - last)) last++;
  for (const word of here.slice(0, first)) from = line.indexOf(word, from) + word.length;
  for (const word of here.slice(here.length - last).reverse()) to = line.lastIndexOf(word, to - 1);
  from += line.slice(from).search(/\S|$/);
  return to > from ? [line.slice(0, from), el('mark', {}, line.slice(from, to)), line.slice(to)] : [line];
}

/** How many lines a source's leading comment has. */
function headLength(lines) {
  const end = lines.findIndex(line => line.trim() && !line.startsWith('//'));
  return end < 0 ? lines.length : end;
}

/** Rows in blocks that are shown or folded: the comments at the head, and unchanged lines away from changes. */
function folded(rows, head) {
  const blocks = head.length ? [{ title: 'Comment at the head', shown: false, rows: head }] : [];
  rows.forEach((row, place) => {
    const shown = rows.slice(Math.max(0, place - CONTEXT), place + CONTEXT + 1).some(near => !near.same);
    if (blocks.at(-1)?.shown !== shown || place === 0) blocks.push({ title: 'Unchanged', shown, rows: [] });
    blocks.at(-1).rows.push(row);
  });
  for (const block of blocks) block.shown ||= block.rows.length <= 2;
  return blocks;
}

/** Both sources in one table, so that they scroll together; one below the other on a phone. */
async function sourceDiff(a, b) {
  const [before, after] = [KERNELS.get(a), KERNELS.get(b)], sources = await part('sources');
  if (!(before.source in sources) || !(after.source in sources)) {
    return empty('One of the two is a library function, whose source is not here.');
  }
  if (before.source === after.source) {
    const note = el('p', {}, 'Both are built from ', code(after.source), ' with different template arguments.');
    return el('div', { class: 'card' }, note, templateTable(before, after));
  }
  const lines = [before, after].map(kernel => sources[kernel.source].trimEnd().split('\n'));
  const heads = lines.map(headLength), inHead = (side, place) => (place < heads[side] ? place : null);
  const head = Array.from({ length: Math.max(...heads) }, (_, place) => (
    { left: inHead(0, place), right: inHead(1, place), same: true }));
  const shifted = (place, side) => (place === null ? null : place + heads[side]);
  const body = diffOf(...lines.map((all, side) => all.slice(heads[side])))
    .map(({ left, right, same }) => ({ left: shifted(left, 0), right: shifted(right, 1), same }));
  return diffTable([before, after], lines, folded(body, head), narrow());
}

function templateTable(before, after) {
  const parse = text => new Map((text ?? '').split(', ').filter(Boolean).map(argument => argument.split('=')));
  const [old, now] = [parse(before.template), parse(after.template)];
  const rows = unique([...old.keys(), ...now.keys()]).map(name => {
    const look = { class: old.get(name) === now.get(name) ? null : 'better' };
    return [name, [old.get(name) ?? '–', look], [now.get(name) ?? '–', look]];
  });
  return table(['', before.label, after.label], rows);
}

function diffTable(kernels, lines, blocks, stacked) {
  const numberCell = place => el('td', { class: 'number' }, place === null ? '' : String(place + 1));
  const codeCell = (side, { left, right, same }, look = '') => {
    const [place, other] = side ? [right, left] : [left, right];
    const state = place === null ? 'none' : same ? '' : side ? 'added' : 'removed';
    const line = place === null ? '' : lines[side][place];
    return el('td', { class: `${state} ${look}` }, same || other === null ? line : markedLine(line, lines[1 - side][other]));
  };
  const both = row => [
    el('tr', {}, numberCell(row.left), codeCell(0, row), numberCell(row.right), codeCell(1, row, 'second'))];
  const single = row => (row.same ? [row.right === null ? 0 : 1] : [0, 1])
    .filter(side => [row.left, row.right][side] !== null)
    .map(side => el('tr', {}, numberCell([row.left, row.right][side]), codeCell(side, row)));
  const bodies = blocks.flatMap(block => {
    const body = el('tbody', { hidden: !block.shown }, block.rows.map(stacked ? single : both));
    return block.shown ? [body] : [unfoldRow(block, body, stacked ? 2 : 4), body];
  });
  const columns = stacked ? ['number', 'code'] : ['number', 'code', 'number', 'code'];
  const names = stacked ? [kernels.map(kernel => kernel.source).join(' → ')] : kernels.map(kernel => kernel.source);
  return el('table', { class: 'diff' },
    el('colgroup', {}, columns.map(name => el('col', { class: name }))),
    el('thead', {}, el('tr', {}, names.map(name => el('th', { scope: 'col', colspan: 2 }, name)))), bodies);
}

function unfoldRow(block, body, columns) {
  const toggle = event => {
    body.hidden = !body.hidden;
    event.target.setAttribute('aria-expanded', String(!body.hidden));
  };
  const text = `⋯ ${block.title}, ${block.rows.length} lines`;
  const button = el('button', { type: 'button', 'aria-expanded': 'false', onclick: toggle }, text);
  return el('tbody', {}, el('tr', {}, el('td', { colspan: columns }, button)));
}
