// Predict, then see: a step's result stays hidden until the reader has said which counter will move and what will limit.
// `predict` in the state is the switch; `guess` is VARIANT.COUNTER.DIRECTION.LIMITER, for one step.

const DIRECTIONS = ['rise', 'fall'];
let answered = false; // just now: the focus goes to the verdict

const limiterNames = ({ limits }) => [...Object.values(DATA.units).filter(name => (
  limits.some(limit => limit.units.some(unit => unit.name === name)))), 'Latency'];

/** The counters that any step is meant to move, as far as they were collected of both kernels of this one. */
function countersOfStep({ old, now }) {
  const meant = new Set(DATA.steps.flatMap(({ counters }) => counters.map(({ key }) => key)));
  return Object.keys(DATA.counters).filter(key => meant.has(key) && isNumber(old[key]) && isNumber(now[key]));
}

/** The guess in the hash for this step, { key, meant, name }, or null. */
function guessOf(step) {
  const [of, key, meant, name] = state.guess.split('.');
  if (of !== step.variant) return null;
  const isKnown = countersOfStep(step).includes(key) && DIRECTIONS.includes(meant)
    && limiterNames(step).includes(name);
  if (!isKnown) unknown.push(`There is no guess “${state.guess}” here.`);
  return isKnown ? { key, meant, name } : null;
}

/** What is known of the step to a kernel, at the size or the first one that both kernels were profiled at; null where none is. */
function stepOf(gpu, variant, n) {
  const over = before(variant), sizes = over ? profiled(gpu, [variant, over]) : [], at = sizes.includes(n) ? n : sizes[0];
  if (!at) return null;
  const [[old, now], limits] = [counted, limiter].map(read => [over, variant].map(name => read(gpu, name, at)));
  return { variant, over, n: at, old, now, limits };
}

/** Whether a step's result is hidden; `step` is that of `stepOf`. */
const isHidden = step => Boolean(state.predict && step && !guessOf(step));

/** The rows of a ladder, given in order, whose results are hidden: the chosen one's, and those of the kernels after it. */
function hiddenRungs(gpu, rows, chosen, n) {
  if (!state.predict) return new Set();
  const after = rows.slice(rows.indexOf(chosen) + 1).filter(row => KERNELS.get(row.variant).kind !== 'baseline');
  return new Set(isHidden(stepOf(gpu, chosen.variant, n)) ? [chosen, ...after] : after);
}

/** The switch, for the panel of a rung. */
function predictSwitch(id = 'predict') {
  const toggle = () => go({ predict: state.predict ? '' : 'yes', guess: '' });
  return el('button', { type: 'button', role: 'switch', id, 'aria-checked': String(Boolean(state.predict)), onclick: toggle },
    `Predict, then see: ${state.predict ? 'on' : 'off'}`);
}

/** Show the form in an element, or the guess beside what was measured; nothing where the switch is off. */
function mountPredict(element, step) {
  const guess = state.predict && step ? guessOf(step) : null;
  for (const other of document.querySelectorAll('#rung-predict, #lens-predict')) other.replaceChildren(); // of another view
  element.replaceChildren(...(guess ? verdictOf(step, guess) : isHidden(step) ? [predictForm(step)] : []));
  if (guess && answered) element.querySelector('h3').focus();
  answered = false;
}

function predictForm(step) {
  const { variant, over, n, old, limits } = step;
  const unit = key => DATA.counters[key][1].replace('cycles per instruction', 'cycles'), title = `From ${labelOf(over)} to ${labelOf(variant)}, n = ${n}`;
  const option = ([value, text]) => el('option', { value }, text);
  const counterOption = key => [key, `${key.startsWith('stall_') ? 'Stall: ' : ''}${DATA.counters[key][0]}, now ${withUnit(old[key], unit(key))}`];
  const select = (name, label, ...options) => el('label', {}, label, el('select', { name, id: `predict-${name}`, required: true },
    el('option', { value: '' }, 'choose'), options));
  const stall = topStall(old), submit = event => {
    event.preventDefault();
    const { counter, direction, limiter: name } = Object.fromEntries(new FormData(event.target));
    answered = true;
    go({ guess: [variant, counter, direction, name].join('.') });
  };
  return el('form', { class: 'card', 'aria-label': 'Predict this step', onsubmit: submit },
    el('h3', {}, title),
    el('p', {}, `Before: the limiter is ${limits[0].short}${stall ? `, the top stall ${stall.name.toLowerCase()}` : ''}. `,
      'The source below shows what changes. The result appears once you have chosen.'),
    el('div', { class: 'controls' },
      select('counter', 'A counter that will move', countersOfStep(step).map(counterOption).map(option)),
      select('direction', 'It will', DIRECTIONS.map(direction => option([direction, direction]))),
      select('limiter', 'The limiter will be', limiterNames(step).map(name => option([name, name]))),
      el('button', { type: 'submit', id: 'predict-submit' }, 'Show the result')));
}

/** The guess beside what was measured: right or wrong, by the counters. */
function verdictOf({ variant, old, now, limits }, { key, meant, name }) {
  const [label, unit] = DATA.counters[key], result = outcomeOf(old[key], now[key], meant);
  const verdict = (isRight, text) => el('li', {},
    el('span', { class: `verdict ${isRight ? 'yes' : 'no'}` }, isRight ? '✓ right' : '✗ wrong'), `: ${text}`);
  const [from, to] = [old, now].map(row => withUnit(row[key], unit));
  const change = result === 'hardly moved' ? result : relative(old[key], now[key]);
  const keys = (STEPS.get(variant)?.counters ?? []).map(counter => counter.key), isMeant = keys.includes(key);
  const others = keys.filter(other => other !== key).map(other => DATA.counters[other][0]);
  return [el('h3', { tabindex: -1 }, 'Your prediction'), el('ul', {},
    verdict(result === 'as meant', `you said that this counter will ${meant}: ${label}. It went from ${from} to ${to}, ${change}.`),
    verdict(limits[1].name === name, `you said that the limiter will be ${name}. It is ${limits[1].short}.`)),
  others.length > 0 && el('p', { class: 'note' }, `The step was meant to move ${others.join(' and ')}${isMeant ? ', too' : ''}.`),
  ].filter(isShown);
}
