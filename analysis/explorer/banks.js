// How the memory system serves the addresses of a warp, by the rules of ptxsim/count/wavefronts.py.

const BANKS = 32, WORD = 4, SECTOR = 32, LINE = 128, WARP = 32; // lanes in a warp, else bytes

const isActive = address => address != null;
const floorTo = (size, address) => Math.floor(address / size);

/** Values by key, in the order in which each key comes first. */
function grouped(values, keyOf) {
  const groups = new Map();
  for (const value of values) {
    const key = keyOf(value);
    groups.set(key, [...(groups.get(key) ?? []), value]);
  }
  return groups;
}

/** Whether all pairs of these lanes (i, i^1), or all pairs (i, i^2), hold equal addresses. */
function isPaired(addresses, lanes) {
  const equal = (lane, other) => !isActive(addresses[other]) || addresses[lane] === addresses[other];
  return [1, 2].some(bit => lanes.every(lane => equal(lane, lane ^ bit)));
}

/** The active lanes in groups that are served one after the other. */
function servedTogether(addresses, bytes, kind, source) {
  const active = [...addresses.keys()].filter(lane => isActive(addresses[lane]));
  if (kind === 'cp_async') return [...grouped(active, lane => (isActive(source[lane]) ? floorTo(LINE, source[lane]) : -1)).values()];
  const size = kind === 'ldmatrix' ? 8 : bytes <= WORD ? WARP : WARP * WORD / bytes;
  const groups = Array.from({ length: WARP / size }, (_, i) => active.filter(lane => floorTo(size, lane) === i));
  if (kind === 'st' || kind === 'ldmatrix' || bytes <= WORD) return groups.filter(lanes => lanes.length);
  const pairs = groups.filter((_, i) => i % 2 === 0).map((lanes, i) => [lanes, groups[2 * i + 1]]);
  return pairs.flatMap(pair => (isPaired(addresses, pair.flat()) ? [pair.flat()] : pair)).filter(lanes => lanes.length);
}

/** The wavefronts of an access of one warp to shared memory, in order. Each is a list of its words by bank,
 *  { bank, address, lanes, part }: the lanes that a word serves, and which part of the warp is served.
 *  @param addresses  32 byte addresses, null for lanes that are not active
 *  @param bytes      1, 2, 4, 8 or 16 a lane; 16 of ldmatrix, whose lanes 8i to 8i + 7 are the rows of matrix i
 *  @param kind       ld, st, atom, ldmatrix or cp_async
 *  @param source     of a cp_async: the 32 global addresses, null for lanes that read nothing */
function wavefronts(addresses, bytes, kind = 'ld', source = addresses) {
  const size = kind === 'ldmatrix' ? 16 : bytes;
  return servedTogether(addresses, size, kind, source).flatMap((lanes, part) => {
    const wanted = lanes.flatMap(lane => Array.from({ length: Math.max(1, size / WORD) }, (_, i) => (
      { lane, word: floorTo(WORD, addresses[lane]) + i })));
    const words = [...grouped(wanted, ({ word }) => word)].map(([word, takers]) => (
      { bank: word % BANKS, address: word * WORD, lanes: takers.map(({ lane }) => lane), part }));
    const ofBanks = [...grouped(words, ({ bank }) => bank).values()];
    const count = Math.max(...ofBanks.map(ofBank => ofBank.length));
    return Array.from({ length: count }, (_, i) => (
      ofBanks.flatMap(ofBank => ofBank.slice(i, i + 1)).sort((x, y) => x.bank - y.bank)));
  });
}

/** How many wavefronts an access would take without bank conflicts; parameters as of `wavefronts`. */
function idealWavefronts(addresses, bytes, kind = 'ld', source = addresses) {
  if (kind !== 'cp_async') return servedTogether(addresses, kind === 'ldmatrix' ? 16 : bytes, kind, source).length;
  return Math.ceil(new Set(addresses.filter(isActive)).size * bytes / (BANKS * WORD));
}

/** The 32-byte sectors of global memory that a request of one warp touches, in ascending order: { address, lanes, used },
 *  the sector's byte address and how many of its bytes are wanted. Parameters as of `wavefronts`. */
function sectors(addresses, bytes) {
  const active = [...addresses.keys()].filter(lane => isActive(addresses[lane]));
  return [...grouped(active, lane => floorTo(SECTOR, addresses[lane]))].sort(([x], [y]) => x - y).map(([sector, lanes]) => (
    { address: sector * SECTOR, lanes, used: bytes * new Set(lanes.map(lane => addresses[lane])).size }));
}
