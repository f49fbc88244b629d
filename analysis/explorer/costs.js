// What each line of a kernel costs, from the data of lenses.py: chains of lines, machine code, accesses.

const MERGED_CYCLES = 2; // a merged load takes so many cycles more to issue
const COSTS = { // of a line: label, and what it counts
  issue: ['Issue cycles', 'cycles in which a scheduler issues its machine code, of all warps'],
  wavefronts: ['Wavefronts', 'passes through shared memory'],
  ideal: ['Ideal', 'wavefronts without bank conflicts'],
  conflicts: ['Conflicts', 'wavefronts above the ideal'],
  sectors: ['Sectors', 'of global memory, 32 bytes each'],
  perSector: ['Bytes used', 'of the 32 bytes of each sector'],
};
const lenses = new Map();

/** The lens of a kernel; null where the page has none. */
function lensOf(variant) {
  if (!DATA.lenses.includes(variant)) return Promise.resolve(null);
  if (!lenses.has(variant)) {
    lenses.set(variant, Promise.all([part(`lens_${variant}`), part('sources')]).then(unpackedLens));
  }
  return lenses.get(variant);
}

function summed(steps) {
  let value = 0;
  return steps.map(step => (value += step));
}

/** Rows of PTX and SASS as objects, with the sources of `files`. */
function unpackedLens([packed, sources]) {
  const [ptxLines, ptxChains] = [summed(packed.ptx.line), summed(packed.ptx.chain)];
  const { sass } = packed, [lines, chains, executed] = [summed(sass.ptx), summed(sass.chain), summed(sass.executed)];
  return {
    ...packed, sources,
    ptx: packed.ptx.text.split('\n').map((text, i) => ({ text, number: ptxLines[i], chain: ptxChains[i] })),
    sass: sass.text.split('\n').map((text, i) => (
      { text, ptxLine: lines[i], chain: chains[i], executed: executed[i], cycles: executed[i] * sass.cycles[i] })),
  };
}

const linesOf = (lens, file) => lens.sources[file]?.trimEnd().split('\n') ?? [];

/** The line of a file in a chain: its own one, or the innermost that calls the function; undefined where there is none. */
function lineIn(lens, chain, file) {
  const index = lens.files.indexOf(file);
  return lens.chains[chain]?.find(([other]) => other === index)?.[1];
}

const noCost = () => ({ issue: 0, executed: 0, wavefronts: 0, ideal: 0, conflicts: 0, sectors: 0, idealSectors: 0, used: 0,
  ways: 0, accesses: [] });

function addAccess(cost, access) {
  cost.accesses.push(access);
  if (access.merged_into) return;
  const { executed, wavefronts: waves, ideal, sectors: touched, ideal_sectors: idealSectors, used, ways } = access;
  const added = { executed, wavefronts: waves, ideal, conflicts: waves - ideal, sectors: touched, idealSectors, used };
  for (const [key, value] of Object.entries(added)) cost[key] += value;
  cost.ways = Math.max(cost.ways, ways);
  cost.issue += MERGED_CYCLES * access.merged_loads;
}

const withShares = cost => ({ ...cost, perSector: cost.sectors ? cost.used / cost.sectors : null });

/** The costs of a file's lines, by line; functions that are inlined there count at the line that calls them. */
function costsOf(lens, file) {
  const costs = new Map();
  const at = chain => {
    const line = lineIn(lens, chain, file);
    if (line !== undefined && !costs.has(line)) costs.set(line, noCost());
    return costs.get(line);
  };
  for (const row of lens.sass) {
    const cost = at(row.chain);
    if (cost) cost.issue += row.cycles;
  }
  for (const access of lens.accesses) {
    const cost = at(access.chain ?? -1);
    if (cost) addAccess(cost, access);
  }
  return new Map([...costs].map(([line, cost]) => [line, withShares(cost)]));
}

/** The costs of the whole kernel. */
function costsOfAll(lens) {
  const cost = noCost();
  for (const row of lens.sass) cost.issue += row.cycles;
  for (const access of lens.accesses) addAccess(cost, access);
  return withShares(cost);
}

/** The lines of the rung before that are the same as lines of a file, or resemble them: { file, lines }, of which `lines`
 *  has { line, same } by the file's line. */
function linesBefore(lens, old, file) {
  const there = old?.files.includes(file) ? file : file === lens.source ? old?.source : null;
  if (!there) return { file: null, lines: new Map() };
  const [after, earlier] = [linesOf(lens, file), linesOf(old, there)];
  const rows = there === file ? after.map((_, i) => ({ left: i, right: i, same: true })) : diffOf(earlier, after);
  const paired = rows.filter(({ left, right }) => left !== null && right !== null);
  return { file: there, lines: new Map(paired.map(({ left, right, same }) => [right + 1, { line: left + 1, same }])) };
}
