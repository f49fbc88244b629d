// The page's behaviour: its state is in the URL's hash, every control writes it, and `render` draws what it describes.

const DATA = JSON.parse(document.getElementById('data').textContent);
const VIEWS = {
  findings: 'Findings', ladder: 'Ladder', sizes: 'Sizes', pair: 'Side by side', banks: 'Banks', claims: 'Claims',
};
const COLOURS = 7, SAME = 0.01, LEADING = 3, CLAIMS_A_PAGE = 25;
const SHAPES = ['circle', 'square', 'triangle-up', 'diamond', 'cross', 'triangle-down', 'triangle-right'];
const DASHES = [[1, 0], [7, 2], [2, 2]];
const VERDICTS = { 'holds': ['holds', '✓'], 'direction only': ['partly', '≈'], 'within noise': ['partly', '±'],
  'misses a narrow band': ['partly', '↔'], 'does not hold': ['fails', '✗'], 'not measured': ['', '…'], 'not testable here': ['', '–'] };
const LONG = { m: 'machine', o: 'machine to compare with', how: 'how two machines are drawn', pg: 'page of the claims', fig: 'finding whose figure is open', d: 'dtype', e: 'experiment', n: 'n', q: 'quantity', k: 'kernels', at: 'size read', shape: 'shape of the problems',
  r: 'clocks', f: 'data', a: 'A', b: 'B', x: 'metric', p: 'worklog of the steps', same: 'with what is the same', pic: 'picture',
  w: 'worklog', v: 'verdict', kind: 'kind', cl: 'class', on: 'about', s: 'search', c: 'claim', theme: 'theme', view: 'view' };

const KERNELS = new Map(DATA.kernels.map(kernel => [kernel.variant, kernel]));
const METRICS = new Map(DATA.metrics.map(metric => [metric.id, metric]));
const QUANTITIES = new Map(DATA.quantities.map(quantity => [quantity.key, quantity]));
const CLAIM_MACHINES = DATA.claims.map(one => one.machine);

// ---- parts of the data, compressed, each read when a view first asks for it ------------------------------------------

const parts = new Map();

/** A part's data: gzip of JSON, in base64. */
function part(name) {
  if (!parts.has(name)) {
    const bytes = Uint8Array.from(atob(byId(`part-${name}`).textContent), letter => letter.charCodeAt(0));
    parts.set(name, new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).json());
  }
  return parts.get(name);
}

/** Read a machine's tables into it. */
async function loadMachine(one) {
  if (!one || one.rows) return;
  const { bench, problems, counters } = await part(`machine${DATA.machines.indexOf(one)}`);
  const unpacked = ({ columns, rows }) => rows.map(row => Object.fromEntries(columns.map((name, place) => [name, row[place]])));
  Object.assign(one, { rows: unpacked(bench), others: unpacked(problems), counters }); // others: problems that are no plain squares
}

// ---- state ----------------------------------------------------------------------------------------------------------

const FIRST = DATA.findings.length ? 'findings' : 'ladder';
let state = {};

function readState() {
  const asked = new URLSearchParams(location.hash.slice(1));
  state = Object.fromEntries(Object.keys(LONG).map(key => [key, asked.get(key) || '']));
  if (!(state.view in VIEWS)) state.view = FIRST;
}

function hashOf(changes) {
  const hash = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...state, ...changes })) {
    if (value && !(key === 'view' && value === FIRST)) hash.set(key, value);
  }
  return '#' + hash.toString().replaceAll('%2C', ',');
}

/** Another state: a control's replaces the entry in the history, a link's is a new one. */
function go(changes) {
  history.replaceState(null, '', hashOf(changes));
  readState();
  render();
}

const linkTo = (view, changes) => hashOf({ ...Object.fromEntries(Object.keys(LONG).map(key => [key, ''])),
  m: state.m, o: state.o, theme: state.theme, view, ...changes });

// ---- elements and words ---------------------------------------------------------------------------------------------

const byId = id => document.getElementById(id);

/** An element; children are elements or text, which is never taken for HTML. */
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter(child => child != null && child !== ''));
  return made;
}

const fill = (id, ...children) => byId(id).replaceChildren(...children.flat().filter(child => child != null));
const isNumber = value => typeof value === 'number' && Number.isFinite(value);

/** A number with at least `digits` digits, thousands apart; a dash for none. */
function number(value, digits = 4) {
  if (typeof value === 'string') return value;
  if (!isNumber(value)) return '–';
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString('en');
  const size = Math.abs(value);
  if (size !== 0 && size < 1e-4) return value.toExponential(2);
  const places = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return value.toLocaleString('en', { minimumFractionDigits: places, maximumFractionDigits: places });
}

/** A value of bench.csv as the page shows it: shares of a baseline are fractions there. */
const isShare = key => ['share_of_baseline', 'share_in_turns'].includes(key);
const scaled = (key, value) => (isShare(key) && isNumber(value) ? 100 * value : value);
const withUnit = (text, unit) => (unit ? text + (['%', 'x'].includes(unit) ? unit : ' ' + unit) : text);
const heading = quantity => quantity.label + (quantity.unit ? ', ' + quantity.unit : '');
const labelOf = name => KERNELS.get(name)?.label ?? name;
const mark = (name, stale) => labelOf(name) + (stale ? '†' : '');
const colour = place => `var(--c${place % COLOURS})`;
const onPhone = () => window.innerWidth < 640;
const unique = values => [...new Set(values)];

// ---- what is chosen -------------------------------------------------------------------------------------------------

/** The machine that the chosen one is compared with, or undefined. */
const other = () => DATA.machines.find(one => one.name === state.o && one !== machine() && one.timed.length);
const machine = () => DATA.machines.find(one => one.name === state.m) ?? DATA.machines[0];
const oneOf = (wanted, values) => (values.map(String).includes(String(wanted)) ? wanted : values[0]);
const regime = () => oneOf(state.r, unique(machine().rows.map(row => row.regime)).sort().reverse());
const inputs = () => oneOf(state.f, unique(machine().rows.map(row => row.data)).sort((a, b) => (b === 'uniform') - (a === 'uniform')));

function quantity() {
  const known = DATA.quantities.filter(one => one.key === 'least_cycles'
    ? Object.keys(DATA.bounds).length : machine().rows.some(row => isNumber(row[one.key])));
  return known.find(one => one.key === state.q) ?? known[0];
}

/** Timings under the chosen conditions, or, of the least cycles, the emulator's, as rows of the same shape. */
function rowsOf(key, rows = machine().rows) { // of another machine: under the conditions chosen for this one
  if (key === 'least_cycles') {
    return Object.entries(DATA.bounds).flatMap(([variant, sizes]) => Object.entries(sizes).map(([n, cycles]) => ({
      variant, n: Number(n), dtype: KERNELS.get(variant)?.dtype, first: true, experiment: '',
      least_cycles: Math.max(...Object.entries(cycles).filter(([name]) => !['l2', 'issue_model', 'tail'].includes(name))
        .map(([, value]) => value)),
    })));
  }
  return rows.filter(row => row.regime === regime() && row.data === inputs() && isNumber(row[key]));
}

const dtypesOf = rows => unique(DATA.kernels.map(kernel => kernel.dtype)).filter(name => rows.some(row => row.dtype === name));
const dtype = rows => (state.d === 'all' ? 'all' : oneOf(state.d, dtypesOf(rows)));
const ofDtype = (rows, name) => rows.filter(row => name === 'all' || row.dtype === name);

/** Experiments that timed any of these rows; the ladder with the most kernels first. */
function experimentsOf(rows) {
  const count = name => new Set(rows.filter(row => row.experiment === name).map(row => row.variant)).size;
  const found = DATA.experiments.filter(one => count(one.name));
  return found.sort((a, b) => (b.kind === 'ladder') - (a.kind === 'ladder') || count(b.name) - count(a.name));
}

// ---- controls -------------------------------------------------------------------------------------------------------

/** A labelled choice: options as [value, text], or { group, options }. One option is no choice, and is left out. */
function choice(key, label, options, chosen, changes = () => ({})) {
  const flat = options.flatMap(option => option.options ?? [option]);
  if (flat.length < 2) return null;
  const make = ([value, text]) => el('option', { value, selected: String(value) === String(chosen) }, text);
  const select = el('select', { id: `${state.view}-${key}`, onchange: event => go({ ...changes(event.target.value), [key]: event.target.value }) },
    options.map(option => (option.options ? el('optgroup', { label: option.group }, option.options.map(make)) : make(option))));
  return el('label', {}, label, select);
}

/** Fill a form, and keep the focus where it was. */
function controls(form, ...parts) {
  const focused = document.activeElement?.id, caret = document.activeElement?.selectionStart;
  form.replaceChildren(...parts.flat().filter(part => part != null));
  const again = focused && form.querySelector('#' + CSS.escape(focused));
  if (again) {
    again.focus();
    if (again.type === 'search') again.setSelectionRange(caret, caret);
  }
}

const kernelOptions = (names, extra = []) => {
  const families = unique(names.map(name => KERNELS.get(name)?.dtype));
  return [...extra, ...families.map(family => ({ group: family,
    options: names.filter(name => KERNELS.get(name)?.dtype === family).map(name => [name, labelOf(name)]) }))];
};

function conditions() {
  const rows = machine().rows;
  return [
    choice('m', 'Machine', DATA.machines.map(one => [one.name, one.gpu ? `${one.gpu} (${one.name})` : `${one.name}, predicted`]), machine().name,
      () => ({ n: '', e: '', q: '', k: '', at: '' })),
    choice('r', 'Clocks', unique(rows.map(row => row.regime)).map(name => [name, name]), regime()),
    choice('f', 'Data', unique(rows.map(row => row.data)).map(name => [name, name]), inputs()),
  ];
}

const quantityChoice = () => choice('q', 'Quantity', DATA.quantities
  .filter(one => one.key === 'least_cycles' ? Object.keys(DATA.bounds).length : machine().rows.some(row => isNumber(row[one.key])))
  .map(one => [one.key, heading(one)]), quantity()?.key);

const dtypeChoice = (rows, withAll) => choice('d', 'Data type',
  [...dtypesOf(rows).map(name => [name, name]), ...(withAll ? [['all', 'all']] : [])], dtype(rows),
  () => ({ e: '', n: '', k: '', at: '' }));

// ---- charts ---------------------------------------------------------------------------------------------------------

const drawn = new Map();

/** Let every chart and table on the page show one kernel: all others fade. */
function highlight(variant) {
  for (const { view } of drawn.values()) {
    try { view.signal('hot', variant).run(); } catch { /* a chart of metrics has no kernels */ }
  }
  for (const part of document.querySelectorAll('[data-kernel]')) part.classList.toggle('hot', part.dataset.kernel === variant);
}
document.addEventListener('mouseover', event => {
  const place = event.target.closest?.('[data-kernel]');
  if (place) highlight(place.dataset.kernel);
});
document.addEventListener('mouseout', event => { if (event.target.closest?.('[data-kernel]')) highlight(''); });

/** Draw rows with a chart, or say why there is nothing to draw. */
async function draw(id, name, rows, title, parameters = {}, why = '') {
  drawn.get(id)?.finalize();
  drawn.delete(id);
  const place = byId(id);
  if (!rows.length) {
    place.replaceChildren(el('p', { class: 'empty' }, why || 'Nothing was measured of this.'));
    return null;
  }
  const spec = JSON.parse(JSON.stringify(DATA.charts[name]).replaceAll('"<title>"', () => JSON.stringify(title)));
  if (onPhone()) Object.assign(spec.config.axis, { labelLimit: 128, labelFontSize: 11 });
  spec.datasets = { rows };
  if (spec.height?.step) spec.height = spec.height.step * unique(rows.map(row => row.label)).length;
  for (const parameter of spec.params ?? []) if (parameter.name in parameters) parameter.value = parameters[parameter.name];
  const turn = place.turn = (place.turn ?? 0) + 1;
  const host = el('div');
  place.replaceChildren(host);
  const made = await vegaEmbed(host, spec, { renderer: 'svg', actions: false, tooltip: { theme: 'custom' } });
  if (place.turn !== turn) {
    made.finalize();
    return null;
  }
  place.setAttribute('role', 'group');
  place.setAttribute('aria-label', `${title}: ${rows.length} values, all in the table below`);
  drawn.set(id, made);
  made.view.addEventListener('mouseover', (event, item) => { if (item?.datum?.variant) highlight(item.datum.variant); });
  made.view.addEventListener('mouseout', () => highlight(''));
  return made;
}

/** The facts of a timing that hovering shows, and where it and its interval lie. */
function point(row, one) {
  const value = scaled(one.key, row[one.key]), low = scaled(one.key, row[one.low]), high = scaled(one.key, row[one.high]);
  const has = isNumber(low) && isNumber(high);
  return {
    n: row.n, problem: row.problem, variant: row.variant, label: mark(row.variant, row.stale), value, level: value,
    low: has ? low : value, high: has ? high : value,
    shown: withUnit(number(value, 6), one.unit),
    interval: has ? `${number(low, 6)} to ${number(high, 6)}` : 'none is recorded',
    clock: isNumber(row.sm_clock_mhz) ? number(row.sm_clock_mhz) + ' MHz' : '–',
    samples: row.samples == null ? '–' : `${row.samples}, ${row.rejected} rejected`,
    where: row.experiment || 'the emulator, from counts alone',
  };
}

/** A row of a table that belongs to a kernel. */
const rowOf = (kernel, cells) => Object.assign(cells, { kernel });

/** A table of heads and rows; a cell is text, an element, or [text, attributes]. */
function table(heads, rows, caption) {
  const cell = (content, place) => {
    const [text, attributes] = Array.isArray(content) ? content : [content, {}];
    return place ? el('td', attributes, text) : el('th', { scope: 'row', ...attributes }, text);
  };
  return el('table', {}, caption ? el('caption', {}, caption) : null,
    el('thead', {}, el('tr', {}, heads.map(head => el('th', { scope: 'col' }, head)))),
    el('tbody', {}, rows.map(row => (row.section
      ? el('tr', { class: 'section' }, el('th', { scope: 'rowgroup', colspan: heads.length }, row.section))
      : el('tr', row.kernel ? { 'data-kernel': row.kernel } : {}, row.map(cell))))));
}

const exact = (value, text) => [text ?? number(value), isNumber(value) ? { title: String(value) } : {}];
const notShown = () => (DATA.failed.length
  ? `Not shown, failed a check: ${DATA.failed.map(one => `${one.label} (${one.case})`).join(', ')}. ` : '');
const staleNote = rows => (rows.some(row => row.stale) ? '† source changed since measured. ' : '');
const sourceNote = key => (key === 'least_cycles'
  ? 'Predicted by ptxsim, the emulator: the resource that needs the most cycles. No launch can be faster. '
  : `${machine().origin}; ${regime()} clocks, ${inputs()} inputs. `);
/** Which shares of cuBLAS rows have: docs/numbers.md. */
const shareKinds = rows => unique(rows.map(row => row.share_kind).filter(kind => kind)).sort().join(' or ') || 'not measured';
const shareNote = rows => `Shares of cuBLAS: ${shareKinds(rows)}. `;
const whyNothing = () => DATA.why_untimed ?? 'No timings of this are in the tables; the side-by-side view has what the emulator predicts.';

// ---- the ladder -----------------------------------------------------------------------------------------------------

async function renderLadder() {
  const form = document.querySelector('#ladder form'), one = quantity();
  if (!one) {
    controls(form, conditions());
    fill('ladder-table');
    return draw('ladder-chart', 'bars', [], '', {}, whyNothing());
  }
  const all = rowsOf(one.key), type = dtype(all), typed = ofDtype(all, type);
  const experiments = experimentsOf(typed);
  const chosen = state.e === 'all' ? undefined : experiments.find(other => other.name === state.e) ?? experiments[0];
  const own = typed.filter(row => (chosen ? row.experiment === chosen.name : row.first));
  const count = n => own.filter(row => row.n === n).length;
  const sizes = unique(own.map(row => row.n)).sort((a, b) => a - b);
  const n = Number(oneOf(state.n, [...sizes].sort((a, b) => count(b) - count(a) || (b === 4096) - (a === 4096))));
  controls(form, conditions(), dtypeChoice(all, true), quantityChoice(),
    experiments.length ? choice('e', 'Experiment', [...experiments.map(other => [other.name, other.title]), ['all', 'All, one row a kernel']],
      chosen?.name ?? 'all', () => ({ n: '' })) : null,
    choice('n', 'n', sizes.map(size => [size, size]), n));
  byId('ladder-question').textContent = chosen?.question ?? '';
  const order = name => DATA.kernels.findIndex(kernel => kernel.variant === name);
  const shown = own.filter(row => row.n === n).sort((a, b) => order(a.variant) - order(b.variant));
  const rows = shown.map((row, place) => {
    const made = point(row, one), library = KERNELS.get(row.variant)?.kind === 'baseline';
    const share = !isShare(one.key) && isNumber(row.share_of_baseline) && row.variant !== row.baseline
      ? ` (${number(100 * row.share_of_baseline, 3)}%)` : '';
    return { ...made, order: place, colour: library ? 'var(--library)' : 'var(--c0)', text: number(made.value, 3) + share,
      link: stepLink(row.variant) };
  });
  const most = Math.max(...rows.map(row => row.high));
  const unit = `${heading(one)}${isShare(one.key) || one.key === 'least_cycles' ? '' : ` (share of cuBLAS, ${shareKinds(shown)})`}`;
  fill('ladder-table', table(['Kernel', heading(one), '95% interval', `Share of cuBLAS, ${shareKinds(shown)}`, 'SM clock', 'Samples', 'Measured in'],
    rows.map((row, place) => rowOf(row.variant, [el('a', { href: row.link }, row.label), exact(shown[place][one.key], row.shown), row.interval,
      exact(shown[place].share_of_baseline, isNumber(shown[place].share_of_baseline) ? number(100 * shown[place].share_of_baseline) + '%' : '–'),
      row.clock, row.samples, row.where]))));
  byId('ladder-note').textContent = `n = ${n}. ${sourceNote(one.key)}${rows.some(row => row.low < row.high) ? 'Black lines: 95% intervals. ' : ''}`
    + `${shareNote(shown)}Grey: libraries. A bar leads to what its step changed. ${staleNote(shown)}${notShown()}`;
  await draw('ladder-chart', 'bars', rows, unit, { end: most * (onPhone() ? 1.75 : 1.28) }, whyNothing());
}

/** The side-by-side view of a kernel and the one that it is a step from. */
function stepLink(name) {
  const step = DATA.steps.find(one => one.variant === name);
  const before = step?.over ?? KERNELS.get(name)?.builds_on ?? KERNELS.get(name)?.baseline;
  return linkTo('pair', { a: before && before !== name ? before : '', b: name });
}

// ---- against n ------------------------------------------------------------------------------------------------------

/** Sizes between which a line is drawn: kernels that need aligned rows take a different path at the others. */
const isJoined = n => n % 8 === 0;

/** The kernels that are drawn if the reader chose none: the best one, a library, and those with the most sizes. */
function usualKernels(names, rows, one) {
  const count = name => rows.filter(row => row.variant === name).length;
  const isLibrary = name => KERNELS.get(name)?.kind === 'baseline';
  const wins = new Map();
  for (const n of unique(rows.map(row => row.n))) {
    const best = rows.filter(row => row.n === n && !isLibrary(row.variant))
      .sort((a, b) => (one.better || 1) * (b[one.key] - a[one.key]))[0];
    if (best) wins.set(best.variant, (wins.get(best.variant) ?? 0) + 1);
  }
  // Ahead at the largest part of its sizes: a sweep of others has many more. Few sizes make no line worth looking at
  const part = name => (count(name) < 8 ? 0 : wins.get(name) / count(name));
  const best = [...wins.keys()].sort((a, b) => part(b) - part(a) || wins.get(b) - wins.get(a)).slice(0, 1);
  const most = [...names].sort((a, b) => count(b) - count(a));
  return unique([...best, ...most.filter(isLibrary).slice(0, 1), ...most]).slice(0, 6);
}

/** The quotient of two rows of points: `first` by `second`, with the interval that both intervals allow. */
function ratioOf(first, second) {
  const value = first.value / second.value, low = first.low / second.high, high = first.high / second.low;
  return { ...first, value, low, high, level: 1, ratio: true, shown: number(value, 4), interval: `${number(low, 4)} to ${number(high, 4)}`,
    stale: first.stale || second.stale, where: `${first.where}; ${second.where}` };
}

const shortName = one => one.name.split(',')[0];

/** What the legend calls a machine: short where that distinguishes the two. */
const nameIn = (one, two) => (shortName(one) === shortName(two) ? one.name : shortName(one));

async function renderSizes() {
  const form = document.querySelector('#sizes form'), one = quantity();
  const others = one && one.key !== 'least_cycles' ? rowsOf(one.key, machine().others) : [];
  const any = state.shape === 'any' && others.length > 0, chart = any ? 'points' : 'lines';
  const all = any ? others.filter(row => row.first) : one ? rowsOf(one.key).filter(row => row.first) : [];
  if (!all.length) {
    controls(form, conditions());
    fill('sizes-legend'); fill('sizes-read'); fill('sizes-kernels'); fill('sizes-table');
    return draw('sizes-chart', 'lines', [], '', {}, whyNothing());
  }
  const type = dtype(all), typed = ofDtype(all, type);
  const two = any || one.key === 'least_cycles' ? undefined : other();
  const there = two ? ofDtype(rowsOf(one.key, two.rows), type).filter(row => row.first) : [];
  const ratio = Boolean(two) && state.how !== 'both';
  const names = DATA.kernels.map(kernel => kernel.variant).filter(name => typed.some(row => row.variant === name)
    && (!ratio || there.some(row => row.variant === name)));
  const count = name => typed.filter(row => row.variant === name).length;
  const usual = usualKernels(names, typed, one);
  const asked = state.k === 'none' ? [] : state.k.split(',').filter(name => names.includes(name));
  const chosen = asked.length || state.k === 'none' ? asked : names.filter(name => usual.includes(name));
  const choose = list => go({ k: list.join(',') || 'none' });
  const timed = DATA.machines.filter(other => other.timed.length && other !== machine());
  controls(form, conditions(), any || !timed.length ? null : choice('o', 'Compare with', [['', 'no other machine'],
    ...timed.map(other => [other.name, `${other.gpu} (${other.name})`])], two?.name ?? '', () => ({ at: '' })),
    two ? choice('how', 'Drawn as', [['', `ratio, ${nameIn(machine(), two)} / ${nameIn(two, machine())}`], ['both', 'both machines']], ratio ? '' : 'both') : null,
    dtypeChoice(all, true), quantityChoice(), others.length
    ? choice('shape', 'Problems', [['', 'squares'], ['any', 'of any shape']], any ? 'any' : '', () => ({ at: '', k: '', d: '' })) : null,
    el('button', { type: 'button', id: 'sizes-first', onclick: () => { byId('sizes-choose').open = true; byId('sizes-kernels').querySelector('input')?.focus(); } },
      'Choose kernels'));
  const look = new Map(chosen.map((name, place) => [name, { colour: colour(place), shape: SHAPES[place % SHAPES.length],
    dash: two && !ratio ? [1, 0] : KERNELS.get(name)?.kind === 'baseline' ? [4, 3] : DASHES[Math.floor(place / COLOURS) % DASHES.length] }]));
  const pointsOf = (rows, more) => rows.filter(row => look.has(row.variant)).map(row => ({ ...point(row, one), ...look.get(row.variant),
    fill: look.get(row.variant).colour, stale: row.stale, joined: isJoined(row.n), ...more(row) }));
  let rows = pointsOf(typed, row => (two && !ratio ? { label: `${mark(row.variant, row.stale)}, ${nameIn(machine(), two)}` } : {}));
  if (two) {
    const second = pointsOf(there, row => ({ label: `${mark(row.variant, row.stale)}, ${nameIn(two, machine())}`, dash: [5, 4], fill: 'var(--paper)' }));
    const at = new Map(second.map(row => [`${row.variant} ${row.n}`, row]));
    rows = ratio ? rows.filter(row => at.has(`${row.variant} ${row.n}`)).map(row => ratioOf(row, at.get(`${row.variant} ${row.n}`))) : [...rows, ...second];
  }
  rows.sort((a, b) => chosen.indexOf(a.variant) - chosen.indexOf(b.variant) || a.n - b.n);
  const sizes = unique(rows.map(row => row.n)).sort((a, b) => a - b);
  const at = sizes.includes(Number(state.at)) ? Number(state.at) : 0;
  const title = ratio ? `${heading(one).split(',')[0]}, ${nameIn(machine(), two)} / ${nameIn(two, machine())}` : heading(one);

  fill('sizes-legend', chosen.map(name => el('li', { 'data-kernel': name }, symbol(look.get(name)), labelOf(name),
    el('button', { type: 'button', 'aria-label': `Remove ${labelOf(name)}`, onclick: () => choose(chosen.filter(other => other !== name)) }, '×'))));
  const focused = document.activeElement?.id;
  fill('sizes-kernels', unique(names.map(name => KERNELS.get(name).dtype)).flatMap(family => [el('h3', {}, family),
    ...names.filter(name => KERNELS.get(name).dtype === family).map(name => el('label', { title: KERNELS.get(name).idea, 'data-kernel': name },
      el('input', { type: 'checkbox', id: `k-${name}`, value: name, checked: look.has(name),
        onchange: event => choose(event.target.checked ? [...chosen, name] : chosen.filter(other => other !== name)) }),
      `${labelOf(name)} (${count(name)} ${any ? 'problem' : 'size'}${count(name) > 1 ? 's' : ''})`))]));
  if (focused?.startsWith('k-')) byId(focused)?.focus();

  const series = unique(rows.map(row => row.label));
  const of = new Map(rows.map(row => [`${row.label} ${row.n}`, row]));
  const named = new Map(rows.map(row => [row.n, any ? row.problem : String(row.n)]));
  fill('sizes-table', table([any ? 'm x n x k' : 'n', ...series], sizes.map(n => [named.get(n), ...series.map(name => {
    const row = of.get(`${name} ${n}`);
    return row ? [el('span', {}, number(row.value), el('small', {}, row.low < row.high ? ` ${number(row.low)} to ${number(row.high)}` : '')), { title: row.shown }] : '–';
  })])));
  readOut(at, rows, one, title);
  const machines = two ? `${two.origin}. ${ratio ? 'Dashed: where both are equal. ' : `Hollow marks and dashed lines: ${two.name}. `}` : '';
  const apart = chart === 'lines' && rows.some(row => !row.joined) ? 'Marks without a line: sizes that are no multiple of 8. ' : '';
  byId('sizes-note').textContent = `${sourceNote(one.key)}${machines}Bands and bars: 95% intervals, where wider than the line. ${one.key === 'share_in_turns' ? '' : shareNote([...typed, ...(two ? there : [])])}${apart}${staleNote(rows)}${notShown()}`;
  const made = await draw('sizes-chart', chart, rows, title, { at, zero: !isShare(one.key) && !ratio },
    chosen.length ? 'No kernel was timed on both machines at one size under these conditions.' : 'Choose a kernel.');
  if (!made) return;
  const read = n => {
    history.replaceState(null, '', hashOf({ at: String(n) }));
    state.at = String(n);
    made.view.signal('at', n).run();
    readOut(n, rows, one, title);
  };
  made.view.addEventListener('click', (event, item) => item?.datum?.n && read(item.datum.n));
  byId('sizes-chart').onkeydown = event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const place = sizes.indexOf(Number(state.at));
    read(sizes[place < 0 ? (step > 0 ? 0 : sizes.length - 1) : Math.min(sizes.length - 1, Math.max(0, place + step))]);
  };
}

/** The values at one size, best first. */
function readOut(n, rows, one, title) {
  const found = rows.filter(row => row.n === n).sort((a, b) => (one.better || 1) * (b.value - a.value));
  fill('sizes-read', found.length ? table([`At ${found[0].problem ?? `n = ${n}`}`, title, '95% interval', 'SM clock'],
    found.map(row => rowOf(row.variant, [row.label, exact(row.value, row.shown), row.interval, row.clock]))) : null);
}

/** A kernel's mark in the legend. */
function symbol({ colour: fillColour, shape, dash }) {
  const paths = { circle: 'M0,-4.5A4.5,4.5 0 1 0 .01,-4.5Z', square: 'M-4,-4H4V4H-4Z', 'triangle-up': 'M0,-5L5,4H-5Z',
    diamond: 'M0,-5.5L5,0L0,5.5L-5,0Z', cross: 'M-1.7,-5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5V-1.7H-1.7Z',
    'triangle-down': 'M0,5L5,-4H-5Z', 'triangle-right': 'M5,0L-4,5V-5Z' };
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('width', 28); svg.setAttribute('height', 14); svg.setAttribute('viewBox', '-14 -7 28 14');
  svg.setAttribute('aria-hidden', 'true');
  for (const [d, kind] of [['M-14,0H14', 'line'], [paths[shape], 'mark']]) {
    const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    path.setAttribute('d', d);
    path.setAttribute('style', kind === 'line' ? `stroke:${fillColour};stroke-width:2;stroke-dasharray:${dash.join(' ')}` : `fill:${fillColour}`);
    svg.append(path);
  }
  return svg;
}

// ---- two side by side -----------------------------------------------------------------------------------------------

/** A kernel's values at a size by the metric's name, and whether any is stale. */
function known(name, n) {
  const found = { stale: false };
  const timed = machine().rows.find(row => row.variant === name && row.n === n && row.first && row.regime === regime() && row.data === inputs());
  const counted = machine().counters[name]?.[n];
  for (const metric of DATA.metrics) {
    const from = { bench: timed, resources: DATA.resources[name], bounds: DATA.bounds[name]?.[n], counters: counted }[metric.source];
    const value = scaled(metric.key, from?.[metric.key]);
    if (isNumber(value)) found[metric.id] = value;
  }
  found.stale = Boolean(timed?.stale || counted?.stale);
  return found;
}

/** Kernels that have any value on this machine, in the catalogue's order. */
const knownKernels = () => DATA.kernels.map(kernel => kernel.variant).filter(name =>
  name in machine().counters || machine().rows.some(row => row.variant === name) || name in DATA.bounds);

const sizesOf = name => unique([...Object.keys(machine().counters[name] ?? {}).map(Number),
  ...machine().rows.filter(row => row.variant === name).map(row => row.n), ...Object.keys(DATA.bounds[name] ?? {}).map(Number)]);

async function renderPair() {
  const [form, along] = document.querySelectorAll('#pair form');
  const names = knownKernels();
  const steps = DATA.steps.filter(step => names.includes(step.variant) && names.includes(step.over));
  const first = steps[0] ?? { over: names[0], variant: names[1] };
  const b = names.includes(state.b) ? state.b : first.variant;
  const a = names.includes(state.a) ? state.a : (steps.find(step => step.variant === b)?.over ?? first.over);
  const sizes = sizesOf(a).filter(n => sizesOf(b).includes(n)).sort((x, y) => x - y);
  const n = Number(oneOf(state.n, [4096, ...sizes].filter(size => sizes.includes(size))));
  const place = steps.findIndex(step => step.over === a && step.variant === b);
  const toStep = step => go({ a: step.over, b: step.variant, n: '' });
  const next = (way, text) => {
    const step = place < 0 ? steps[way > 0 ? 0 : steps.length - 1] : steps[place + way];
    return el('button', { type: 'button', id: `pair-step${way}`, disabled: !step, onclick: () => toStep(step) }, text);
  };
  controls(form, conditions(),
    choice('a', 'A', kernelOptions(names), a), choice('b', 'B', kernelOptions(names), b),
    el('button', { type: 'button', id: 'pair-swap', onclick: () => go({ a: b, b: a }) }, 'Swap'),
    choice('n', 'n', sizes.map(size => [size, size]), n), next(-1, '◀ Step before'), next(1, 'Next step ▶'),
    el('label', { class: 'check' }, el('input', { type: 'checkbox', id: 'pair-same', checked: state.same === '1',
      onchange: event => go({ same: event.target.checked ? '1' : '' }) }), 'Also what differs by at most 1%'));
  const step = steps[place];
  fill('pair-changed', ...(step ? [el('strong', {}, `Worklog ${step.part}: `), `${step.changed}. Meant to move: `,
    step.counters.map(one => `${METRICS.get(one.key)?.label ?? one.key} (${one.meant})`).join(', ') + '.'] : []));

  const left = known(a, n), right = known(b, n);
  const rows = [], kinds = shareKinds(machine().rows.filter(row => [a, b].includes(row.variant) && row.n === n));
  let section = '';
  for (const metric of DATA.metrics) {
    const one = left[metric.id], other = right[metric.id];
    if (one == null && other == null) continue;
    if (metric.least != null && !(one >= metric.least || other >= metric.least)) continue;
    const both = isNumber(one) && isNumber(other), change = both && one !== 0 ? other / one - 1 : null;
    const alike = both && Math.abs(other - one) <= SAME * Math.max(Math.abs(one), Math.abs(other));
    if (alike && state.same !== '1') continue;
    if (metric.section !== section) rows.push({ section: section = metric.section });
    const side = !both || alike || !metric.better ? '' : (other > one) === (metric.better > 0) ? 'B' : 'A';
    rows.push([el('a', { href: hashOf({ x: metric.id }) + '', onclick: event => { event.preventDefault(); go({ x: metric.id }); byId('along').scrollIntoView(); } },
      withComma(metric.label, metric.unit)),
    exact(one), exact(other), [both ? (alike ? 'same' : signed(other - one)) : '', { class: { '': '', A: 'worse', B: 'better' }[side], title: both ? String(other - one) : '' }],
    change == null || alike ? '' : `${other > one ? '▲' : '▼'} ${change > 9 ? number(other / one, 3) + 'x' : signed(100 * change, 3) + '%'}`,
    [side ? `${side} better` : '', { class: 'words' }], [metric.from + (metric.key === 'share_of_baseline' ? `, ${kinds}` : ''), { class: 'words origin' }]]);
  }
  const heads = [`n = ${n}`, `A: ${mark(a, left.stale)}`, `B: ${mark(b, right.stale)}`, 'B − A', 'in %', '', 'from'];
  fill('pair-table', rows.length ? table(heads, rows) : el('p', { class: 'empty' }, 'Nothing is known of both at one size on this machine.'),
    el('p', { class: 'note' }, `${machine().origin}. Resources: by the compiler, of this tree; least cycles: by the emulator, of this tree. Blue: B is better; orange: B is worse. A metric leads to its course along the ladder. `
      + `${left.stale || right.stale ? '† source changed since measured. ' : ''}${notShown()}`));
  const no = 'There are no counters of both kernels on this machine.';
  await Promise.all([
    drawDifferences('pair-stalls', DATA.metrics.filter(metric => metric.section.startsWith('Stalls')), left, right, 'cycles per issued instruction, B − A', no),
    drawDifferences('pair-bounds', DATA.metrics.filter(metric => metric.id.startsWith('percent_')), left, right, 'percent of measured cycles, B − A', no),
    renderSteps(along),
    renderSources(a, b),
  ]);
}

/** The sources of two kernels next to each other; a line that the other one does not have is marked. */
async function renderSources(a, b) {
  const texts = await part('sources');
  const paths = [a, b].map(name => KERNELS.get(name)?.source);
  const lines = paths.map(path => (texts[path] ?? '').split('\n'));
  const code = (place, own, against) => el('pre', { tabindex: '0' }, own.map(line => el('span',
    { class: line.trim() && !against.has(line.trim()) ? 'own' : '' }, line + '\n')));
  const sets = lines.map(own => new Set(own.map(line => line.trim())));
  fill('pair-sources', ...[a, b].map((name, place) => el('div', {}, el('h3', {}, `${'AB'[place]}: `, el('code', {}, paths[place] ?? labelOf(name))),
    paths[place] ? code(place, lines[place], paths[0] === paths[1] ? sets[place] : sets[1 - place]) : el('p', { class: 'empty' }, 'A library, without a source here.'))));
  byId('pair-same-source').textContent = paths[0] && paths[0] === paths[1] ? 'Both are instances of one template.' : 'Marked: lines that the other source does not have.';
}

const withComma = (label, unit) => label + (unit ? `, ${unit}` : '');
/** The colour of a change: better, worse, or neither where a metric has no better direction. */
const judged = (change, better) => (!change || !better ? 'var(--library)' : change * better > 0 ? 'var(--better)' : 'var(--worse)');
const signed = (value, digits) => (value > 0 ? '+' : value < 0 ? '−' : '') + number(Math.abs(value), digits);

function drawDifferences(id, metrics, left, right, title, why) {
  const rows = metrics.filter(metric => isNumber(left[metric.id]) && isNumber(right[metric.id]))
    .filter(metric => Math.max(Math.abs(left[metric.id]), Math.abs(right[metric.id])) >= (metric.least ?? 0))
    .map((metric, order) => {
      const value = Number((right[metric.id] - left[metric.id]).toPrecision(9)); // the tables hold nine digits
      return { label: metric.label, order, value, colour: judged(value, metric.better), text: Math.abs(value) < 1e-6 ? '0' : signed(value, 3),
        before_shown: number(left[metric.id]), after_shown: number(right[metric.id]) };
    });
  return draw(id, 'differences', rows, title, {}, why);
}

function renderSteps(form) {
  const names = new Set(knownKernels());
  const steps = DATA.steps.filter(step => names.has(step.variant) && names.has(step.over));
  const values = new Map([...names].map(name => [name, known(name, sizesOf(name).includes(4096) ? 4096 : sizesOf(name)[0])]));
  const comparable = DATA.metrics.filter(metric => steps.some(step => isNumber(values.get(step.variant)[metric.id]) && isNumber(values.get(step.over)[metric.id])));
  const metric = comparable.find(one => one.id === state.x) ?? comparable[0];
  const parts = unique(steps.map(step => step.part));
  const part = parts.includes(state.p) ? state.p : '';
  const sections = unique(comparable.map(one => one.section));
  controls(form, choice('x', 'Metric', sections.map(section => ({ group: section, options: comparable.filter(one => one.section === section).map(one => [one.id, withComma(one.label, one.unit)]) })), metric?.id),
    choice('p', 'Worklog', [['', 'all'], ...parts.map(name => [name, name])], part));
  const rows = metric ? steps.filter(step => !part || step.part === part).map((step, order) => {
    const before = values.get(step.over)[metric.id], value = values.get(step.variant)[metric.id];
    const meant = step.counters.find(one => one.key === metric.id)?.meant;
    const change = before ? value / before - 1 : null;
    return { label: `${step.part}: ${labelOf(step.variant)}`, order, value, before, most: Math.max(value, before), changed: step.changed,
      over: step.over, variant: step.variant, before_shown: `${number(before)} (${labelOf(step.over)})`, after_shown: number(value), meant,
      shape: value < before ? 'triangle-left' : value > before ? 'triangle-right' : 'circle',
      colour: judged(value - before, metric.better),
      text: value === before ? 'same' : change == null ? 'from 0' : change > 9 ? `${number(value / before, 3)}x` : `${signed(100 * change, 3)}%` };
  }).filter(row => isNumber(row.before) && isNumber(row.value)) : [];
  fill('steps-table', table(['Step', 'from', 'before', 'after', 'change', 'meant to', 'what it changes'], rows.map(row => rowOf(row.variant,
    [el('a', { href: linkTo('pair', { a: row.over, b: row.variant, x: state.x }) }, row.label), labelOf(row.over), exact(row.before), exact(row.value),
      row.text, row.meant ?? '', [row.changed, { class: 'words' }]]))));
  const all = rows.flatMap(row => [row.value, row.before]);
  const log = all.length && Math.min(...all) > 0 && Math.max(...all) / Math.min(...all) > 60;
  const title = metric ? withComma(metric.label, metric.unit) + (log ? ' (logarithmic)' : '') : '';
  return draw('pair-steps', log ? 'steps_log' : 'steps', rows, title, {}, 'No step has this metric before and after.');
}

// ---- banks ----------------------------------------------------------------------------------------------------------

async function renderBanks() {
  DATA.pictures = await part('pictures');
  const chosen = DATA.pictures.find(picture => picture.name === state.pic);
  controls(document.querySelector('#banks form'),
    choice('pic', 'Picture', [['', 'all'], ...DATA.pictures.map(picture => [picture.name, picture.title])], chosen?.name ?? ''));
  fill('banks-pictures', (chosen ? [chosen] : DATA.pictures).map(picture => {
    const drawing = el('div');
    drawing.innerHTML = picture.svg; // the pipeline's own drawing
    return el('div', { class: 'picture' }, el('h3', {}, picture.title), el('p', { class: 'lead' }, picture.text), drawing,
      el('div', { class: 'scroll' }, table(['Access', 'wavefronts', 'would do', 'where'], picture.accesses.map(access => [
        el('a', { href: linkTo('pair', { b: access.variant }) }, `${access.label}: ${access.says}`), exact(access.wavefronts), exact(access.ideal),
        [`${access.file}:${access.line}`, { class: 'words' }]]))));
  }), DATA.pictures.length ? null : el('p', { class: 'empty' }, 'No bank picture was drawn.'));
}

// ---- claims ---------------------------------------------------------------------------------------------------------

/** Filters of the claims: state, label, column. Those that no claim has are left out. */
const FILTERS = [['w', 'Worklog', 'worklog'], ['v', 'Verdict', 'verdict'], ['kind', 'Kind', 'kind'], ['cl', 'Class', 'class'], ['on', 'About', 'about']];

/** The claims as judged on the chosen machine: counted verdicts first, then claims without a measurement, then what is not counted. */
async function claimsOfMachine() {
  const place = Math.max(0, CLAIM_MACHINES.indexOf(machine() ? shortName(machine()) : ''));
  const found = CLAIM_MACHINES.length ? await part(`claims${place}`) : [];
  const rank = claim => (claim.counted === false ? 2 : claim.verdict.startsWith('not ') ? 1 : 0);
  return [...found].sort((a, b) => rank(a) - rank(b));
}

async function renderClaims() {
  const all = await claimsOfMachine();
  const title = key => DATA.worklogs.find(one => one.key === key)?.title;
  const search = el('label', {}, 'Search', el('input', { type: 'search', id: 'claims-s', value: state.s, oninput: event => go({ s: event.target.value, c: '', pg: '' }) }));
  controls(document.querySelector('#claims form'),
    CLAIM_MACHINES.length > 1 ? conditions()[0] : null,
    FILTERS.map(([key, label, column]) => {
      const values = unique(all.map(claim => claim[column]).filter(value => value != null)).sort();
      return choice(key, label, [['', 'all'], ...values.map(value => [value, column === 'worklog' && title(value) ? `${value}: ${title(value)}` : value])], state[key], () => ({ c: '', pg: '' }));
    }), search);
  const words = state.s.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter(claim => FILTERS.every(([key, , column]) => !state[key] || claim[column] === state[key])
    && words.every(word => `${claim.id} ${claim.claim} ${claim.remark ?? ''} ${claim.section} ${claim.quote ?? ''} ${claim.measure ?? ''}`.toLowerCase().includes(word)));
  const one = all.find(claim => claim.id === state.c);
  const list = one && !found.includes(one) ? [one, ...found] : found;
  const counted = found.filter(claim => claim.counted !== false); // definitions, findings and repetitions are no claims to count
  byId('claims-count').textContent = all.length ? `${found.length} of ${all.length} entries; ${all[0].origin}. Counted below: ${counted.length}.` : 'No claims were judged.';
  const worklogs = unique(counted.map(claim => claim.worklog)), verdicts = Object.keys(VERDICTS).filter(name => counted.some(claim => claim.verdict === name));
  const count = (worklog, verdict) => counted.filter(claim => claim.worklog === worklog && claim.verdict === verdict).length;
  fill('claims-counts', counted.length ? table(['Worklog', ...verdicts], worklogs.map(worklog => [
    el('a', { href: hashOf({ w: worklog, v: '', c: '', pg: '' }) }, worklog),
    ...verdicts.map(verdict => el('a', { href: hashOf({ w: worklog, v: verdict, c: '', pg: '' }) }, String(count(worklog, verdict))))])) : null);
  const pages = Math.max(1, Math.ceil(list.length / CLAIMS_A_PAGE));
  const asked = Number(state.pg) || (one ? 1 + Math.floor(list.indexOf(one) / CLAIMS_A_PAGE) : 1);
  const page = Math.min(pages, Math.max(1, Math.floor(asked)));
  const to = (number, text) => (number < 1 || number > pages ? null : el('a', { href: hashOf({ pg: String(number), c: '' }) }, text));
  const turn = () => (pages > 1 ? el('p', { class: 'pages no-print' }, to(page - 1, '◀ Page before'), ` Page ${page} of ${pages} `, to(page + 1, 'Next page ▶')) : null);
  fill('claims-list', turn(), list.slice(CLAIMS_A_PAGE * (page - 1), CLAIMS_A_PAGE * page).map(claim => article(claim)), turn());
  if (one) document.getElementById(`claim-${one.id}`)?.scrollIntoView({ block: 'center' });
}

/** Our value in its unit, and its interval; null where there is none. */
function oursOf(claim) {
  if (claim.ours == null) return null;
  const unit = claim.unit && claim.unit !== 'count' ? claim.unit : '', value = Number(claim.ours);
  const range = isNumber(claim.ours_low) && isNumber(claim.ours_high) && claim.ours_low < claim.ours_high
    ? ` (${number(claim.ours_low)} to ${number(claim.ours_high)})` : '';
  return withUnit(isNumber(value) ? number(value) : claim.ours, isNumber(value) ? unit : '') + range;
}

function article(claim) {
  const [look, sign] = VERDICTS[claim.verdict] ?? ['', ''];
  const unit = claim.unit && claim.unit !== 'count' ? claim.unit : '', ours = oursOf(claim);
  const facts = [claim.theirs != null ? `theirs: ${withUnit(claim.theirs, unit)}${claim.gpu ? `, ${claim.gpu}` : ''}` : '',
    ours != null ? `here: ${ours}` : '', claim.why].filter(Boolean).join(' · ');
  const open = claim.id === state.c;
  return el('article', { id: `claim-${claim.id}`, class: open ? 'chosen' : '' },
    el('div', {}, el('span', { class: `verdict ${look}` }, `${sign} ${claim.verdict}`), claim.kind ? ` · ${claim.kind}` : '',
      claim.class && claim.class !== 'claim' ? ` · ${claim.class}` : '', ' · ',
      el('a', { href: hashOf({ c: claim.id }), title: 'A link to this claim' }, claim.id)),
    el('h3', {}, claim.claim), el('p', { class: 'facts' }, facts),
    claim.remark ? el('p', {}, claim.remark) : null,
    el('details', { open }, el('summary', {}, 'What it rests on'),
      el('p', {}, `${claim.class === 'rung' ? '' : `Worklog ${claim.worklog}, `}${claim.section}${claim.lines ? `, line ${claim.lines}` : ''}`, claim.quote ? el('span', {}, ': ', el('q', {}, claim.quote)) : ''),
      claim.published?.length ? el('p', {}, 'Numbers in published.csv: ', el('code', {}, claim.published.join(', '))) : null,
      claim.measure ? el('p', {}, 'Measure: ', el('code', {}, claim.measure)) : null,
      claim.evidence ? el('p', {}, `Evidence: ${claim.evidence}`) : null,
      claim.basis ? el('p', {}, `Basis: ${claim.basis}`) : null,
      claim.if_stricter ? el('p', {}, `By a stricter rule: ${claim.if_stricter}; by a looser one: ${claim.if_looser}`) : null,
      claim.rests?.length ? el('ul', {}, claim.rests.map(one => el('li', {}, el('a', { href: restLink(one, claim) }, el('code', {}, one.call)), ` ${one.gives}`))) : null,
      claim.kernels?.length ? el('p', {}, 'Kernels: ', claim.kernels.flatMap((name, place) => [place ? ', ' : '', el('a', { href: stepLink(name) }, labelOf(name))])) : null));
}

/** The view that shows what a call in a measure gives. */
function restLink(one) {
  const [first, second] = one.kernels;
  if (one.view === 'sizes') {
    return linkTo('sizes', { d: unique(one.kernels.map(name => KERNELS.get(name).dtype)).length > 1 ? 'all' : KERNELS.get(first).dtype, k: one.kernels.join(','), q: one.shows });
  }
  const before = DATA.steps.find(step => step.variant === first)?.over ?? KERNELS.get(first)?.builds_on;
  return linkTo('pair', second ? { a: first, b: second, x: one.shows } : { a: before, b: first, x: one.shows });
}

/** Words with names in backticks, these as code. */
const ticked = words => words.split('`').map((part, place) => place % 2 ? el('code', {}, part) : part);

/** The view that shows a finding: its chart, or else the figure that the paper has of it. */
const chartOf = one => (one.chart ? linkTo(one.chart.view, one.chart) : one.figure ? linkTo('findings', { fig: one.name }) : null);

/** What a finding says here, in words. */
function statementOf(one) {
  if (one.holds === null) return [`Not computed here: ${one.why}.`];
  return [one.holds ? '' : el('em', {}, 'Not here: '), ...ticked(one.summary ?? '')];
}

const evidenceOf = one => one.evidence.flatMap(id => [' ', el('a', { href: linkTo('claims', { cl: 'finding', c: id }) }, id)]);

/** The GPUs on which a finding was computed: those where it holds, and those where it does not. */
function machinesOf(one) {
  const on = holds => unique(one.tried.filter(tried => tried.holds === holds).map(tried => tried.gpu)).join(', ');
  return [on(true) && `Holds on ${on(true)}`, on(false) && `not on ${on(false)}`].filter(words => words).join('; ');
}

/** A card for a leading finding; all of it opens the chart. */
const card = one => el(chartOf(one) ? 'a' : 'div', { class: 'card', href: chartOf(one) },
  el('h3', {}, one.title), el('p', { class: 'note' }, machinesOf(one)), el('p', {}, statementOf(one)), chartOf(one) ? el('p', { class: 'open' }, one.chart ? 'Open its chart →' : 'Open its figure →') : null);

/** Which machine each finding holds on, with the shares of cuBLAS of its kernels. */
function matrixOf(found) {
  const machines = unique(found.flatMap(one => one.tried.map(on => on.machine)));
  const gpu = name => found.flatMap(one => one.tried).find(on => on.machine === name).gpu;
  const cell = on => {
    if (!on) return '–';
    if (on.holds === null) return [el('span', { class: 'verdict' }, '– not tried'), { class: 'words', title: on.why ?? '' }];
    const share = on.least_percent == null ? '' : el('small', {}, ` ${number(on.least_percent, 3)} to ${number(on.greatest_percent, 3)}% of cuBLAS, in turns`);
    return [[el('span', { class: `verdict ${on.holds ? 'holds' : 'fails'}` }, on.holds ? '✓ holds' : '✗ does not hold'), share],
      { class: 'words', title: on.least_at ? `least: ${on.least_at}; greatest: ${on.greatest_at}` : '' }];
  };
  return machines.length ? table(['Finding', ...machines.map(name => `${gpu(name)} (${name})`)], found.map(one =>
    [chartOf(one) ? el('a', { href: chartOf(one) }, one.title) : one.title, ...machines.map(name => cell(one.tried.find(on => on.machine === name)))])) : null;
}

async function renderFindings() {
  const large = DATA.findings.filter(one => one.part !== 'smaller'), lead = large.filter(chartOf).slice(0, LEADING);
  const line = one => el('li', {}, el('strong', {}, `${one.title}.`), ' ', statementOf(one),
    one.tried.length > 1 ? el('em', {}, ` It ${one.status}.`) : '', evidenceOf(one),
    chartOf(one) ? [' ', el('a', { href: chartOf(one) }, one.chart ? 'chart' : 'figure')] : '');
  const open = DATA.findings.find(one => one.figure && one.name === state.fig);
  fill('findings-figure');
  if (open) {
    const drawing = el('div');
    drawing.innerHTML = (await part('figures'))[open.name]; // the pipeline's own drawing
    fill('findings-figure', el('div', { class: 'picture figure' }, el('h3', {}, open.title), el('p', { class: 'lead' }, statementOf(open), evidenceOf(open)), drawing,
      el('p', { class: 'no-print' }, el('a', { href: linkTo('findings', {}) }, 'Close'))));
  }
  fill('findings-cards', lead.map(card));
  fill('findings-matrix', matrixOf(large));
  byId('findings-where').hidden = !large.some(one => one.tried.length);
  fill('findings-list', large.map(line));
  fill('findings-smaller', DATA.findings.filter(one => one.part === 'smaller').map(line));
  byId('findings-more').hidden = !DATA.findings.some(one => one.part === 'smaller');
  if (open) byId('findings-figure').scrollIntoView({ block: 'nearest' });
}

// ---- the page -------------------------------------------------------------------------------------------------------

const RENDER = { ladder: renderLadder, sizes: renderSizes, pair: renderPair, banks: renderBanks, claims: renderClaims, findings: renderFindings };
const shownViews = () => Object.keys(VIEWS).filter(view => view !== 'findings' || DATA.findings.length > 0);

let turns = 0;

/** Put the page's address on the clipboard, or show it where the browser bars that. */
async function copyLink(event) {
  const button = event.target;
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy link'; }, 2000);
  } catch {
    window.prompt('The address of this page as it is shown now:', location.href);
  }
}

async function render() {
  const turn = ++turns;
  if (state.theme) document.documentElement.dataset.theme = state.theme; else delete document.documentElement.dataset.theme;
  const views = shownViews();
  if (!views.includes(state.view)) state.view = FIRST;
  const switched = document.body.dataset.view !== state.view;
  document.body.dataset.view = state.view;
  document.body.dataset.ready = '';
  byId('origin').textContent = DATA.origin + (DATA.why_archived ? ` (${DATA.why_archived})` : '');
  const dark = state.theme ? state.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  const focused = document.activeElement?.id;
  fill('views', views.map(view => el('a', { id: `to-${view}`, href: linkTo(view, view === state.view ? state : {}), 'aria-current': view === state.view ? 'page' : null }, VIEWS[view])),
    el('button', { id: 'to-copy', type: 'button', title: 'Copy a link to exactly what is shown', onclick: copyLink }, 'Copy link'),
    el('a', { id: 'to-theme', role: 'button', href: hashOf({ theme: dark ? 'light' : 'dark' }) }, dark ? 'Light' : 'Dark'));
  if (focused?.startsWith('to-')) byId(focused)?.focus();
  for (const section of document.querySelectorAll('main section')) section.hidden = section.dataset.view !== state.view;
  document.title = `GEMM Ladder, ${VIEWS[state.view].toLowerCase()}`;
  if (switched) window.scrollTo(0, 0);
  byId('about').textContent = `${DATA.kernels.length} kernels and libraries, ${DATA.claims[0]?.entries ?? 0} entries of claims. The address of this page holds its state: copy it to share what you see.`;
  await Promise.all([machine(), other()].map(loadMachine));
  if (turn !== turns) return; // another state was asked for in the meantime
  if (!DATA.machines.length && !['banks', 'claims', 'findings'].includes(state.view)) {
    const chart = document.querySelector(`#${state.view} .chart`);
    chart?.replaceChildren(el('p', { class: 'empty' }, whyNothing()));
  } else {
    await RENDER[state.view]();
  }
  if (turn !== turns) return;
  document.body.dataset.ready = state.view;
}

window.addEventListener('hashchange', () => { readState(); render(); });
let width = window.innerWidth;
window.addEventListener('resize', () => {
  if (window.innerWidth !== width) { width = window.innerWidth; render(); }
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => render());
readState();
render();
