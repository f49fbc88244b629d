// A rung's tile as a picture: block, warp and thread from the catalogue's numbers, and the timeline of its head comment.

const CELLS = 256, SUMS = 16; // of a warp, and along an axis of a thread; where there are more, SUMS along each axis are drawn
const SIDE = 230, LINE_HIGH = 14, LETTER_WIDE = 6.7; // pixels: longer side of a tile, a line of text, a letter of a timeline
const ELEMENT_BYTES = { bf16: 2, fp16: 2 };
const WORK = [[/\bload|\bcopy|\bfetch/, 'load'], [/wgmma|mainloop|multipl|FMA/, 'multiply'], [/epilogue|\bstore|\bfill/, 'store']];

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.flat(Infinity).filter(isShown));
  return made;
}

const svgBox = (x, y, width, height, look) => svg('rect', { x, y, width, height, class: look });
const svgText = (x, y, text, anchor = 'middle') => svg('text', { x, y, 'text-anchor': anchor }, text);

function drawing(width, height, title, text, ...children) {
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `${title}. ${text}` },
    svg('title', {}, title), svg('desc', {}, text), ...children);
}

// ---- who has which sums of the tile ----------------------------------------------------------------------------------

/** What each row (m) and column (n) of the tile adds to the lane and the warp that hold a sum there: `sums` is as in
 *  variants.csv, "m: 8 thread, 8 lane, 2 warp; n: ...". `numbered`: whether it says which lane is where. */
function sumOwners(sums) {
  const factors = Object.fromEntries(sums.split('; ').map(axis => axis.split(': ')));
  const next = { lane: 1, warp: 1 }, owners = { numbered: !sums.includes('*0') };
  for (const axis of ['n', 'm']) {
    const parts = factors[axis].split(', ').map(factor => factor.match(/(\d+) (\w+)(?:\*(\d+))?/));
    const size = parts.reduce((product, [, count]) => product * count, 1);
    owners[axis] = { lane: Array(size).fill(0), warp: Array(size).fill(0) };
    let period = 1;
    for (const [, text, who, stride] of parts) {
      const count = Number(text);
      if (who !== 'thread') {
        const apart = Number(stride) || next[who]; // where lanes are numbered otherwise, only which is 0 is right
        for (let i = 0; i < size; i++) owners[axis][who][i] += Math.floor(i / period) % count * apart;
        next[who] *= count;
      }
      period *= count;
    }
  }
  return owners;
}

/** Neighbours with one value, as { from, to, value }; `at` are the places that count, gaps end a run. */
function runsOf(values, at = [...values.keys()]) {
  const runs = [];
  for (const [order, place] of at.entries()) {
    if (order && values[place] === runs.at(-1).value && at[order - 1] === place - 1) runs.at(-1).to = order + 1;
    else runs.push({ from: order, to: order + 1, value: values[place], place });
  }
  return runs;
}

const placesOf = (owner, warp, lane = null) => [...owner.warp.keys()]
  .filter(i => owner.warp[i] === warp && (lane === null || owner.lane[i] === lane));

// ---- block, warp, thread ---------------------------------------------------------------------------------------------

/** The block's tile of C with its warps, its tiles of A on the left and of B above, to scale. */
function blockDrawing({ tile_m: m, tile_n: n, tile_k: k, stages = 0 }, owners) {
  const scale = SIDE / Math.max(m, n), tiled = stages > 0, deep = tiled ? k * scale : 0, shift = 3 * Math.max(0, stages - 1);
  const x = 46 + deep + shift, y = 30 + deep + shift, wide = n * scale, high = m * scale;
  const behind = Array.from({ length: tiled ? stages : 0 }, (_, i) => 3 * (stages - 1 - i));
  const warps = runsOf(owners.m.warp).flatMap(rows => runsOf(owners.n.warp).map(columns => ({ rows, columns })));
  const text = `${m} by ${n} of C${tiled ? `, from ${m} by ${k} of A and ${k} by ${n} of B` : ''}`;
  return drawing(x + wide + 12, y + high + 22, 'Block', text,
    behind.map(by => svgBox(x - 6 - deep - by, y - by, deep, high, 'operand')),
    behind.map(by => svgBox(x - by, y - 6 - deep - by, wide, deep, 'operand')),
    tiled && svgText(x - 6 - deep / 2, y + high + 15, `k ${k}`), tiled && svgText(x - 12 - deep - shift, y + high / 2, 'A', 'end'),
    tiled && svgText(x + wide / 2, y - 12 - deep - shift, 'B'),
    warps.map(({ rows, columns }) => {
      const warp = rows.value + columns.value, size = [(columns.to - columns.from) * scale, (rows.to - rows.from) * scale];
      const at = [x + columns.from * scale, y + rows.from * scale];
      return [svgBox(...at, ...size, warp ? 'sums' : 'sums first'),
        size[0] >= 22 && size[1] >= LINE_HIGH && svgText(at[0] + size[0] / 2, at[1] + size[1] / 2 + 4, `w${warp}`)];
    }),
    svgText(x + wide / 2, y + high + 15, `n ${n}`), svgText(x - (tiled ? 12 + deep + shift : 8), y + 10, `m ${m}`, 'end'));
}

/** Of the first warp's part of the tile: runs of rows and columns of one lane; those that are drawn, `high` by `wide` sums. */
function warpPart(owners) {
  const [rows, columns] = [owners.m, owners.n].map(owner => runsOf(owner.lane, placesOf(owner, 0)));
  const cut = rows.length * columns.length > CELLS, [down, across] = [rows, columns].map(runs => runs.slice(0, cut ? SUMS : CELLS));
  const [height, width, high, wide] = [rows, columns, down, across].map(runs => runs.at(-1).to);
  return { down, across, height, width, high, wide, cut };
}

/** The first warp's part of the tile with its lanes; where it is large, its upper left corner. */
function warpDrawing(owners) {
  const { down, across, height, width, high, wide } = warpPart(owners), scale = Math.min(SIDE / high, SIDE / wide, 12);
  const text = `lanes of warp 0, ${height} by ${width} sums`;
  const cells = down.flatMap(row => across.map(column => ({ row, column, lane: row.value + column.value })));
  return drawing(wide * scale + 4, high * scale + 4, 'Warp', text, cells.map(({ row, column, lane }) => {
    const at = [2 + column.from * scale, 2 + row.from * scale];
    const size = [(column.to - column.from) * scale, (row.to - row.from) * scale];
    return [svgBox(...at, ...size, lane ? 'sums' : 'sums first'), owners.numbered && size[0] >= 18 && size[1] >= LINE_HIGH
      && svgText(at[0] + size[0] / 2, at[1] + size[1] / 2 + 4, String(lane))];
  }));
}

/** The first thread's sums; beside them, where it multiplies words of shared memory itself, those of one step of k. */
function threadDrawing({ tensor, stages = 0 }, owners) {
  const [rows, columns] = [owners.m, owners.n].map(owner => placesOf(owner, 0, 0));
  const placed = places => places.slice(0, SUMS).map((place, order, all) => {
    const gaps = all.slice(1, order + 1).filter((other, i) => other !== all[i] + 1).length;
    return { place, at: 13 * order + 5 * gaps, first: order === 0 || place !== all[order - 1] + 1 };
  });
  const [down, across] = [placed(rows), placed(columns)], read = !tensor && stages > 0, x = 46, y = 38;
  const text = `${rows.length} by ${columns.length} sums of thread 0${read ? ', and the words of A and of B that they multiply' : ''}`;
  return drawing(Math.max(110, x + across.at(-1).at + 20), y + down.at(-1).at + 17, 'Thread', text,
    down.map(row => across.map(column => svgBox(x + column.at, y + row.at, 12, 12, 'sums first'))),
    read && down.map(row => svgBox(x - 18, y + row.at, 12, 12, 'operand')),
    read && across.map(column => svgBox(x + column.at, y - 18, 12, 12, 'operand')),
    down.filter(row => row.first).map(row => svgText(x - 22, y + row.at + 10, String(row.place), 'end')),
    across.filter(column => column.first).map(column => svgText(x + column.at + 6, y - 22, String(column.place))));
}

/** What the numbers of a tile mean: sentences for block, warp and thread. */
function tileSentences({ tile_m: m, tile_n: n, tile_k: k, stages = 0, threads, cluster, dtype, tensor }, owners) {
  const bytes = (m + n) * k * (ELEMENT_BYTES[dtype] ?? 4), warps = 1 + owners.m.warp.at(-1) + owners.n.warp.at(-1);
  const others = threads / 32 - warps, part = warpPart(owners), kib = value => `${number(value / 1024)} KiB`;
  const [rows, columns] = [owners.m, owners.n].map(owner => placesOf(owner, 0, 0).length), sums = rows * columns;
  const some = (count, name) => `${number(count)} ${name}${count === 1 ? '' : 's'}`;
  const block = [
    `${m} × ${n} of C, held by ${some(warps, 'warp')}.`, others && `${others} more warps load, or have another tile.`,
    !stages && 'Nothing is kept in shared memory.',
    stages && `A step of ${k} along k brings ${kib(bytes)} of A and B for ${number(2 * m * n * k / bytes)} FLOP per byte.`,
    stages > 1 && `${stages} stages take ${kib(stages * bytes)}.`, cluster && `${cluster.replace('x', '×')} blocks form a cluster.`];
  const warp = [
    `${part.height} × ${part.width} of C, ${some(sums, 'sum')} for each lane.`, part.cut && `Drawn: ${part.high} × ${part.wide}.`];
  const thread = [
    `${rows} × ${columns} of C.`, tensor && 'The tensor cores multiply.',
    !tensor && stages && `${some(sums, 'multiply-add')} for ${rows + columns} words from shared memory.`,
    Math.max(rows, columns) > SUMS && `Drawn: the first ${SUMS} along an axis.`];
  return [block, warp, thread].map(sentences => sentences.filter(text => text).join(' '));
}

// ---- banks -----------------------------------------------------------------------------------------------------------

const CELL = [20, 16]; // pixels
const BANKS_LEGEND = 'Columns: banks. Rows: wavefronts. A cell has the lane that the bank serves, + where several want the same word. '
  + 'Orange: a bank that must give several words; the darker ones cost a wavefront each. Rows that stand apart serve parts of '
  + 'the warp, one after the other.';

/** Wavefronts of an access to shared memory, as `wavefronts` returns them, on the banks; text: what it is, in a sentence. */
function banksDrawing(rows, text) {
  const [wide, high] = CELL, left = 22, top = 18, yOf = i => top + high * i + 3 * rows[i][0].part; // parts stand apart
  const ofBank = (row, { bank, part }) => row.some(other => other.bank === bank && other.part === part);
  const cell = (word, i) => {
    const earlier = rows.slice(0, i).some(row => ofBank(row, word)), later = rows.slice(i + 1).some(row => ofBank(row, word));
    const several = word.lanes.length > 1, look = earlier ? 'further' : later ? 'crowded' : 'operand';
    return [svgBox(left + wide * word.bank, yOf(i), wide, high, several ? `${look} shared` : look),
      svgText(left + wide * (word.bank + 0.5), yOf(i) + 12, `${word.lanes[0]}${several ? '+' : ''}`)];
  };
  return drawing(left + wide * BANKS + 4, yOf(rows.length - 1) + high + 4, 'Banks', text,
    Array.from({ length: BANKS }, (_, bank) => svgText(left + wide * (bank + 0.5), 12, String(bank))),
    rows.map((row, i) => [svgText(left - 5, yOf(i) + 12, String(i + 1), 'end'),
      svgBox(left, yOf(i), wide * BANKS, high, 'sums'), row.map(word => cell(word, i))]));
}

// ---- timeline --------------------------------------------------------------------------------------------------------

/** A paragraph of a head comment, such as Timeline, with its columns; that of another kernel where it says "as NAME". */
function headParagraph(sources, path, name) {
  const lines = (sources[path] ?? '').split('\n').filter((line, i, all) => all.slice(0, i + 1).every(other => other.startsWith('//')));
  const isStart = line => new RegExp(`^// [\\w, ]*${name}:`, 'i').test(line), start = lines.findIndex(isStart);
  if (start < 0) return null;
  const end = lines.findIndex((line, i) => i > start && !/^\/\/ {4}/.test(line));
  const rows = lines.slice(start, end < 0 ? lines.length : end).map((line, i) => (i ? line : line.replace(/^.*?:/, head => ' '.repeat(head.length))));
  const other = rows[0].match(/^ *as (?:(\w+)\/)?(\w+)/);
  const from = other && path.replace(/(\w+)\/\w+[.]cu$/, (_, folder) => `${other[1] ?? folder}/${other[2]}.cu`);
  return from && from !== path && from in sources ? headParagraph(sources, from, name) : rows.map(row => row.replace('//', '  '));
}

/** The rows of a timeline in text: { name, parts: [{ text, from, to }] }, in columns; what `|` divides is a part. */
function timelineRows(lines) {
  let body = null;
  return lines.map(line => {
    const start = line.search(/\S/), name = body !== null && start >= body ? '' : line.match(/^ *(\S.*?)(?: {2,}|(?<=:) )/)?.[1] ?? '';
    const from = line.indexOf(name, start) + name.length, first = from + line.slice(from).search(/\S/);
    body ??= first;
    const parts = [];
    for (let at = name ? from : start; at < line.length;) {
      const bar = line.indexOf('|', at), end = bar < 0 ? line.length : bar;
      const pieces = [...line.slice(at, end).matchAll(/\S+(?: {1,2}\S+)*/g)];
      for (const piece of pieces) { // the last one before a bar lasts until there
        const from = at + piece.index - body, isLast = bar >= 0 && piece === pieces.at(-1);
        parts.push({ text: piece[0], from, to: isLast ? end - body : from + piece[0].length });
      }
      at = end + 1;
    }
    return { name: name.replace(/:$/, ''), parts };
  });
}

function timelineDrawing(rows) {
  const left = 10 + LETTER_WIDE * Math.max(...rows.map(row => row.name.length)), high = 26;
  const right = Math.max(...rows.flatMap(row => row.parts.map(part => part.to)));
  const text = rows.map(row => `${row.name}: ${row.parts.map(part => part.text).join(', ')}`).join('; ');
  return drawing(left + LETTER_WIDE * right + 14, high * rows.length + 4, 'Timeline', text, rows.map((row, i) => [
    svgText(0, high * i + 18, row.name, 'start'),
    row.parts.map(part => {
      const x = left + LETTER_WIDE * part.from, work = WORK.find(([pattern]) => pattern.test(part.text))?.[1] ?? 'wait';
      const plain = /^[(.]/.test(part.text); // a remark, or what goes on
      return [!plain && svgBox(x, high * i + 3, LETTER_WIDE * (part.to - part.from) + 4, high - 6, work), svgText(x + 4, high * i + 18, part.text, 'start')];
    })]));
}

// ---- all of it -------------------------------------------------------------------------------------------------------

/** Draw in an element a kernel's tile, where the catalogue says who has which sums, and its timeline, where its head
 *  comment has one. kernel: of KERNELS; sources: the part of that name, texts by path. */
function mountPicture(element, kernel, sources) {
  const lines = headParagraph(sources, kernel.source, 'Timeline'), roles = headParagraph(sources, kernel.source, 'Roles');
  const parts = [];
  if (kernel.sums) {
    const owners = sumOwners(kernel.sums), sentences = tileSentences(kernel, owners);
    const drawings = [blockDrawing(kernel, owners), warpDrawing(owners), threadDrawing(kernel, owners)];
    const figure = (name, i) => el('figure', {}, el('figcaption', {}, el('strong', {}, name), ` ${sentences[i]}`), drawings[i]);
    parts.push(el('div', { class: 'tile' }, ['Block', 'Warp', 'Thread'].map(figure)),
      el('p', { class: 'small' }, `Orange: warp 0, and of it lane 0.${kernel.stages ? ' Blue: tiles of A and of B, in shared memory.' : ''}`));
  }
  if (lines) {
    parts.push(el('figure', { class: 'timeline' },
      el('figcaption', {}, el('strong', {}, 'Timeline'), roles && ` Roles: ${roles.join(' ').replace(/\s+/g, ' ').trim()}`),
      el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Timeline' }, timelineDrawing(timelineRows(lines))),
      el('p', { class: 'small' }, 'Blue: loads. Orange: products. Green: stores. Grey: waits.')));
  }
  element.replaceChildren(...parts);
}
