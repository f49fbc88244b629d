// The lens: a kernel's source, its machine code and what each line costs, side by side and against the rung before.

const ROW_PIXELS = 18, HEAD_ROWS = 3; // as in page.css
const FIRST_LENS = 'sgemm_at_swizzle'; // the kernel that the view opens on
const HUES = 8;
let pane = {}; // what is drawn now: kernel, file and code; lens, costs, and rows by line

views.lens = async () => {
  const known = DATA.lenses;
  byId('lens-panes').hidden = !known.length;
  if (!known.length) {
    return fill('lens-why', empty('No kernel was emulated before this page was made: snakemake --cores 1 lens explorer.'));
  }
  const kernel = oneOf('kernel', known, known.includes(FIRST_LENS) ? FIRST_LENS : known[0], labelOf), over = before(kernel);
  carried = { kernel, ladder: state.ladder, n: state.n };
  const [lens, old] = [await lensOf(kernel), await lensOf(over)];
  const file = oneOf('file', lens.files, lens.source ?? lens.files[0]), code = oneOf('code', ['sass', 'ptx']);
  controls(choice('kernel', 'Kernel', kernelOptions(known), kernel, ['file', 'line', 'access']),
    choice('file', 'File', lens.files.map(name => [name, name.split('/').at(-1)]), file, ['line', 'access']), gpuChoice());
  const gpu = chosenGpu();
  if (gpu) await readNumbers(gpu);
  const step = gpu ? stepOf(gpu, kernel, 4096) : null, hidden = isHidden(step);
  await showWhy(kernel, over, lens, old, step);
  for (const id of ['lens-cost-pane', 'lens-note', 'lens-line']) byId(id).hidden = hidden;
  const drawn = [kernel, file, code].join(' ');
  if (pane.drawn !== drawn) drawPanes({ drawn, kernel, over, lens, old, file, code });
  const line = Number(oneOf('line', [...pane.costs.keys()].map(String), String(instructive())));
  chooseLine(line);
};

/** The line that a reader sees first: the one with the most conflicts; else, of lines that are not in the rung before, the
 *  one with the most wavefronts or sectors; else the one that takes the most issue cycles. */
function instructive() {
  const { costs, earlier, old } = pane, lines = [...costs.keys()];
  const isNew = line => old && !earlier.lines.get(line)?.same;
  const measures = [line => costs.get(line).conflicts,
    line => (isNew(line) ? costs.get(line).wavefronts + costs.get(line).sectors : 0), line => costs.get(line).issue];
  const measure = measures.find(count => lines.some(line => count(line) > 0)) ?? measures[2];
  return lines.reduce((x, y) => (measure(y) > measure(x) ? y : x), lines[0]);
}

// ---- why -------------------------------------------------------------------------------------------------------------

/** Whether it passed, its idea, limiter and counters before and after, its tile, and what head comment and documents say.
 *  step: of `stepOf`, which the reader may be asked to predict. */
async function showWhy(kernel, over, lens, old, step) {
  const { idea, dtype, worklog } = KERNELS.get(kernel), changed = STEPS.get(kernel)?.changed, gpu = chosenGpu();
  fill('lens-checks', lens.passed ? lens.checks.join('\n') : el('strong', { class: 'worse' }, lens.checks.join('\n')));
  fill('lens-title', labelOf(kernel), ' ', el('span', { class: 'small' }, `${dtype}, ${groupName(worklog)}`));
  fill('lens-idea', sentence(idea), changed ? ` Against ${labelOf(over)}: ${changed}.` : '');
  const steps = known => known.filter(name => DATA.lenses.includes(name));
  const to = (name, text) => link(text, { kernel: name, file: '', line: '', access: '' });
  fill('lens-steps', steps([over]).map(name => to(name, `← ${labelOf(name)}`)), ' ',
    steps([...KERNELS.keys()].filter(name => before(name) === kernel)).map(name => [to(name, `${labelOf(name)} →`), ' ']), over && gpu && predictSwitch('lens-to-predict'));
  const measured = gpu && `${gpuText(gpu)}, ${protocol(gpu)}`, hidden = isHidden(step);
  mountPredict(byId('lens-predict'), step);
  fill('lens-facts', hidden ? '' : step ? [stepTable(gpu, kernel, over, step.n), stallTable(gpu, kernel, over, step.n)]
    : predictedTable(kernel, over, lens, old), el('p', { class: 'note' }, step ? `${measured}.`
    : gpu && over && `${measured}: Nsight Compute did not profile both kernels.`));
  const said = (await part('explanations'))[kernel], head = await headComment(KERNELS.get(kernel));
  if (head && said) head.open = false;
  fill('lens-said', hidden ? '' : [said && el('details', { open: !narrow() }, el('summary', {}, `Why: ${said.file}`), markdown(said.text)), head]);
  mountPicture(byId('lens-tile'), KERNELS.get(kernel), await part('sources'));
}

function stallTable(gpu, kernel, over, n) {
  const [old, now] = [over, kernel].map(name => counted(gpu, name, n));
  const keys = DATA.stalls.filter(key => Math.max(old[key] ?? 0, now[key] ?? 0) >= 0.1);
  const rows = keys.map(key => compareRow(DATA.counters[key][0], [old[key], now[key]], '', -1));
  return rows.length && el('details', {}, el('summary', {}, 'Warp stalls, cycles per issued instruction, Nsight Compute'),
    table([`n = ${n}`, labelOf(over), labelOf(kernel), 'change'], rows));
}

/** Minimum cycles by unit and counters as ptxsim predicts them, of kernels that no GPU profiled. */
function predictedTable(kernel, over, lens, old) {
  if (lens.unknown) return el('p', { class: 'note' }, `The emulator predicts no counters: ${lens.unknown}. Costs: ${lens.launch}.`);
  const units = Object.keys(lens.cycles).filter(unit => unit in DATA.units).sort((x, y) => lens.cycles[y] - lens.cycles[x]);
  const largest = ({ cycles }) => DATA.units[Object.keys(cycles).filter(unit => unit in DATA.units).reduce((x, y) => (cycles[y] > cycles[x] ? y : x))];
  const note = el('p', { class: 'note' },
    `Limiter: the unit with the most minimum cycles on an ${lens.gpu}. All of this is predicted by ptxsim; nothing was timed.`);
  if (!old || old.unknown) {
    const rows = units.slice(0, 4).map(unit => [`${DATA.units[unit]}, minimum cycles`, number(lens.cycles[unit])]);
    return [table([lens.launch, labelOf(kernel)], [['Limiter', largest(lens)], ...rows]), note];
  }
  const moved = Object.keys(lens.totals).filter(key => DATA.counters[key]?.[2]
    && Math.abs(lens.totals[key] - (old.totals[key] ?? 0)) > MOVED * Math.abs(lens.totals[key]));
  const rows = [['Limiter', wordsCell(largest(old)), wordsCell(largest(lens)), ''],
    ...units.slice(0, 4).map(unit => compareRow(`${DATA.units[unit]}, minimum cycles`, [old.cycles[unit], lens.cycles[unit]], '', -1)),
    ...moved.map(key => compareRow(DATA.counters[key][0], [old.totals[key], lens.totals[key]], '', DATA.counters[key][2]))];
  return [table([lens.launch, labelOf(over), labelOf(kernel), 'change'], rows), note];
}

/** Markdown of the documents as elements: paragraphs, items, code, tables, bold; of links the words. */
function markdown(text) {
  const inline = line => line.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').split(/(`[^`]+`|\*\*.+?\*\*|\*[^*]+\*)/).map(piece => {
    if (/^`.+`$/.test(piece)) return code(piece.slice(1, -1));
    if (/^\*\*.+\*\*$/.test(piece)) return el('strong', {}, inline(piece.slice(2, -2)));
    return /^\*.+\*$/.test(piece) ? el('em', {}, piece.slice(1, -1)) : piece;
  });
  const cells = row => row.replace(/^\||\|$/g, '').split('|').map(cell => cell.trim());
  return el('div', {}, text.split(/\n{2,}/).map(block => {
    if (/^ {4}/.test(block)) return el('pre', {}, block.replace(/^ {4}/gm, ''));
    if (!/^\|/.test(block)) return el('p', {}, inline(block.replace(/^- /, '').replace(/\s*\n\s*/g, ' ')));
    const [heads, , ...rows] = block.split('\n').map(cells);
    return table(heads, rows.map(row => row.map(cell => wordsCell(inline(cell)))));
  }));
}

// ---- three columns ---------------------------------------------------------------------------------------------------

function drawPanes(drawn) {
  const { lens, old, over, file, code: kind } = drawn, costs = costsOf(lens, file), earlier = linesBefore(lens, old, file);
  const costsBefore = earlier.file ? costsOf(old, earlier.file) : new Map(), source = linesOf(lens, file);
  const lines = [...costs.keys()].sort((x, y) => x - y);
  pane = { ...drawn, costs, earlier, costsBefore, lines, rows: new Map(lines.map(line => [line, []])), machine: [] };
  const hue = line => `hue${lines.indexOf(line) % HUES}`;
  const row = (line, make) => {
    const made = make(pane.rows.has(line) ? hue(line) : '');
    if (pane.rows.has(line)) {
      made.dataset.line = line;
      pane.rows.get(line).push(made);
    }
    return made;
  };
  fill('lens-source', source.map((text, i) => row(i + 1, look => el('div', { class: `row ${look}`, role: 'option',
    id: `lens-line-${i + 1}`, 'aria-selected': 'false' }, el('span', { class: 'number' }, String(i + 1)), text))));
  const rows = kind === 'ptx' ? lens.ptx : lens.sass;
  pane.machine = rows.map(({ text, chain, executed }) => {
    const isLabel = text.endsWith(':'), times = executed ? `${number(executed)} times` : null;
    return row(lineIn(lens, chain, file), look => (
      el('div', { class: `row ${look} ${isLabel ? 'label' : ''}`, title: isLabel ? null : times }, text)));
  });
  fill('lens-machine', pane.machine);
  fill('lens-named', el('strong', {}, file), el('br'), `${source.length} lines, ${lines.length} with code`);
  const switchTo = (name, text) => el('a', { href: hashOf({ code: name }), id: `lens-to-${name}`, 'aria-current': kind === name && 'true' }, text);
  fill('lens-codes', switchTo('sass', 'SASS'), switchTo('ptx', 'PTX'), el('button', { type: 'button', id: 'lens-next', onclick: nextPlace },
    'next place'), el('br'), `${rows.filter(({ text }) => !text.endsWith(':')).length} instructions`);
  byId('lens-cost').replaceChildren(costTable(source, row));
  fill('lens-note', `Costs: ptxsim, ${lens.launch}, all warps${old ? `; beside them the change against ${labelOf(over)} where it has the same line or one like it` : ''}. `,
    'Lines of one colour belong together. Choose a line with a click or the arrow keys.',
    lens.unknown && ` Of one small launch, since its counters are not predicted: ${lens.unknown}.`);
  pane.anchors = anchorsOf(lines);
}

function costTable(source, row) {
  const keys = Object.keys(COSTS), whole = costsOfAll(pane.lens), wholeBefore = pane.old && costsOfAll(pane.old);
  const cells = (cost, old) => keys.map(key => {
    const share = key === 'issue' && whole.issue ? 100 * cost.issue / whole.issue : 0;
    const isBad = key === 'conflicts' && cost[key] > 0.01 * whole.wavefronts;
    return el('td', { class: isBad ? 'worse' : null, style: share ? `--share: ${share.toFixed(1)}%` : null },
      cost[key] ? number(cost[key]) : '', deltaOf(old?.[key], cost[key], key));
  });
  const ofLine = line => {
    const cost = pane.costs.get(line);
    return cost ? cells(cost, pane.costsBefore.get(pane.earlier.lines.get(line)?.line)) : el('td', { colspan: keys.length });
  };
  return el('table', {}, el('thead', {},
    el('tr', {}, el('th', { scope: 'col' }, 'Line'), keys.map(key => el('th', { scope: 'col', title: COSTS[key][1] }, COSTS[key][0]))),
    el('tr', {}, el('th', { scope: 'row' }, 'all'), cells(whole, wholeBefore))),
  el('tbody', {}, source.map((_, i) => row(i + 1, look => el('tr', { class: `row ${look}` },
    el('th', { scope: 'row' }, String(i + 1)), ofLine(i + 1))))));
}

/** How a cost differs from that of the rung before, beside it; less is better but of bytes used. */
function deltaOf(old, now, key) {
  if (key === 'ideal' || !isNumber(old) || !isNumber(now) || Math.abs(now - old) <= 0.005 * Math.abs(old)) return '';
  return el('span', { class: `delta ${(now < old) === (key !== 'perSector') ? 'better' : 'worse'}` }, relative(old, now));
}

// ---- scrolling together ----------------------------------------------------------------------------------------------

/** Places of the source and of the machine code that belong together, as many as are in the same order in both. */
function anchorsOf(lines) {
  const places = lines.map(line => {
    const own = pane.machine.map((made, i) => (Number(made.dataset.line) === line ? i : -1)).filter(i => i >= 0);
    return { line: line - 1, index: own[own.length >> 1] };
  }).filter(({ index }) => index !== undefined);
  const best = places.map(() => ({ length: 1, from: -1 }));
  places.forEach((place, i) => places.slice(0, i).forEach((earlier, j) => {
    if (earlier.index < place.index && best[j].length >= best[i].length) best[i] = { length: best[j].length + 1, from: j };
  }));
  const kept = [];
  for (let i = best.indexOf(best.reduce((x, y) => (y.length > x.length ? y : x), best[0])); i >= 0; i = best[i].from) kept.unshift(places[i]);
  const end = { line: linesOf(pane.lens, pane.file).length, index: pane.machine.length };
  return [{ line: 0, index: 0 }, ...kept.filter(({ line, index }) => line > 0 && index > 0), end];
}

/** A place in one column as a place in another: rows, by the anchors around it. */
function placeIn(place, from, to) {
  const { anchors } = pane, next = anchors.findIndex(anchor => anchor[from] > place);
  const [x, y] = next < 0 ? anchors.slice(-2) : anchors.slice(Math.max(0, next - 1), Math.max(2, next + 1));
  return x[to] + (y[to] - x[to]) * Math.min(1, (place - x[from]) / Math.max(1, y[from] - x[from]));
}

const scrollers = () => ['lens-source-pane', 'lens-machine-pane', 'lens-cost-pane'].map(byId);
const mostOf = column => Math.max(1, column.scrollHeight - column.clientHeight);

/** Scroll a column from here: its scroll event moves no other. */
function scrollTo(column, top) {
  column.scrollTop = top;
  column.movedTo = column.scrollTop;
}

/** The other columns follow the one that the reader scrolls: at each end all are at their ends. */
function scrollTogether({ target }) {
  if (target.scrollTop === target.movedTo) return;
  target.movedTo = null;
  const [sourcePane, machinePane, costPane] = scrollers(), end = pane.anchors.at(-1);
  const part = target.scrollTop / mostOf(target);
  const line = target === machinePane ? placeIn(part * end.index, 'index', 'line') : part * end.line;
  const parts = [[sourcePane, line / end.line], [machinePane, placeIn(line, 'line', 'index') / end.index], [costPane, line / end.line]];
  for (const [column, other] of parts) if (column !== target) scrollTo(column, other * mostOf(column));
}

/** Scroll a column so that a row is to be seen. */
function reveal(column, index) {
  const top = index * ROW_PIXELS - column.scrollTop, high = column.clientHeight - HEAD_ROWS * ROW_PIXELS;
  if (top < ROW_PIXELS || top > high - 2 * ROW_PIXELS) scrollTo(column, index * ROW_PIXELS - high / 2);
}

// ---- the chosen line -------------------------------------------------------------------------------------------------

/** Mark a line in all columns, and scroll to it in those but the one that it was chosen in. */
function chooseLine(line, from = null) {
  for (const made of document.querySelectorAll('#lens .row.chosen')) made.classList.remove('chosen');
  for (const made of document.querySelectorAll('#lens-source [aria-selected=true]')) made.setAttribute('aria-selected', 'false');
  for (const made of pane.rows.get(line)) made.classList.add('chosen');
  byId(`lens-line-${line}`)?.setAttribute('aria-selected', 'true');
  byId('lens-source').setAttribute('aria-activedescendant', `lens-line-${line}`);
  const indices = pane.machine.flatMap((made, i) => (Number(made.dataset.line) === line ? [i] : []));
  const places = indices.filter((index, i) => index - 1 !== indices[i - 1]); // the first of each run
  Object.assign(pane, { line, places, place: places[0] });
  const [sourcePane, machinePane, costPane] = scrollers();
  for (const [column, index] of [[sourcePane, line - 1], [machinePane, places[0] ?? 0], [costPane, line - 1]]) {
    if (column !== from) reveal(column, index);
  }
  byId('lens-next').hidden = places.length < 2;
  showLine(line);
}

function nextPlace() {
  const { places } = pane;
  pane.place = places[(places.indexOf(pane.place) + 1) % places.length];
  scrollTo(byId('lens-machine-pane'), (pane.place - 2) * ROW_PIXELS);
}

/** A click on a row of any column chooses its line. */
function clickLine({ target, currentTarget }) {
  const line = Number(target.closest('[data-line]')?.dataset.line);
  if (!line || String(getSelection())) return;
  replace({ line, access: '' });
  chooseLine(line, currentTarget);
}

function moveLine(event) {
  const { lines, line } = pane, place = lines.indexOf(line);
  const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: lines.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const chosen = lines[Math.min(lines.length - 1, Math.max(0, next))];
  replace({ line: chosen, access: '' });
  chooseLine(chosen);
  announce(`line ${chosen}: ${costInWords(pane.costs.get(chosen))}`);
}

function costInWords(cost) {
  const parts = [`${number(cost.issue)} issue cycles`];
  if (cost.wavefronts) parts.push(`${number(cost.wavefronts)} wavefronts, ${number(cost.ideal)} would do`);
  if (cost.conflicts) parts.push(`up to ${cost.ways}-way conflicts`);
  if (cost.sectors) parts.push(`${number(cost.sectors)} sectors, ${number(cost.perSector)} of 32 bytes used`);
  return parts.join(', ');
}

/** Everything about the chosen line: its costs in words, before and now, and one access of a warp. */
function showLine(line) {
  const cost = pane.costs.get(line), text = linesOf(pane.lens, pane.file)[line - 1] ?? '';
  if (!cost) return fill('lens-line', '');
  const earlier = pane.earlier.lines.get(line), old = pane.costsBefore.get(earlier?.line), over = labelOf(pane.over);
  const lineBefore = earlier && !earlier.same && linesOf(pane.old, pane.earlier.file)[earlier.line - 1].trim();
  const against = !pane.old ? [] : lineBefore ? [`The line of ${over} that is most like it: `, code(lineBefore), '. ']
    : [!earlier ? `This line is not in ${over}. ` : old ? '' : `${over} has no code of this line. `];
  const rows = [['Memory instructions, by warp', old?.executed, cost.executed], ...Object.entries(COSTS)
    .map(([key, [label]]) => [label, old?.[key], cost[key]])].filter(([, , now]) => now);
  const own = cost.accesses.filter(access => !access.merged_into), merged = cost.accesses.length - own.length;
  const access = chosenAccess(own);
  fill('lens-line', el('h3', {}, `Line ${line} `, code(text.trim())),
    el('p', {}, sentence(costInWords(cost)), ' ', against, merged > 0 && `ptxas makes ${merged} more loads part of wider ones. `),
    el('div', { class: 'lens-beside' },
      el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Costs of the line' },
        old ? table([pane.lens.launch, labelOf(pane.over), labelOf(pane.kernel), 'change'],
          rows.map(([label, x, y]) => compareRow(label, [x, y], '', label.startsWith('Bytes') ? 1 : -1)))
          : table([pane.lens.launch, labelOf(pane.kernel)], rows.map(([label, , y]) => [label, number(y)]))),
      el('div', { id: 'lens-access' }, access && [accessChoice(own, access), accessPicture(access)])));
}

/** The access in the state, else the one with the most wavefronts or sectors that are not needed. */
function chosenAccess(accesses) {
  const wasted = access => access.wavefronts - access.ideal + access.sectors - access.ideal_sectors;
  return accesses.find(access => String(access.ptx_line) === state.access)
    ?? accesses.reduce((x, y) => (!x || wasted(y) > wasted(x) ? y : x), null);
}

/** A select of the accesses of the line, where there are several. */
function accessChoice(accesses, chosen) {
  if (accesses.length < 2) return '';
  const some = (count, unit) => `${number(count)} ${unit}${count === 1 ? '' : 's'}`;
  const each = access => (access.space === 'shared' ? some(access.wavefronts / access.requests, 'wavefront')
    : some(access.sectors / access.requests, 'sector'));
  const options = accesses.map(access => el('option', { value: access.ptx_line, selected: access === chosen },
    `PTX line ${access.ptx_line}: ${access.instruction}, ${each(access)}`));
  const write = event => {
    replace({ access: event.target.value });
    showLine(pane.line);
    byId('lens-accesses')?.focus();
  };
  return el('label', { class: 'small' }, `${accesses.length} accesses on this line `, el('select', { id: 'lens-accesses', onchange: write }, options));
}

/** The lanes of one warp, and the banks or sectors that serve them. */
function accessPicture(access) {
  const what = [code(access.instruction), `, ${access.width} bytes a lane. `];
  if (access.kind === 'wgmma') return el('p', {}, what[0], ': tensor cores read both operands from shared memory, 128 bytes a wavefront. No lane has an address.');
  if (access.kind.startsWith('bulk')) {
    return el('p', {}, what[0], `: one thread names a box of a matrix and TMA moves it, ${number(access.sectors / access.requests)} sectors at a time. No lane has an address.`);
  }
  const parts = [];
  if (access.shared) parts.push(bankPicture(access, access.shared));
  if (access.global) parts.push(sectorPicture(access, access.global));
  return el('div', {}, el('p', {}, what), parts.length ? parts : el('p', {}, 'Each thread has its own local memory: no address is shown.'));
}

const lanesText = lanes => {
  const runs = lanes.reduce((all, lane) => (all.length && lane === all.at(-1)[1] + 1
    ? [...all.slice(0, -1), [all.at(-1)[0], lane]] : [...all, [lane, lane]]), []);
  return runs.map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(', ');
};

/** A lane under the pointer or in focus lights up with the cells that serve it. */
function lightLanes(event) {
  const lanes = event.type === 'mouseover' || event.type === 'focusin' ? event.target.closest('[data-lanes]')?.dataset.lanes.split(' ') ?? [] : [];
  for (const cell of event.currentTarget.querySelectorAll('[data-lanes]')) {
    cell.classList.toggle('lit', cell.dataset.lanes.split(' ').some(lane => lanes.includes(lane)));
  }
}

/** A table of lanes, whose cells light up together. */
function laneTable(heads, rows) {
  const listen = Object.fromEntries(['mouseover', 'mouseout', 'focusin', 'focusout'].map(name => [`on${name}`, lightLanes]));
  return el('table', { class: 'lanes', ...listen },
    el('thead', {}, el('tr', {}, heads.map(text => el('th', { scope: 'col' }, String(text))))), el('tbody', {}, rows));
}

/** The 32 lanes, each in the colour of what serves it first; those that are not active are grey. */
const laneRow = hueOf => el('tr', {}, el('th', { scope: 'row' }, 'lane'), Array.from({ length: 32 }, (_, lane) => (
  el('td', { class: hueOf(lane) < 0 ? 'off' : `hue${hueOf(lane) % HUES}`, 'data-lanes': lane }, String(lane)))));

const scrolled = (label, ...children) => el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': label }, children);

function bankPicture(access, { warp, addresses }) {
  const source = access.global?.addresses, served = wavefronts(addresses, access.width, access.kind, source);
  const ideal = idealWavefronts(addresses, access.width, access.kind, source);
  const ofLane = lane => served.findIndex(words => words.some(word => word.lanes.includes(lane)));
  const wave = (words, i) => el('tr', { class: `hue${i % HUES}` }, el('th', { scope: 'row' }, `wavefront ${i + 1}`),
    Array.from({ length: 32 }, (_, bank) => {
      const word = words.find(other => other.bank === bank);
      if (!word) return el('td', { class: 'off' });
      const [first, ...others] = word.lanes;
      return el('td', { class: 'taken', 'data-lanes': word.lanes.join(' '),
        title: `bank ${bank}, byte ${word.address}: lane ${lanesText(word.lanes)}` }, others.length ? `${first}+` : String(first));
    }));
  const waste = served.length > ideal ? `, ${ideal} would do: a ${Math.ceil(served.length / ideal)}-way bank conflict` : ', no conflict';
  const doubled = access.requests && access.wavefronts / access.requests >= 2 * served.length && access.kind === 'cp_async';
  return [el('p', {}, `Warp ${warp}, first execution in a launch of one tile of C: `, el('strong', {}, `${served.length} wavefront${served.length > 1 ? 's' : ''}${waste}`), '. ',
    doubled && 'Nsight Compute counts each of these twice. ',
    'Each row is a wavefront, each column a bank; a cell names the lane that is served, + where more lanes want the word.'),
  scrolled('Banks of the access', laneTable(['bank', ...Array.from({ length: 32 }, (_, bank) => bank)], [...served.map(wave), laneRow(ofLane)]))];
}

function sectorPicture(access, { warp, addresses }) {
  const touched = sectors(addresses, access.width), bytes = touched.reduce((sum, { used }) => sum + used, 0);
  const row = ({ address, lanes, used }, i) => el('tr', { class: `hue${i % HUES}` }, el('th', { scope: 'row' }, `byte ${address}`),
    el('td', { class: 'taken', 'data-lanes': lanes.join(' ') }, lanesText(lanes)), el('td', {}, `${Math.min(32, used)} of 32`));
  return [el('p', {}, `Warp ${warp}, first execution in a launch of one tile of C: `, el('strong', {}, `${touched.length} sector${touched.length > 1 ? 's' : ''}, `,
    `${number(bytes / touched.length)} of 32 bytes used of each`), '. Addresses count from a line of 128 bytes.'),
  scrolled('Sectors of the access', el('table', { class: 'lanes' }, el('tbody', {}, laneRow(lane => touched.findIndex(({ lanes }) => lanes.includes(lane))))),
    laneTable(['sector', 'lanes', 'bytes used'], touched.map(row)))];
}

for (const column of scrollers()) {
  column.addEventListener('scroll', scrollTogether);
  column.addEventListener('click', clickLine);
}
byId('lens-source').addEventListener('keydown', moveLine);
