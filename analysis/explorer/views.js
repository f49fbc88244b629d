// What each view draws. A view reads the state and fills its section of the page.

const SEVERAL_SIZES = 4, DENSE_SIZES = 30; // from so many sizes on, those of a kernel are joined by a line
const CLAIM_KINDS = { anywhere: 'checked without a GPU', mechanism: 'measured on a GPU', untestable: 'not testable' };
const VERDICTS = ['holds', 'does not hold', 'within noise', 'not measured', 'not testable'];
const FEW_CLAIMS = 20; // so many are shown at once, more are folded by worklog
const views = {};

// ---- the ladder ------------------------------------------------------------------------------------------------------

views.ladder = async () => {
  const gpu = chosenGpu();
  await readNumbers(gpu);
  const ladder = chosenLadder(gpu);
  if (!ladder) return fill('ladder-rungs', empty(`Nothing was timed on ${gpu.gpu}.`));
  const all = timingsOf(gpu, ladder), sizes = ascending(all.map(row => row.n));
  const n = oneOf('n', sizes, sizes.includes(4096) ? 4096 : sizes.at(-1));
  const kinds = uniformFirst(all.map(row => row.data)), data = oneOf('data', kinds);
  const rows = timingsOf(gpu, ladder, n, data), chosen = chosenRung(rows);
  carried = { kernel: chosen.variant, ladder: state.ladder, n: state.n };
  controls(ladderChoice(gpu, ladder), gpuChoice(), sizeChoice(sizes, n), dataChoice(kinds, data));
  fill('ladder-title', ladder.text);
  fill('ladder-note', `${ladder.question} `,
    `Bars: fraction of cuBLAS, interleaved, at m = n = k = ${n} on ${gpu.gpu} (${protocol(gpu)}). `,
    'TFLOP/s: of the kernel, of cuBLAS in the same windows; compare rows by their fractions, since clocks differ. ',
    'Gain: times as fast as the kernel that it builds on. ', leftOutText(gpu));
  fill('ladder-rungs', rungRows(rows, chosen, hiddenRungs(gpu, inOrder(rows), chosen, n)));
  showInList(chosen.variant);
  await showRung(gpu, ladder, n, rows, chosen);
};

/** The kernel in the hash, else the best one: with the highest lower end of its fraction. */
function chosenRung(rows) {
  const stepped = rows.filter(row => gainOf(row, rows) && KERNELS.get(row.variant).kind === 'kernel');
  const low = row => row.fraction_low ?? row.fraction ?? 0;
  const best = (stepped.length ? stepped : rows).reduce((x, y) => (low(y) > low(x) ? y : x));
  const variant = oneOf('kernel', rows.map(row => row.variant), best.variant, labelOf);
  return rows.find(row => row.variant === variant);
}

const inOrder = rows => WORKLOGS.flatMap(worklog => rows.filter(row => KERNELS.get(row.variant).worklog === worklog));

function rungRows(rows, chosen, hidden) {
  const end = 1.04 * Math.max(1, ...rows.map(row => row.fraction_high ?? row.fraction ?? 0));
  const full = `--full: ${100 / end}%`; // where 100% of cuBLAS lies
  const head = el('div', { class: 'rung head', style: full, 'aria-hidden': 'true' },
    el('span', { class: 'name' }, 'kernel'), el('span', { class: 'track' }, el('span', {}, 'cuBLAS')),
    el('span', {}, 'fraction'), el('span', { class: 'tflops' }, 'TFLOP/s of cuBLAS'), el('span', {}, 'gain'));
  const groups = WORKLOGS.flatMap(worklog => {
    const members = rows.filter(row => KERNELS.get(row.variant).worklog === worklog);
    const gpus = (DATA.worklogs[worklog].gpus ?? []).join(', ');
    const { link: article } = DATA.worklogs[worklog];
    const name = article ? el('a', { href: article }, groupName(worklog)) : groupName(worklog);
    const title = el('h3', {}, name, el('small', {}, gpus && `measured there on ${gpus}`));
    const rungOf = row => (hidden.has(row) ? hiddenRow(row, row === chosen, full) : rungRow(row, rows, row === chosen, end, full));
    return members.length ? [title, ...members.map(rungOf)] : [];
  });
  return [head, ...groups];
}

/** The link of a rung to itself: its name, and what else stands in its row. */
function rungLink(variant, isChosen, full, title, ...cells) {
  const { dtype, idea } = KERNELS.get(variant);
  const attributes = {
    class: 'rung', id: `rung-${variant}`, style: full, href: hashOf({ kernel: variant }), title,
    'aria-current': isChosen && 'true', onkeydown: moveFocus, onclick: () => { scrollToRung = narrow(); },
  };
  return el('a', attributes, el('span', { class: 'name' }, labelOf(variant).replace(`_${dtype}`, '')), cells,
    el('span', { class: 'idea small' }, idea));
}

/** A rung whose result the reader is to predict. */
const hiddenRow = ({ variant }, isChosen, full) => rungLink(variant, isChosen, full, sentence(KERNELS.get(variant).idea),
  el('span', { class: 'track', 'aria-hidden': 'true' }), el('span', {}, '?', el('span', { class: 'hidden' }, ' to be predicted')));

function rungRow(row, rows, isChosen, end, full) {
  const { worklog, idea } = KERNELS.get(row.variant), gain = gainOf(row, rows);
  const at = value => `${100 * value / end}%`;
  const low = row.fraction_low ?? row.fraction, high = row.fraction_high ?? row.fraction;
  const moved = gain && !gain.noise && Math.abs(gain.value - 1) >= 0.005;
  return rungLink(row.variant, isChosen, full, `${sentence(idea)}${gain ? ` ${sentence(gain.words)}` : ''}`,
    el('span', { class: 'track', 'aria-hidden': 'true' },
      el('span', { class: 'bar', style: `width: ${at(row.fraction)}; background: ${DATA.worklogs[worklog].colour}` }),
      el('span', { class: 'range', style: `left: ${at(low)}; width: ${at(high - low)}` })),
    el('span', {}, percent(row.fraction)),
    el('span', { class: 'tflops' }, number(row.tflops), el('span', { class: 'small' }, ` of ${number(row.baseline_tflops)}`)),
    el('span', { class: moved ? (gain.value > 1 ? 'better' : 'worse') : '' }, gain?.text ?? ''));
}

let scrollToRung = false; // on a phone the chosen rung lies below the ladder

function moveFocus(event) {
  const rungs = [...document.querySelectorAll('a.rung')], place = rungs.indexOf(event.currentTarget);
  const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: rungs.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const rung = rungs[Math.min(rungs.length - 1, Math.max(0, next))];
  rung.focus({ preventScroll: true });
  rung.click();
}

/** Scroll the list of rungs, not the page, until the chosen one is in the middle. */
function showInList(variant) {
  const list = byId('ladder-rungs'), middle = list.clientHeight / 2, { offsetTop } = byId(`rung-${variant}`);
  if (offsetTop < list.scrollTop + 30 || offsetTop > list.scrollTop + 1.2 * middle) list.scrollTop = offsetTop - middle;
}

/** The chosen rung: idea, limiter, counters, roofline, bank picture, command and diff. */
async function showRung(gpu, ladder, n, rows, row) {
  const { variant } = row, kernel = KERNELS.get(variant), over = before(variant), gain = gainOf(row, rows);
  const changed = STEPS.get(variant)?.changed, fraction = percent(row.fraction);
  const step = stepOf(gpu, variant, n), profiledAt = step?.n, hidden = isHidden(step);
  fill('rung-title', labelOf(variant), ' ', el('span', { class: 'small' }, `${kernel.dtype}, ${groupName(kernel.worklog)}`));
  mountPredict(byId('rung-predict'), step);
  fill('rung-speed', !hidden && [el('strong', {}, fraction), ` of cuBLAS: ${speedText(row)} TFLOP/s`, gain ? `, ${gain.words}` : '']);
  fill('rung-idea', sentence(kernel.idea), changed ? ` Against ${labelOf(over)}: ${changed}.` : '');
  fill('rung-facts', hidden ? '' : profiledAt ? stepTable(gpu, variant, over, profiledAt)
    : empty(over ? 'Nsight Compute did not profile both kernels of this step.' : 'Nothing comes before this kernel.'));
  const pictures = Object.keys(DATA.pictures).filter(name => DATA.pictures[name].includes(variant));
  fill('rung-picture', pictures.map(name => el('p', {}, link('Bank picture of this kernel', { view: 'banks', show: name }))));
  mountPicture(byId('rung-tile'), kernel, await part('sources'));
  mountPlayground(byId('rung-play'), kernel, await part('sources'));
  fill('rung-run', runLines(kernel, over, ladder));
  fill('rung-next', neighbours(rows, row), predictSwitch());
  fill('rung-why', await headComment(kernel));
  await drawStep(gpu, ladder, variant, over, hidden ? null : profiledAt);
  fill('rung-diff', over ? await sourceDiff(over, variant) : '');
  announce(hidden ? `${kernel.label}: predict this step` : `${kernel.label}: ${fraction} of cuBLAS${gain ? `, ${gain.words}` : ''}`);
  if (scrollToRung) byId('rung').scrollIntoView();
  scrollToRung = false;
}

function stepTable(gpu, variant, over, n) {
  const [old, now] = [over, variant].map(name => counted(gpu, name, n));
  const limits = [over, variant].map(name => limiter(gpu, name, n));
  const stallCell = row => {
    const stall = topStall(row);
    if (!stall) return wordsCell('–');
    const cycles = `${number(stall.cycles)} of ${number(row.cycles_per_instruction)} cycles`;
    return wordsCell(stall.name, small(`${cycles}${stall.means ? `, ${stall.means}` : ''}`));
  };
  const rows = [['Limiter', ...limits.map(limit => wordsCell(limit.short)), '']];
  rows.push(['Top stall', stallCell(old), stallCell(now), '']);
  for (const { key, meant } of movedCounters(variant, old, now)) {
    const [label, unit, better] = DATA.counters[key], rises = now[key] > old[key];
    const result = outcomeOf(old[key], now[key], meant);
    const look = better && result !== 'hardly moved' ? (rises === better > 0 ? 'better' : 'worse') : '';
    const value = row => wordsCell(withUnit(row[key], unit.replace('cycles per instruction', 'cycles')));
    rows.push([el('span', {}, label, meant ? small(`meant to ${meant}: ${result}`) : ''), value(old), value(now),
      [relative(old[key], now[key]), { class: look }]]);
  }
  return [table([`n = ${n}`, labelOf(over), labelOf(variant), 'change'], rows), el('p', { class: 'note' },
    'Limiter: the unit with the most minimum cycles, at least this part of the measured ones; below 60% it is latency. ',
    limits.some(limit => limit?.short.includes('ncu')) && 'Where no minimum cycles are known, it is the larger throughput of Nsight Compute (ncu). ',
    'Counters: Nsight Compute.')];
}

async function drawStep(gpu, ladder, variant, over, n) {
  const point = name => n && rooflinePoint(gpu, name, n, timingsOf(gpu, ladder, n).find(row => row.variant === name));
  const old = point(over), now = point(variant);
  fill('rung-roofline-note', old && now ? `Roofline: circle ${labelOf(over)}, arrow ${labelOf(variant)}.` : '');
  if (!old || !now) return fill('rung-roofline');
  const start = { ...old, colour: 'var(--soft)', fill: 'transparent', text: '', step: 'before' };
  const end = { ...now, x0: old.x, y0: old.y, colour: 'var(--ours)', fill: 'var(--ours)', text: '', step: 'after' };
  return drawRoofline('rung-roofline', gpu, ladder.dtype, [start, end], 190);
}

/** Links to the rungs before and after; the keys p and n follow them. */
function neighbours(rows, row) {
  const shown = inOrder(rows), step = (id, by, before, after) => {
    const other = shown[shown.indexOf(row) + by];
    return other && el('a', { id, href: hashOf({ kernel: other.variant }) }, `${before}${labelOf(other.variant)}${after}`);
  };
  return [step('rung-previous', -1, '← ', ''), ' ', step('rung-following', 1, '', ' →')];
}

/** What a kernel's source says at its head. */
async function headComment(kernel) {
  const lines = (await part('sources'))[kernel.source]?.split('\n') ?? [];
  const text = lines.slice(0, headLength(lines)).map(line => line.replace(/^\/\/ ?/, '')).join('\n').trim();
  return text && el('details', { open: !narrow() && !state.predict }, el('summary', {}, `Why: the head of ${kernel.source}`), el('pre', {}, text));
}

function runLines(kernel, over, ladder) {
  const command = (text, line) => el('span', {}, `${text}: `, code(line));
  return el('div', { class: 'run' },
    kernel.kind === 'kernel' && command('Check and emulate it', `make try KERNEL=${kernel.variant}`),
    command('Measure this ladder', `snakemake --cores 1 ${ladder.name}`),
    DATA.lenses.includes(kernel.variant) && link('Lens: what each line costs', { view: 'lens' }),
    over && link('All counters side by side', { view: 'compare', a: over, b: kernel.variant }));
}

// ---- steps -----------------------------------------------------------------------------------------------------------

const STEP_SIZE = 4096; // n at which the steps are counted
const GAINS = 0.02; // a step whose whole interval is beyond this part is faster or slower

views.steps = async () => {
  const gpu = chosenGpu();
  await readNumbers(gpu);
  controls(gpuChoice());
  const steps = DATA.steps.map(step => ({ ...step, ...gainOfStep(gpu, step), moved: movedOfStep(gpu, step) }))
    .filter(step => step.gain);
  const meantToPay = steps.filter(({ control }) => !control);
  const asMeant = meantToPay.filter(({ moved }) => moved.length && moved.every(({ result }) => result === 'as meant'));
  const faster = asMeant.filter(({ gain }) => gain.low > 1 + GAINS).length;
  fill('steps-note', `Each step of the ladders at m = n = k = ${STEP_SIZE} on ${gpuText(gpu)}, ${protocol(gpu)}: what it changed, `,
    'how many times as fast it made the kernel, and the counters that it was meant to move. ',
    `${asMeant.length} of ${meantToPay.length} moved every counter as meant; ${faster} of these are more than 2% faster. `,
    'A control costs something on purpose, to measure what that is worth, and is not counted.');
  const worklogOf = step => KERNELS.get(step.variant).worklog;
  const groups = WORKLOGS.map(worklog => [worklog, steps.filter(step => worklogOf(step) === worklog)]);
  fill('steps-table', steps.length ? table(['step', 'what changed', 'gain', 'range', 'counters'], groups
    .filter(([, members]) => members.length)
    .flatMap(([worklog, members]) => [{ section: groupName(worklog) }, ...members.map(stepRow)]))
    : empty(`No step was timed on ${gpu.gpu}.`));
};

/** The gain of a step in the first experiment that timed both of its kernels. */
function gainOfStep(gpu, { variant, over }) {
  const rows = gpu.timings.filter(row => row.n === STEP_SIZE && row.data === 'uniform');
  const beside = row => rows.filter(other => other.experiment === row.experiment);
  const row = rows.find(one => one.variant === variant && beside(one).some(other => other.variant === over));
  return { gain: row && gainOf(row, beside(row)) };
}

function movedOfStep(gpu, { variant, over, counters }) {
  const [old, now] = [over, variant].map(name => counted(gpu, name, STEP_SIZE) ?? {});
  return counters.filter(({ key }) => isNumber(old[key]) && isNumber(now[key])).map(({ key, meant }) => (
    { key, meant, before: old[key], after: now[key], result: outcomeOf(old[key], now[key], meant) }));
}

function stepRow({ variant, over, changed, control, gain, moved }) {
  const look = gain.low > 1 + GAINS ? 'better' : gain.high < 1 - GAINS ? 'worse' : '';
  const counterLine = ({ key, meant, before: old, after, result }) => {
    const [label, unit] = DATA.counters[key];
    const mark = { 'as meant': '✓', 'the other way': '✗' }[result] ?? '±';
    return el('div', {}, `${mark} ${label}: ${withUnit(old, unit)} → ${withUnit(after, unit)}`, ' ',
      el('span', { class: 'small' }, `meant to ${meant}: ${result}`));
  };
  return [[el('span', {}, link(labelOf(variant), onlyWith({ view: 'ladder', kernel: variant, n: STEP_SIZE })),
    small(`over ${labelOf(over)}`)), {}], wordsCell(sentence(changed), control && small('a control')), [gain.text, { class: look }],
  `${gain.low.toFixed(2)} to ${gain.high.toFixed(2)}`, wordsCell(moved.map(counterLine))];
}

// ---- findings --------------------------------------------------------------------------------------------------------

views.findings = async () => {
  if (!DATA.findings.length) return fill('findings-list', empty('No findings.json was there when this page was made.'));
  const figures = await part('figures'), shownIn = { ladder: 'See it in the ladder', steps: 'See each step', sizes: 'See it over the sizes', compare: 'See both kernels side by side' };
  fill('findings-list', DATA.findings.map(finding => el('article', { class: 'card finding', id: `finding-${finding.name}` },
    el('div', {}, el('h3', {}, withCode(finding.title)),
      el('ul', {}, finding.gpus.map(result => findingOnGpu(finding, result))),
      finding.fault && el('p', {}, 'The emulator: ', code(finding.fault)),
      finding.chart && el('p', {}, link(shownIn[finding.chart.view], onlyWith(finding.chart)))),
    finding.figure in figures ? picture(figures[finding.figure], finding.title) : findingBars(finding.bars))));
};

/** A bar for each number that a finding compares, on the first GPU. */
function findingBars({ unit, rows }) {
  if (!rows) return '';
  const end = Math.max(100, ...rows.map(([, value]) => value));
  return el('div', {}, el('p', { class: 'small' }, `${unit}, ${DATA.findings[0].gpus[0].model}`),
    el('div', { class: 'bars' }, rows.flatMap(([label, value]) => barOf(label, value, end))));
}

/** A label, its bar and its percentage: three cells of a grid. */
const barOf = (label, value, end = 100, colour = 'var(--theirs)') => [
  el('span', {}, label), el('span', { class: 'track', 'aria-hidden': 'true' },
    el('i', { style: `width: ${100 * Math.min(1, value / end)}%; background: ${colour}` })), el('span', {}, `${value.toFixed(0)}%`)];

/** A picture that this project drew, on white. */
function picture(svg, label) {
  const frame = el('div', { class: 'light', tabindex: 0, role: 'group', 'aria-label': label });
  frame.innerHTML = svg;
  return frame;
}

function findingOnGpu(finding, result) {
  const gpu = DATA.gpus.find(known => known.name === result.gpu);
  const title = result.title !== finding.title ? `${result.title}. ` : '';
  const verdict = { true: ['✓ holds', 'yes'], false: ['✗ does not hold', 'no'] }[result.holds] ?? ['± not decided', ''];
  return el('li', {}, el('strong', {}, result.model), gpu && isOlder(gpu) ? ` (${protocol(gpu)})` : '', ': ',
    el('span', { class: `verdict ${verdict[1]}` }, verdict[0]), '. ', withCode(title + result.sentence));
}

// ---- sizes -----------------------------------------------------------------------------------------------------------

views.sizes = async () => {
  const gpu = chosenGpu(), other = DATA.gpus.find(known => known.id === state.with && known !== gpu);
  await Promise.all([readNumbers(gpu), readNumbers(other)]);
  const chosen = sizesChosen(gpu), { quantity, variants } = chosen, others = DATA.gpus.filter(known => known !== gpu);
  const heading = one => `${one.label}, ${one.unit}`;
  controls(choice('q', 'Quantity', DATA.quantities.map(one => [one.key, heading(one)]), quantity.key),
    choice('dtype', 'Data type', chosen.dtypes.map(dtype => [dtype, dtype]), chosen.dtype, ['draw', 'at']), gpuChoice(),
    choice('with', 'Compare with', [['', 'no other GPU'], ...others.map(one => [one.id, gpuLabel(one)])], other?.id ?? ''),
    dataChoice(chosen.kinds, chosen.data));
  const points = variants.flatMap(variant => sizePoints(gpu, false, variant, chosen));
  if (other) points.push(...variants.flatMap(variant => sizePoints(other, true, variant, chosen)));
  const sizes = ascending(points.map(point => point.n));
  chosen.at = oneOf('at', sizes, [Number(state.n), 4096].find(n => sizes.includes(n)) ?? sizes.at(-1));
  carried = { kernel: state.kernel, ladder: state.ladder, n: state.n };
  fill('sizes-legend', variants.map(variant => el('li', {}, swatch(lookOf(variant, variants)), labelOf(variant))));
  fill('sizes-note', `${gpuText(gpu)}, ${protocol(gpu)}. `,
    'Error bars: range over the processes',
    [gpu, other].some(one => one && isOlder(one)) && '; where there was one process, how far six H100s lay apart', '. ',
    other && `Hollow marks: ${gpuLabel(other)}. `, leftOutText(gpu),
    quantity.key === 'power_w' && `The power limit is ${gpu.power_limit_w} W; NVML can read more over a short window. `,
    'With the chart in focus, the left and right arrow keys read one size after another.');
  await draw('sizes-chart', 'sizes', { rows: points }, {
    title: heading(quantity), height: narrow() ? 280 : 400,
    parameters: { at: chosen.at ?? 0, zero: quantity.key !== 'sm_clock_mhz' },
    why: `${quantity.label} was not measured of these kernels.`,
  });
  byId('sizes-chart').onkeydown = event => readNextSize(event, sizes, chosen, gpu);
  readSize(chosen, gpu);
  fill('sizes-kernels', kernelChoices(chosen.known, variants));
};

/** What the view of sizes shows. The kernels do not depend on the quantity. */
function sizesChosen(gpu) {
  const timed = new Set(gpu.timings.map(row => row.variant));
  const kernels = [...KERNELS.values()].filter(kernel => timed.has(kernel.variant));
  const dtypes = unique(kernels.map(kernel => kernel.dtype)), own = KERNELS.get(state.kernel)?.dtype;
  const dtype = oneOf('dtype', dtypes, dtypes.includes(own) ? own : dtypes[0]);
  const known = kernels.filter(kernel => kernel.dtype === dtype).map(kernel => kernel.variant);
  const rows = gpu.timings.filter(row => known.includes(row.variant)), kinds = uniformFirst(rows.map(row => row.data));
  const asked = state.draw.split(',').filter(variant => known.includes(variant));
  return {
    quantity: QUANTITIES.get(oneOf('q', [...QUANTITIES.keys()])), dtype, dtypes, kinds, data: oneOf('data', kinds), known,
    variants: asked.length ? asked : usualKernels(rows, known),
  };
}

/** The kernels that are drawn first: the five fastest at n = 4096 of those with several sizes, the one in the hash, and cuBLAS. */
function usualKernels(rows, known) {
  const sizesOf = variant => new Set(rows.filter(row => row.variant === variant).map(row => row.n)).size;
  const speed = variant => rows.find(row => row.variant === variant && row.n === 4096)?.fraction ?? 0;
  const swept = known.filter(variant => sizesOf(variant) >= SEVERAL_SIZES && KERNELS.get(variant).kind !== 'baseline');
  const drawn = swept.sort((x, y) => speed(y) - speed(x)).slice(0, 5);
  return known.filter(variant => drawn.includes(variant) || variant === state.kernel || variant.startsWith('cublas_'));
}

/** A kernel's points over n. Those of a sweep are joined, but not over a gap. */
function sizePoints(gpu, isOther, variant, { quantity: { key }, data, variants }) {
  const look = lookOf(variant, variants);
  const measured = gpu.timings.filter(row => row.variant === variant && row.data === data && isNumber(row[key]));
  const first = new Map(measured.toReversed().map(row => [row.n, row])); // the first row of a size is its usual timing
  const rows = [...first.values()].sort((x, y) => x.n - y.n);
  const gap = i => rows[i].n - rows[i - 1].n;
  const gaps = rows.slice(1).map((_, i) => gap(i + 1)).sort((x, y) => x - y), usualGap = gaps[gaps.length >> 1];
  const joined = rows.length >= (isOther ? DENSE_SIZES : SEVERAL_SIZES);
  let run = 0;
  return rows.map((row, i) => {
    if (i && (!joined || gap(i) > 4 * usualGap)) run++;
    const [value, low, high] = ['', '_low', '_high'].map(end => scaled(key, row[key + end] ?? row[key]));
    return {
      variant, n: row.n, value, low, high, series: `${gpu.id} ${variant} ${run}`, gpu: gpu.model,
      label: labelOf(variant), shown: withQuantity(key, row[key]),
      range: rangeOf(row, key), ...look, fill: isOther ? 'var(--paper)' : look.colour,
    };
  });
}

function readNextSize(event, sizes, chosen, gpu) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  chosen.at = sizes[Math.min(sizes.length - 1, Math.max(0, sizes.indexOf(chosen.at) + step))];
  replace({ at: chosen.at });
  drawn.get('sizes-chart')?.view.signal('at', chosen.at).run();
  announce(`n = ${chosen.at}: ${readSize(chosen, gpu)}`);
}

/** Fill the table of all kernels at the size that is read; returns it in words. */
function readSize({ variants, quantity, data, at }, gpu) {
  const timing = variant => gpu.timings.find(row => row.variant === variant && row.n === at && row.data === data);
  const rows = variants.map(timing).filter(row => row);
  const others = ['fraction', 'tflops', 'sm_clock_mhz'].filter(key => key !== quantity.key);
  const heads = [`n = ${at}`, quantity.label, 'range', ...others.map(key => (key === 'tflops' ? 'TFLOP/s, of cuBLAS' : QUANTITIES.get(key).label))];
  fill('sizes-table', rows.length ? table([...heads, 'throttle reasons', 'experiment'], rows.map(row => [
    labelOf(row.variant), withQuantity(quantity.key, row[quantity.key]), rangeOf(row, quantity.key),
    ...others.map(key => (key === 'tflops' ? speedText(row) : withQuantity(key, row[key]))), (row.throttle_reasons ?? '–').replaceAll('_', ' '), row.experiment,
  ])) : '');
  return rows.map(row => `${labelOf(row.variant)} ${withQuantity(quantity.key, row[quantity.key])}`).join(', ');
}

function kernelChoices(known, variants) {
  const toggle = ({ target }) => {
    const isDrawn = variant => (variant === target.value ? target.checked : variants.includes(variant));
    go({ draw: known.filter(isDrawn).join(',') });
  };
  const box = (variant, label) => el('label', {}, el('input', {
    type: 'checkbox', id: `draw-${variant}`, value: variant, checked: variants.includes(variant), onchange: toggle,
  }), label);
  return kernelOptions(known).map(({ group, options }) => el('fieldset', { class: 'choices' },
    el('legend', {}, group), options.map(([variant, label]) => box(variant, label))));
}

// ---- side by side ----------------------------------------------------------------------------------------------------

views.compare = async () => {
  const gpu = chosenGpu();
  await readNumbers(gpu);
  const timed = new Set(gpu.timings.map(row => row.variant)), known = [...KERNELS.keys()].filter(name => timed.has(name));
  const firstOf = (...wanted) => wanted.find(variant => known.includes(variant)) ?? known[0];
  const b = oneOf('b', known, firstOf(state.kernel, 'sgemm_warptile'), labelOf), a = oneOf('a', known, firstOf(before(b)), labelOf);
  const sizesOf = variant => gpu.timings.filter(row => row.variant === variant).map(row => row.n);
  const both = profiled(gpu, [a, b]), sizes = ascending([...both, ...sizesOf(a).filter(n => sizesOf(b).includes(n))]);
  const n = oneOf('n', sizes, both.includes(4096) ? 4096 : both[0] ?? sizes[0]);
  const inLadder = laddersOf(gpu).find(ladder => ladder.id === state.ladder);
  const keepsLadder = inLadder && timingsOf(gpu, inLadder).some(row => row.variant === b);
  carried = { kernel: b, ladder: keepsLadder ? state.ladder : '', n: keepsLadder ? state.n : '' };
  const sizeOptions = sizes.map(size => [size, both.includes(size) ? `${size}, profiled` : size]);
  controls(choice('a', 'A', kernelOptions(known), a), choice('b', 'B', kernelOptions(known), b), gpuChoice(),
    choice('n', 'n (m = n = k)', sizeOptions, n));
  fill('compare-note', `${gpuText(gpu)}, ${protocol(gpu)}. `,
    !both.includes(n) && `Nsight Compute profiled both at ${both.map(size => `n = ${size}`).join(', ') || 'no common size'}. `);
  const limits = [a, b].map(variant => limiter(gpu, variant, n));
  fill('compare-limiters', limits.some(limit => limit?.units.length) && [
    el('h3', {}, 'Limiter: minimum cycles of each unit, % of the measured cycles'),
    el('div', { class: 'two' }, [a, b].map((variant, side) => limiterBars(variant, limits[side], side)))]);
  fill('compare-table', n ? compareTable(gpu, a, b, n, limits) : empty('The two have no size in common.'));
  fill('compare-diff', el('h3', {}, 'Sources'), await sourceDiff(a, b));
};

function limiterBars(variant, limit, side) {
  const bar = unit => barOf(unit.name, unit.percent, 100, `var(--${side ? 'ours' : 'theirs'})`);
  return el('div', {},
    el('p', {}, `${'AB'[side]}: `, el('strong', {}, labelOf(variant)), `, ${KERNELS.get(variant).idea}. ${limit?.text ?? 'Not profiled'}.`),
    el('div', { class: 'bars' }, (limit?.units ?? []).filter(unit => unit.percent >= 1).flatMap(bar)));
}

function compareTable(gpu, a, b, n, limits) {
  const times = [a, b].map(variant => usual(gpu, variant, n)), counts = [a, b].map(variant => counted(gpu, variant, n));
  const rows = [['Limiter', ...limits.map(limit => limit?.name ?? '–'), ''],
    ['Top stall', ...counts.map(row => (row && topStall(row)?.name) ?? '–'), ''], { section: 'Timing' }];
  const better = { time_us: 0, tflops: 0, power_w: 0, sm_clock_mhz: 0 }; // which depend on the clock
  for (const { key, label, unit } of DATA.quantities) {
    const values = times.map(row => scaled(key, row?.[key]));
    if (values.some(isNumber)) rows.push(compareRow(label, values, unit, better[key] ?? 1));
    if (key === 'tflops') rows.push(compareRow('cuBLAS in the same windows', times.map(row => row?.baseline_tflops), unit));
  }
  const sections = { ...DATA.sections, 'Warp stalls, cycles per issued instruction': DATA.stalls };
  for (const [title, keys] of Object.entries(sections)) {
    const known = keys.filter(key => counts.some(row => isNumber(row?.[key])));
    if (known.length) rows.push({ section: title });
    for (const key of known) {
      const [label, unit, direction] = DATA.counters[key];
      rows.push(compareRow(label, counts.map(row => row?.[key]), keys === DATA.stalls ? '' : unit, direction));
    }
  }
  const builds = [a, b].map(variant => gpu.builds[variant]);
  if (builds.some(build => build)) {
    const line = (label, key, unit = '') => compareRow(label, builds.map(build => build?.[key] ?? (build && 0)), unit);
    rows.push({ section: 'Build' }, line('Threads per block', 'threads'), line('Shared memory per block', 'shared_bytes', 'byte'),
      line('Spilled to local memory', 'spill_bytes', 'byte'), line('Blocks per SM', 'blocks_per_sm'));
  }
  return table([`n = ${n}`, `A: ${labelOf(a)}`, `B: ${labelOf(b)}`, 'B relative to A'], rows);
}

function compareRow(label, [x, y], unit, better = 0) {
  const hardly = !isNumber(x) || !isNumber(y) || Math.abs(y - x) <= MOVED * Math.abs(x);
  const tiny = unit === '%' && Math.max(x, y) < 0.5;
  const look = better && !hardly && !tiny ? ((y > x) === better > 0 ? 'better' : 'worse') : '';
  return [label, withUnit(x, unit), withUnit(y, unit), [tiny ? '' : relative(x, y), { class: look }]];
}

// ---- roofline --------------------------------------------------------------------------------------------------------

views.roofline = async () => {
  const gpu = chosenGpu();
  await readNumbers(gpu);
  const ladder = chosenLadder(gpu);
  if (!ladder) return fill('roofline-charts', empty(`Nothing was timed on ${gpu.gpu}.`));
  const rows = timingsOf(gpu, ladder), sizes = ascending(rows.filter(row => counted(gpu, row.variant, row.n)).map(row => row.n));
  const n = oneOf('n', sizes, sizes.includes(4096) ? 4096 : sizes[0]);
  controls(ladderChoice(gpu, ladder), gpuChoice(), sizeChoice(sizes, n));
  carried = { kernel: state.kernel, ladder: state.ladder, n: state.n };
  const points = rooflinePoints(gpu, rows.filter(row => row.n === n && row.data === 'uniform'), n);
  const groups = WORKLOGS.filter(worklog => worklog !== 'library' && points.some(point => point.worklog === worklog));
  fill('roofline-note', `${ladder.text}, m = n = k = ${n}, ${gpuText(gpu)}, ${protocol(gpu)}. `,
    'Each arrow is a step of the ladder; a circle is where one starts. ',
    'Bytes of DRAM are those that Nsight Compute counted; the roofs were measured on this GPU. ',
    points.some(point => KERNELS.get(point.variant).tensor && ['fp32', 'tf32'].includes(ladder.dtype))
      && 'No roof of TF32 was measured. ',
    state.kernel && !points.some(point => point.variant === state.kernel)
      && `${labelOf(state.kernel)} was not profiled at this size.`);
  fill('roofline-charts', groups.map((worklog, place) => el('div', {},
    el('h3', {}, groupName(worklog)), el('div', { class: 'chart', id: `roofline-${place}`, role: 'group' }))));
  await Promise.all(groups.map((worklog, place) => (
    drawRoofline(`roofline-${place}`, gpu, ladder.dtype, pointsOfGroup(points, worklog), 300))));
  const named = variant => el(variant === state.kernel ? 'strong' : 'span', {}, // the one that other views have chosen
    link(labelOf(variant), { view: 'ladder', kernel: variant, n }));
  const rowOf = ({ variant, x, y }) => [
    [[named(variant), small(KERNELS.get(variant).idea)], {}], number(y), number(x),
    withUnit(counted(gpu, variant, n).dram_bytes, 'byte'), wordsCell(limiter(gpu, variant, n).text)];
  fill('roofline-table', points.length ? table(['kernel', 'TFLOP/s', 'FLOP per byte', 'DRAM', 'limiter'], points.map(rowOf))
    : empty('Nothing of this ladder was profiled.'));
};

/** Kernels of a ladder with their numbers, and where the kernel before each lies. */
function rooflinePoints(gpu, rows, n) {
  const known = rows.map(row => rooflinePoint(gpu, row.variant, n, row)).filter(point => point);
  return known.map(point => {
    const old = known.find(other => other.variant === before(point.variant)), { worklog } = KERNELS.get(point.variant);
    const look = DATA.worklogs[worklog].colour;
    const step = old ? `over ${labelOf(old.variant)}` : 'first';
    return { ...point, worklog, x0: old?.x, y0: old?.y, colour: look, fill: look, text: labelOf(point.variant), step };
  });
}

/** A worklog's kernels, the ones that they build on, and cuBLAS. */
function pointsOfGroup(points, worklog) {
  const members = points.filter(point => point.worklog === worklog), starts = members.map(point => before(point.variant));
  const isStart = point => point.worklog !== worklog && starts.includes(point.variant);
  const started = points.filter(isStart).map(point => ({ ...point, x0: null, fill: 'var(--paper)' }));
  const cublas = points.filter(point => point.variant.startsWith('cublas_')).map(point => ({ ...point, text: 'cuBLAS' }));
  return [...members, ...started, ...cublas];
}

// ---- claims ----------------------------------------------------------------------------------------------------------

views.claims = async () => {
  if (!DATA.claims) return fill('claims-list', empty('No claims.csv was there when this page was made.'));
  const { claims, published } = await part('claims'), all = values => [['', 'all'], ...values];
  const worklogs = WORKLOGS.filter(name => claims.some(claim => claim.worklog === name));
  const verdicts = VERDICTS.filter(verdict => claims.some(claim => claim.gpus.some(result => result.verdict === verdict)));
  const kinds = unique(claims.map(claim => claim.kind));
  const list = () => {
    listClaims(claims);
    fill('claims-published', publishedTable(published));
  };
  const write = event => {
    replace({ text: event.target.value });
    list();
  };
  controls(choice('worklog', 'Worklog', all(worklogs.map(name => [name, groupName(name)])), state.worklog),
    choice('kind', 'Kind', all(kinds.map(kind => [kind, CLAIM_KINDS[kind] ?? kind])), state.kind),
    choice('verdict', 'Verdict', [['all', 'all'], ...verdicts.map(verdict => [verdict, verdict])], chosenVerdict()),
    el('label', {}, 'Text', el('input', { type: 'search', id: 'claims-text', value: state.text, oninput: write })));
  list();
};

/** Claims that do not hold are shown first, unless the hash asks for another verdict or for one claim. */
const chosenVerdict = () => state.verdict || (state.show ? 'all' : 'does not hold');

function listClaims(claims) {
  const verdict = chosenVerdict();
  const asked = state.text.toLowerCase();
  const found = claims.filter(claim => (!state.worklog || claim.worklog === state.worklog)
    && (!state.kind || claim.kind === state.kind)
    && (verdict === 'all' || claim.gpus.some(result => result.verdict === verdict))
    && JSON.stringify(claim).toLowerCase().includes(asked));
  const verdictOn = (claim, gpu) => claim.gpus.find(result => ['any', gpu.name].includes(result.gpu))?.verdict ?? 'not measured';
  const counts = gpu => {
    const verdicts = found.map(claim => verdictOn(claim, gpu));
    const count = verdict => verdicts.filter(other => other === verdict).length;
    return VERDICTS.filter(count).map(verdict => `${count(verdict)} ${verdict}`).join(', ');
  };
  fill('claims-count', `${found.length} of ${claims.length} claims. `,
    found.length ? DATA.gpus.map(gpu => `${gpuLabel(gpu)}: ${counts(gpu)}. `) : '');
  const groups = WORKLOGS.map(worklog => [worklog, found.filter(claim => claim.worklog === worklog)]);
  const isOpen = worklog => found.length <= FEW_CLAIMS || state.show.startsWith(`${worklog}/`);
  fill('claims-list', groups.filter(([, members]) => members.length).map(([worklog, members]) => el('details',
    { open: isOpen(worklog) }, el('summary', {}, el('strong', {}, groupName(worklog)), ` ${members.length} claims`),
    members.map(claimCard))));
}

function claimCard(claim) {
  const name = `${claim.worklog}/${claim.id}`, line = claim.line ? `line ${claim.line}, ` : '';
  const place = `${groupName(claim.worklog)}, ${line}${CLAIM_KINDS[claim.kind] ?? claim.kind}`;
  const gpuName = result => DATA.gpus.find(gpu => gpu.name === result.gpu)?.model ?? 'Any GPU';
  const look = result => ({ holds: 'yes', 'does not hold': 'no' })[result.verdict] ?? '';
  return el('article', { class: `card ${name === state.show ? 'chosen' : ''}`, id: `claim-${name}` },
    el('h3', {}, claim.claim),
    el('p', {}, claim.quote && el('q', {}, claim.quote), ' ', el('span', { class: 'small' }, place)),
    table(['GPU', 'verdict', 'claimed', 'measured or computed'], claim.gpus.map(result => [gpuName(result),
      wordsCell(el('span', { class: `verdict ${look(result)}` }, result.verdict)), wordsCell(result.claimed ?? '–'),
      wordsCell(result.measured ?? result.words ?? '–')])),
    unique(claim.gpus.map(result => result.remark)).filter(isShown).map(small));
}

/** Numbers that the worklogs publish of their authors' GPUs next to ours; a number of another GPU has no verdict. */
function publishedTable(rows) {
  const asked = state.text.toLowerCase();
  const found = rows.filter(row => (!state.worklog || row.worklog === state.worklog)
    && JSON.stringify(row).toLowerCase().includes(asked));
  if (!found.length || state.kind || !['', 'all'].includes(state.verdict)) return '';
  const groups = WORKLOGS.map(worklog => [worklog, found.filter(row => row.worklog === worklog)]).filter(([, rows]) => rows.length);
  const ours = (row, gpu) => {
    const [value, low, high] = row.ours[gpu.name] ?? [];
    const title = isNumber(low) && low !== high ? `${number(low)} to ${number(high)}` : null;
    return [withUnit(value, row.unit), { title }];
  };
  const size = row => (row.n ? ` n = ${Number(row.n)}.` : '');
  return [el('h3', {}, "Numbers of the authors' GPUs next to ours"),
    el('p', { class: 'note' }, 'A number of another GPU is neither confirmed nor refuted by ours, so it has no verdict.'),
    groups.map(([worklog, rows]) => el('details', { open: found.length <= FEW_CLAIMS },
      el('summary', {}, el('strong', {}, groupName(worklog)), ` ${rows.length} numbers`),
      el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': `Published numbers of ${groupName(worklog)}` },
        table(['line', 'number', 'as written', 'their GPU', ...DATA.gpus.map(gpuLabel)], rows.map(row => [
          row.line, wordsCell(sentence(row.subject), size(row)), row.as_written, row.gpu ?? 'not said',
          ...DATA.gpus.map(gpu => ours(row, gpu))])))))];
}

// ---- bank pictures ---------------------------------------------------------------------------------------------------

views.banks = async () => {
  const pictures = Object.entries(await part('pictures'));
  if (!pictures.length) return fill('banks-pictures', empty('No bank picture was there when this page was made.'));
  fill('banks-pictures', el('p', { class: 'note' }, BANKS_LEGEND, narrow() && ' The pictures scroll sideways.'),
    pictures.map(([name, { title, text, accesses }]) => el('article', { class: 'picture', id: `picture-${name}` },
      el('h3', {}, title), el('p', { class: 'note' }, text), accesses.map(accessOnBanks))));
  byId(`picture-${state.show}`)?.scrollIntoView();
};

function accessOnBanks({ variant, says, summary, about, file, line, source, parts }) {
  const rows = parts.flatMap(({ wavefronts: ofPart }, part) => ofPart.map(words => words.map(word => ({ ...word, part }))));
  const label = `${labelOf(variant)}, ${says}`;
  return el('div', { class: 'played' },
    el('p', {}, el('strong', {}, label), `: ${summary}. `, code(`${file}:${line}`), ' ', code(source)),
    el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': label }, banksDrawing(rows, `${label}: ${summary}`)),
    small(about.at(-1)));
}
