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

const colour = (variant, place) => (
  KERNELS.get(variant).kind === 'baseline' ? 'var(--library)' : `var(--c${place % COLOURS})`);

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
  place.setAttribute('aria-label', `Chart: ${title}`);
  drawn.set(id, made);
}

/** Where a kernel lies in the roofline at a size; null without counters or a timing. */
function rooflinePoint(gpu, variant, n, timing) {
  const bytes = counted(gpu, variant, n)?.dram_bytes, tflops = (timing ?? usual(gpu, variant, n))?.tflops;
  return bytes > 0 && isNumber(tflops) ? { variant, x: 2 * n ** 3 / bytes, y: tflops } : null;
}

/** Draw kernels below the roofs of their data type.
 *  points: `rooflinePoint`s with colour, fill, text and step; x0 and y0 are of the kernel before. */
function drawRoofline(id, gpu, dtype, points, height) {
  const roofs = gpu.roofs.filter(roof => roof.dtypes.includes(dtype)), bandwidth = (gpu.dram_gb_per_s ?? 0) / 1e3;
  const ridge = roof => (bandwidth ? roof.tflops / bandwidth : Infinity);
  const xs = points.flatMap(point => [point.x, point.x0 ?? point.x]);
  const ys = points.flatMap(point => [point.y, point.y0 ?? point.y]);
  const ends = {
    left: 0.6 * Math.min(...xs, ...roofs.map(ridge)), right: 2 * Math.max(...xs),
    bottom: 0.6 * Math.min(...ys), top: 1.5 * Math.max(...ys, ...roofs.map(roof => roof.tflops)),
  };
  // Distances in pixels on the logarithmic axes, for the arrows' angles and for labels that would overlap
  const width = byId(id).clientWidth - 70;
  const across = (from, to) => width * Math.log(to / from) / Math.log(ends.right / ends.left);
  const up = (from, to) => height * Math.log(to / from) / Math.log(ends.top / ends.bottom);
  const rows = points.map(point => ({
    ...point, label: labelOf(point.variant), speed: number(point.y), intensity: number(point.x),
    angle: point.x0 ? -Math.atan2(up(point.y0, point.y), across(point.x0, point.x)) * 180 / Math.PI : 0,
  }));
  const overlap = (x, y) => Math.abs(across(x.x, y.x)) < 18 && Math.abs(up(x.y, y.y)) < 13;
  rows.forEach((row, place) => {
    const near = row.text && rows.slice(0, place).find(other => other.text && overlap(row, other));
    if (near) [near.text, row.text] = [`${near.text}, ${row.text}`, ''];
  });
  const lines = roofs.flatMap(roof => [Math.min(ridge(roof), ends.right), ends.right].map(x => (
    { roof: roof.label, x: bandwidth ? x : ends.left, y: roof.tflops })));
  if (bandwidth) lines.push(...[ends.left, ends.top / bandwidth].map(x => ({ roof: 'DRAM', x, y: x * bandwidth })));
  const names = roofs.map(roof => ({
    x: bandwidth ? 1.06 * ridge(roof) : ends.left, y: roof.tflops,
    text: width < 250 ? roof.label : `${roof.label}, ${number(roof.tflops)} TFLOP/s`,
  }));
  const title = 'TFLOP/s over FLOP per byte of DRAM';
  return draw(id, 'roofline', { rows, roofs: lines, names }, { title, parameters: ends, height });
}
