// Charts: Vega-Lite specifications from charts.py, filled with rows.

const drawn = new Map();
let vegaLoaded = null;

/** Vega-Embed, with Vega and Vega-Lite, unpacked when the first chart is drawn. */
function vega() {
  vegaLoaded ??= unzipped('vega').then(text => {
    document.head.append(el('script', {}, text));
    return window.vegaEmbed;
  });
  return vegaLoaded;
}

const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
const SHAPES = { // of a legend, in a box of 10 pixels around the origin
  circle: 'M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0', diamond: 'M0-5L5 0L0 5L-5 0Z', square: 'M-4-4H4V4H-4Z',
  'triangle-up': 'M0-5L5 4H-5Z', 'triangle-down': 'M0 5L5-4H-5Z', 'triangle-right': 'M5 0L-4 5V-5Z',
  cross: 'M-2-5H2V-2H5V2H2V5H-2V2H-5V-2H-2Z',
};

/** The colour, shape and dashes of a kernel among others: colour and shape of its author; a further kernel of the same
 *  author is darker and dashed. */
function lookOf(variant, variants) {
  const { worklog } = KERNELS.get(variant), { colour, shape } = DATA.worklogs[worklog];
  const index = Math.max(0, variants.filter(other => KERNELS.get(other).worklog === worklog).indexOf(variant));
  const part = [100, 65, 40][index % 3], shade = `color-mix(in srgb, ${colour} ${part}%, var(--ink))`;
  return { colour: part < 100 ? shade : colour, shape, dash: DASHES[index % DASHES.length] };
}

function swatch({ colour, shape, dash }) {
  const mark = el('span', { class: 'swatch', 'aria-hidden': 'true' });
  mark.innerHTML = `<svg width="34" height="12" viewBox="-17 -6 34 12"><path d="M-17 0H17" stroke="${colour}" stroke-width="1.8"
    stroke-dasharray="${dash}"/><path d="${SHAPES[shape]}" fill="${colour}"/></svg>`;
  return mark;
}

/** Draw data sets with a chart of DATA.charts, or say why there is nothing to draw. */
async function draw(id, name, datasets, { title, parameters = {}, height, why = 'Nothing was measured of this.' }) {
  drawn.get(id)?.finalize();
  drawn.delete(id);
  const place = byId(id), turn = place.turn = (place.turn ?? 0) + 1;
  if (!datasets.rows.length) {
    place.replaceChildren(empty(why));
    return;
  }
  const text = JSON.stringify(DATA.charts[name]).replaceAll('"<title>"', () => JSON.stringify(title));
  const spec = { ...JSON.parse(text), datasets, height };
  for (const parameter of spec.params) {
    if (parameter.name in parameters) parameter.value = parameters[parameter.name];
  }
  const embed = await vega(), host = el('div');
  if (place.turn !== turn) return; // a later call draws here
  place.replaceChildren(host);
  const made = await embed(host, spec, { renderer: 'svg', actions: false, tooltip: { theme: 'custom' } });
  if (place.turn !== turn) {
    made.finalize();
    return;
  }
  place.setAttribute('role', 'group');
  place.setAttribute('aria-label', `Chart: ${title}`);
  drawn.set(id, made);
}

/** Where a kernel lies in the roofline at a size; null without counters or a timing. */
function rooflinePoint(gpu, variant, n, timing) {
  const bytes = counted(gpu, variant, n)?.dram_bytes, tflops = (timing ?? usual(gpu, variant, n))?.tflops;
  return bytes > 0 && isNumber(tflops) ? { variant, x: 2 * n ** 3 / bytes, y: tflops } : null;
}

/** Draw kernels below the roofs of their data type. FMAs are no roof of kernels that use tensor cores.
 *  points: `rooflinePoint`s with colour, fill, text and step; x0 and y0 are of the kernel before. */
function drawRoofline(id, gpu, dtype, points, height) {
  const onTensorCores = points.some(point => KERNELS.get(point.variant).tensor);
  const bandwidth = (gpu.dram_gb_per_s ?? 0) / 1e3;
  const roofs = gpu.roofs.filter(roof => roof.dtypes.includes(dtype) && !(onTensorCores && roof.dtypes.includes('fp32')));
  const ridge = roof => (bandwidth ? roof.tflops / bandwidth : Infinity);
  const xs = points.flatMap(point => [point.x, point.x0 ?? point.x]);
  const ys = points.flatMap(point => [point.y, point.y0 ?? point.y]);
  const ends = {
    left: 0.5 * Math.min(...xs), right: 2 * Math.max(...xs),
    bottom: 0.6 * Math.min(...ys), top: 1.5 * Math.max(...ys, ...roofs.map(roof => roof.tflops)),
  };
  // Distances in pixels on the logarithmic axes, for the arrows' angles and the labels
  const width = byId(id).clientWidth - 70;
  const across = (from, to) => width * Math.log(to / from) / Math.log(ends.right / ends.left);
  const up = (from, to) => height * Math.log(to / from) / Math.log(ends.top / ends.bottom);
  const names = roofs.map(roof => ({
    x: bandwidth ? 1.06 * Math.max(ends.left, ridge(roof)) : ends.left, y: roof.tflops,
    text: width < 250 ? roof.label : `${roof.label}, ${number(roof.tflops)} TFLOP/s`,
  }));
  const rows = withLabels(points.map(point => ({
    ...point, label: labelOf(point.variant), speed: number(point.y), intensity: number(point.x),
    angle: point.x0 ? -Math.atan2(up(point.y0, point.y), across(point.x0, point.x)) * 180 / Math.PI : 0,
  })), names, { width, height, ends, across, up });
  const lines = roofs.flatMap(roof => [Math.max(ends.left, Math.min(ridge(roof), ends.right)), ends.right].map(x => (
    { roof: roof.label, x: bandwidth ? x : ends.left, y: roof.tflops })));
  const slope = [ends.left, ends.top / bandwidth].map(x => ({ roof: 'DRAM', x, y: x * bandwidth }));
  if (bandwidth && slope[1].x > ends.left) lines.push(...slope);
  const title = 'TFLOP/s over FLOP per byte of DRAM';
  return draw(id, 'roofline', { rows, roofs: lines, names }, { title, parameters: ends, height });
}

const LETTER = 6.7, LETTERS_HIGH = 14; // pixels of a label

/** Rows with a place for each label where no other label, mark or roof is: `labelX` and `labelY`, and `left` where it ends
 *  there. `names`: of the roofs. */
function withLabels(rows, names, { width, height, ends, across, up }) {
  const place = ({ x, y }) => [across(ends.left, x), up(ends.bottom, y)];
  const boxes = names.flatMap(name => {
    const [from, at] = place(name);
    return [{ from, to: width, at }, { from, to: from + LETTER * name.text.length, at: at + LETTERS_HIGH - 4 }];
  });
  boxes.push(...rows.map(row => place(row)).map(([x, at]) => ({ from: x - 6, to: x + 6, at })));
  return rows.map(row => {
    if (!row.text) return row;
    const long = LETTER * row.text.length, [x, y] = place(row);
    const left = x + 12 + long > width; // it would leave the chart
    const from = left ? x - 9 - long : x + 9;
    const isFree = at => at > 4 && at < height - 4
      && boxes.every(box => from > box.to || from + long < box.from || Math.abs(at - box.at) >= LETTERS_HIGH - 1);
    const shifts = Array.from({ length: height }, (_, i) => (i % 2 ? -1 : 1) * Math.ceil(i / 2));
    const at = y + (shifts.find(pixels => isFree(y + pixels)) ?? 0);
    boxes.push({ from, to: from + long, at });
    const scaled = (start, end, pixels, size) => start * (end / start) ** (pixels / size);
    return {
      ...row, left, labelX: scaled(ends.left, ends.right, left ? x - 9 : x + 9, width),
      labelY: scaled(ends.bottom, ends.top, at, height),
    };
  });
}
