// The numbers of each GPU, and what follows from them: gains, limiters, counters that moved.

const LATENCY_PERCENT = 60; // below it no unit limits a kernel, as in Nsight Compute's speed-of-light rule
const MOVED = 0.02; // a counter that changes by less has hardly moved
const STALL_MEANS = {
  stall_barrier: 'waiting at a block barrier',
  stall_dispatch: 'dispatch held back',
  stall_drain: 'stores draining at the end',
  stall_gmma: 'waiting for wgmma',
  stall_lg_throttle: 'global-memory queue full',
  stall_long_scoreboard: 'waiting for global memory',
  stall_math_pipe: 'arithmetic pipe busy',
  stall_mio_throttle: 'shared-memory queue full',
  stall_no_instruction: 'waiting for instructions',
  stall_short_scoreboard: 'waiting for shared memory',
  stall_tex_throttle: 'texture queue full',
  stall_wait: 'fixed instruction latency',
};
DATA.gpus.forEach((gpu, place) => Object.assign(gpu, { place, id: gpu.archived ? gpu.name : `${gpu.name}-here` }));

// ---- parts of the data, compressed, each read when a view first asks for it ------------------------------------------

const parts = new Map();

function unzipped(name) {
  const bytes = Uint8Array.from(atob(byId(`part-${name}`).textContent), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
}

function part(name) {
  if (!parts.has(name)) parts.set(name, unzipped(name).then(JSON.parse));
  return parts.get(name);
}

const objects = ({ columns, rows }) => rows.map(row => (
  Object.fromEntries(columns.map((name, place) => [name, row[place]]))));

/** Read the timings (objects), counters (by variant and size), minimum cycles and builds of a GPU. */
async function readNumbers(gpu) {
  if (!gpu || gpu.timings) return;
  const { timings, counters, ...others } = await part(`gpu${gpu.place}`);
  const byVariant = new Map(objects(counters).map(row => [`${row.variant} ${row.n}`, row]));
  Object.assign(gpu, others, { counters: byVariant, timings: objects(timings).filter(row => row.clock_policy === 'boost') });
}

// ---- GPUs and ladders ------------------------------------------------------------------------------------------------

const chosenGpu = () => DATA.gpus.find(gpu => gpu.id === state.gpu) ?? DATA.gpus[0];
/** The speed of a timing beside the library's in the same windows: "620 of 622". */
const speedText = row => `${number(row.tflops)} of ${number(row.baseline_tflops)}`;
const isOlder = gpu => gpu.processes === 1;
const protocol = gpu => (isOlder(gpu)
  ? 'older protocol, one process' : `interleaved, median and range of ${gpu.processes} processes`);
const gpuText = gpu => `${gpu.gpu}${gpu.archived ? ', archived' : ''} ${gpu.date}`;
const gpuLabel = gpu => (
  `${gpu.model}${isOlder(gpu) ? ' (older protocol, one process)' : ''}${gpu.archived ? '' : ', this machine'}`);
const gpuChoice = () => choice('gpu', 'GPU', DATA.gpus.map(gpu => [gpu.id, gpuLabel(gpu)]), chosenGpu().id);
const leftOutText = gpu => gpu.left_out.length ? `Without a number: ${gpu.left_out.join('; ')}. ` : '';

/** Every ladder that a GPU has timings of: one for each experiment and data type with a step between two kernels. */
function laddersOf(gpu) {
  return gpu.ladders ??= DATA.ladders.filter(ladder => gpu.experiments.includes(ladder.name)).flatMap(ladder => {
    const rows = gpu.timings.filter(row => row.experiment === ladder.name);
    const kernels = rows.map(row => KERNELS.get(row.variant)).filter(kernel => kernel.kind !== 'baseline');
    const dtypes = unique(kernels.map(kernel => kernel.dtype));
    const suffix = dtype => (dtypes.length > 1 || ladder.ladder ? `, ${dtype}` : '');
    return dtypes.map(dtype => ({ ...ladder, dtype, id: `${ladder.name}.${dtype}`, text: ladder.title + suffix(dtype) }));
  }).filter(ladder => timingsOf(gpu, ladder).some(row => gainOf(row, timingsOf(gpu, ladder, row.n, row.data))));
}

/** The ladder in the hash, else the first one with the kernel in the hash, else the first one. */
function chosenLadder(gpu) {
  const known = laddersOf(gpu), hasKernel = ladder => timingsOf(gpu, ladder).some(row => row.variant === state.kernel);
  const first = known.find(hasKernel) ?? known[0];
  const id = oneOf('ladder', known.map(ladder => ladder.id), first?.id);
  return known.find(ladder => ladder.id === id);
}

function ladderChoice(gpu, chosen) {
  const group = (name, wanted) => ({
    group: name, options: laddersOf(gpu).filter(one => one.ladder === wanted).map(one => [one.id, one.text]),
  });
  return choice('ladder', 'Ladder', [group('Ladders', true), group('Experiments', false)], chosen.id, ['n', 'kernel', 'data']);
}

/** The timings of a ladder in the catalogue's order: all sizes and kinds of data, or those of one. */
function timingsOf(gpu, ladder, n = null, data = null) {
  const wanted = row => row.experiment === ladder.name && KERNELS.get(row.variant).dtype === ladder.dtype
    && (n === null || row.n === n) && (data === null || row.data === data);
  return gpu.timings.filter(wanted).sort((x, y) => ORDER.get(x.variant) - ORDER.get(y.variant));
}

const ascending = values => unique(values).sort((x, y) => x - y);
const uniformFirst = kinds => unique(kinds).sort((x, y) => (y === 'uniform') - (x === 'uniform'));

/** The timing of a variant at a size that a reader expects: uniform data, current source, most processes. */
const usual = (gpu, variant, n) => gpu.timings.find(row => (
  row.variant === variant && row.n === n && row.data === 'uniform'));
const counted = (gpu, variant, n) => gpu.counters.get(`${variant} ${n}`);

/** Sizes at which all of several kernels were profiled. */
function profiled(gpu, variants) {
  const sizes = [...gpu.counters.values()].filter(row => row.variant === variants[0]).map(row => row.n);
  return ascending(sizes).filter(n => variants.every(variant => counted(gpu, variant, n)));
}

// ---- steps -----------------------------------------------------------------------------------------------------------

/** The rung that a rung is compared with. */
const before = variant => STEPS.get(variant)?.over ?? KERNELS.get(variant)?.builds_on ?? null;

/** How many times as fast a rung is as the one before: the ratio of both fractions of cuBLAS. */
function gainOf(row, rows) {
  const over = rows.find(other => other.variant === before(row.variant));
  if (!over || !isNumber(row.fraction) || !isNumber(over.fraction)) return null;
  const low = row.fraction_low / over.fraction_high, high = row.fraction_high / over.fraction_low;
  const value = row.fraction / over.fraction, noise = low <= 1 && high >= 1;
  const words = `${value.toFixed(2)} times as fast as ${labelOf(over.variant)}${noise ? ' (within noise)' : ''}`;
  return { value, low, high, noise, words, text: `×${value.toFixed(2)}` };
}

/** What limits a kernel at a size: the unit with the most minimum cycles, or latency where no unit has enough.
 *  A library's kernels have no minimum cycles; theirs is the larger one of Nsight Compute's throughputs. */
function limiter(gpu, variant, n) {
  const row = counted(gpu, variant, n), cycles = gpu.minimum_cycles[variant]?.[n];
  if (!row) return null;
  if (!cycles || !isNumber(row.sm_cycles_mean)) {
    const throughputs = [['Compute', row.sm_throughput], ['Memory', row.memory_throughput]];
    const [name, value] = throughputs.sort((x, y) => y[1] - x[1])[0];
    return { name, units: [], short: `${name}, ${number(value)}% (ncu)`, text: `${name}: ${number(value)}% of peak throughput (Nsight Compute)` };
  }
  const units = Object.entries(cycles).map(([unit, least]) => (
    { name: DATA.units[unit], percent: 100 * least / row.sm_cycles_mean })).sort((x, y) => y.percent - x.percent);
  const top = units[0], part = `${top.percent.toFixed(0)}%`;
  if (top.percent >= LATENCY_PERCENT) {
    return { name: top.name, units, short: `${top.name}, ≥\u00a0${part}`, text: `${top.name}: at least ${part} of the cycles` };
  }
  const stall = topStall(row), waits = stall ? `; top stall ${stall.name.toLowerCase()}` : '';
  const text = `Latency: no unit needs more than ${part} of the cycles${waits}`;
  return { name: 'Latency', units, short: `Latency (${top.name} ≥\u00a0${part})`, text };
}

/** The reason for which warps wait longest, in cycles per issued instruction. Being ready is no wait. */
function topStall(row) {
  const ready = ['stall_selected', 'stall_not_selected'];
  const waits = DATA.stalls.filter(key => !ready.includes(key) && isNumber(row[key]));
  if (!waits.length) return null;
  const key = waits.reduce((most, other) => (row[other] > row[most] ? other : most));
  return { name: DATA.counters[key][0], cycles: row[key], means: STALL_MEANS[key] ?? '' };
}

/** What came of a counter that a step was meant to move. */
function outcomeOf(old, now, meant) {
  if (Math.abs(now - old) <= MOVED * Math.abs(old)) return 'hardly moved';
  return now > old === (meant === 'rise') ? 'as meant' : 'the other way';
}

/** Four counters of a step: those that it was meant to move, then those that changed most. */
function movedCounters(variant, old, now) {
  const has = key => isNumber(old[key]) && isNumber(now[key]);
  const meant = (STEPS.get(variant)?.counters ?? []).filter(({ key }) => has(key));
  const meantKeys = meant.map(({ key }) => key), isConflict = key => /conflicts|shared_excess/.test(key);
  const repeats = key => key === 'duration_us' || meantKeys.includes(key) || (isConflict(key) && meantKeys.some(isConflict));
  const isLarge = key => {
    const unit = DATA.counters[key][1];
    if (key === 'registers') return true;
    return unit === '' ? Math.max(old[key], now[key]) >= 1e4 : unit !== '%' || Math.abs(now[key] - old[key]) >= 5;
  };
  const change = key => Math.abs(Math.log((now[key] + 1e-9) / (old[key] + 1e-9)));
  const others = Object.values(DATA.sections).flat()
    .filter(key => DATA.counters[key][2] && has(key) && !repeats(key) && isLarge(key) && change(key) > MOVED)
    .sort((x, y) => change(y) - change(x))
    .filter((key, place, all) => !isConflict(key) || all.findIndex(isConflict) === place);
  return [...meant, ...others.map(key => ({ key }))].slice(0, 4);
}
