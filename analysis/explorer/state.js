// The page's state, which is in the URL's hash; elements, controls and numbers as text.

const DATA = JSON.parse(document.getElementById('data').textContent);
const ALL_VIEWS = {
  ladder: 'Ladder', lens: 'Lens', steps: 'Steps', findings: 'Findings', sizes: 'Sizes', compare: 'Side by side', roofline: 'Roofline',
  claims: 'Claims', banks: 'Banks',
};
const VIEWS = DATA.views ? Object.fromEntries(DATA.views.map(view => [view, ALL_VIEWS[view]])) : ALL_VIEWS;
// `predict`, `guess`, `play`: see predict.js and playground.js. `with`: GPU compared with; `q`: quantity; `draw`: kernels in
// the chart; `at`: size that is read; `a`, `b`: the kernels side by side; worklog, kind, verdict and text: filters of the
// claims; `show`: card that is scrolled to; `file`, `code`, `line`, `access`: what the lens shows
const KEYS = ['view', 'gpu', 'with', 'ladder', 'n', 'data', 'kernel', 'q', 'dtype', 'draw', 'at', 'a', 'b',
  'worklog', 'kind', 'verdict', 'text', 'show', 'predict', 'guess', 'play', 'file', 'code', 'line', 'access', 'theme'];
const KERNELS = new Map(Object.entries(DATA.kernels).map(([variant, kernel]) => [variant, { variant, ...kernel }]));
const ORDER = new Map([...KERNELS.keys()].map((variant, place) => [variant, place]));
const STEPS = new Map(DATA.steps.map(step => [step.variant, step]));
const QUANTITIES = new Map(DATA.quantities.map(quantity => [quantity.key, quantity]));
const WORKLOGS = Object.keys(DATA.worklogs);

// ---- state -----------------------------------------------------------------------------------------------------------

let state = {};
let carried = {}; // kernel, ladder and n, which another view begins with
let unknown = []; // what the hash asks for and this page does not have, a sentence each

function readState() {
  const hash = new URLSearchParams(location.hash.slice(1));
  state = Object.fromEntries(KEYS.map(key => [key, hash.get(key) ?? '']));
  unknown = [...hash.keys()].filter(key => !KEYS.includes(key)).map(key => `There is no “${key}” to choose.`);
  state.view = oneOf('view', Object.keys(VIEWS));
}

/** The value of a key of the state where it is one of `values`, else another one, which `render` says. */
function oneOf(key, values, otherwise = values[0], nameOf = value => value) {
  const value = values.find(other => String(other) === state[key]);
  if (state[key] && value === undefined) {
    const shown = otherwise === undefined ? '' : ` ${nameOf(otherwise)} is shown.`;
    unknown.push(`There is no ${key} “${state[key]}” here.${shown}`);
  }
  return value ?? otherwise;
}

function hashOf(changes) {
  const hash = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...state, ...changes })) {
    if (value !== '' && value != null && !(key === 'view' && value === Object.keys(VIEWS)[0])) hash.set(key, value);
  }
  return '#' + hash.toString().replaceAll('%2C', ',');
}

/** Another state as a new entry of the browser's history; `render` follows from the event. */
const go = changes => { location.hash = hashOf(changes); };

/** Another state in place of the current one, for what changes with every key. */
function replace(changes) {
  history.replaceState(null, '', hashOf(changes));
  readState();
}

/** A state with nothing chosen but the GPU and the theme. */
const onlyWith = changes => ({
  ...Object.fromEntries(KEYS.map(key => [key, ''])), gpu: state.gpu, theme: state.theme, predict: state.predict, ...changes,
});

// ---- elements --------------------------------------------------------------------------------------------------------

const byId = id => document.getElementById(id);
const isShown = child => child != null && child !== '' && child !== false;

/** An element. Children are elements or text; text is never taken for HTML. */
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.flat(2).filter(isShown));
  return made;
}

const fill = (id, ...children) => byId(id).replaceChildren(...children.flat(2).filter(isShown));
const announce = text => fill('live', text);
const empty = text => el('p', { class: 'empty' }, text);
const small = text => el('div', { class: 'small' }, text);
const code = text => el('code', {}, text);
const link = (text, changes) => el('a', { href: hashOf(changes) }, text);
const wordsCell = (...content) => [el('span', {}, ...content), { class: 'words' }];
const narrow = () => window.innerWidth < 720;
const unique = values => [...new Set(values)];

/** A text whose `names` are set as code. */
const withCode = text => text.split('`').map((piece, place) => (place % 2 ? code(piece) : piece));

/** A table. A cell is text, an element, or [content, attributes]; a row { section } is a heading. */
function table(heads, rows) {
  const attributesOf = cell => (Array.isArray(cell) ? cell[1] : {});
  const contentOf = cell => (Array.isArray(cell) ? cell[0] : cell);
  const bodyRow = row => el('tr', {}, row.map((cell, place) => (place
    ? el('td', attributesOf(cell), contentOf(cell))
    : el('th', { scope: 'row', ...attributesOf(cell) }, contentOf(cell)))));
  const sectionRow = row => el('tr', { class: 'section' },
    el('th', { scope: 'rowgroup', colspan: heads.length }, row.section));
  const first = rows.find(row => !row.section) ?? [];
  const headClass = place => (attributesOf(first[place]).class === 'words' ? 'words' : null);
  return el('table', {},
    el('thead', {}, el('tr', {}, heads.map((text, place) => el('th', { scope: 'col', class: headClass(place) }, text)))),
    el('tbody', {}, rows.map(row => (row.section ? sectionRow(row) : bodyRow(row)))));
}

// ---- controls --------------------------------------------------------------------------------------------------------

/** A labelled select. Options are [value, text] or { group, options }; a single option is no choice and is left out.
 *  `reset`: keys of the state that a new choice clears. */
function choice(key, label, options, chosen, reset = []) {
  if (options.flatMap(option => option.options ?? [option]).length < 2) return null;
  const make = ([value, text]) => el('option', { value, selected: String(value) === String(chosen) }, text);
  const write = event => go({ ...Object.fromEntries(reset.map(name => [name, ''])), [key]: event.target.value });
  const select = el('select', { id: `${state.view}-${key}`, onchange: write }, options.map(option => (option.options
    ? el('optgroup', { label: option.group }, option.options.map(make))
    : make(option))));
  return el('label', {}, label, select);
}

const controls = (...made) => document.querySelector(`#${state.view} form`).replaceChildren(...made.filter(isShown));
const sizeChoice = (sizes, chosen) => choice('n', 'n (m = n = k)', sizes.map(size => [size, size]), chosen);
const dataChoice = (kinds, chosen) => choice('data', 'Input data', kinds.map(kind => [kind, kind]), chosen);

// ---- numbers and names -----------------------------------------------------------------------------------------------

const isNumber = value => typeof value === 'number' && Number.isFinite(value);
const percent = value => (isNumber(value) ? `${(100 * value).toFixed(1)}%` : '–');
const labelOf = variant => KERNELS.get(variant)?.label ?? variant;
const groupName = worklog => DATA.worklogs[worklog]?.short ?? worklog;
const sentence = text => (text ? text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.') : '');

/** Three significant digits, with a prefix from ten thousand on: 0.498, 35.6, 4,096, 70.9 G. */
function number(value) {
  if (!isNumber(value)) return typeof value === 'string' ? value : '–';
  const size = Math.abs(value);
  if (size >= 1e4) {
    const prefixes = [[1e12, ' T'], [1e9, ' G'], [1e6, ' M'], [1e3, ' k']];
    const [scale, prefix] = prefixes.find(([least]) => size >= 0.9995 * least);
    return number(value / scale) + prefix;
  }
  if (Number.isInteger(value)) return value.toLocaleString('en');
  if (size < 1e-3) return value.toExponential(1);
  const places = Math.max(0, 2 - Math.floor(Math.log10(size)));
  return value.toLocaleString('en', { minimumFractionDigits: places, maximumFractionDigits: places });
}

function withUnit(value, unit) {
  if (!isNumber(value)) return typeof value === 'string' ? value : '–';
  if (unit === '%') return `${value.toFixed(1)}%`;
  const text = number(value), prefixed = /[kMGT]$/.test(text);
  if (unit === 'byte') return text + (prefixed ? 'B' : ' B');
  return unit ? `${text}${prefixed ? '' : ' '}${unit}` : text;
}

/** How a value differs from the one before: +12.0%, −31.0%, and from twice or half on ×3 or ÷3. */
function relative(before, after) {
  if (!isNumber(before) || !isNumber(after)) return '';
  if (before === after) return 'same';
  if (before === 0) return 'from zero';
  if (after === 0) return 'to zero';
  const ratio = after / before;
  if (ratio >= 2) return `×${number(ratio)}`;
  if (ratio <= 0.5) return `÷${number(1 / ratio)}`;
  return `${ratio >= 1 ? '+' : '−'}${(100 * Math.abs(ratio - 1)).toFixed(1)}%`;
}

/** A value of a timing as the page shows it: fractions in percent. */
const scaled = (key, value) => (key.startsWith('fraction') && isNumber(value) ? 100 * value : value);
const withQuantity = (key, value) => withUnit(scaled(key, value), QUANTITIES.get(key).unit);

/** The interval of a timing's quantity in words. */
const rangeOf = (row, key) => (isNumber(row[`${key}_low`])
  ? `${withQuantity(key, row[`${key}_low`])} to ${withQuantity(key, row[`${key}_high`])}` : '–');

/** Kernels as options, grouped by worklog and data type. */
function kernelOptions(variants) {
  const groupOf = variant => `${groupName(KERNELS.get(variant).worklog)}, ${KERNELS.get(variant).dtype}`;
  return unique(variants.map(groupOf)).map(group => ({
    group, options: variants.filter(variant => groupOf(variant) === group).map(variant => [variant, labelOf(variant)]),
  }));
}
