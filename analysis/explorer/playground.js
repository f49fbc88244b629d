// Pads, swizzles and tiles of a few kernels, changed in the page: the addresses of their first warp by the kernels' own
// indexing, and the wavefronts that serve them. `play` in the state is VARIANT.ACCESS.NAME:VALUE…

const FIRST_BYTE = 1024; // from sm_90 on a block's shared memory begins here
const LANES = Array.from({ length: WARP }, (_, lane) => lane);

const after = words => Math.ceil((FIRST_BYTE + words * WORD) / 16) * 16; // where a tile of so many words ends
/** The bytes that ptxas reads at once along rows of so many words: as many as are aligned in every row. */
const mergedBytes = words => [16, 8].find(bytes => words * WORD % bytes === 0) ?? WORD;
const fullPasses = (rows, inPass) => Number.isInteger(inPass) && rows % inPass === 0;
const WORDWISE = 'r ^ p * 2'; // which moves the words of one read apart
const SWIZZLES = { none: row => row, 'r ^ p / 4 * 8': (row, p) => row ^ ((p >> 2) * 8), [WORDWISE]: (row, p) => row ^ (p * 2) };

/** What the rungs of one worklog have in common that keep A transposed; they differ in the swizzle of row r at step p. */
function transposed(swizzle) {
  const at = (row, p, { BM, A_PAD, SWIZZLE }) => FIRST_BYTE + WORD * (p * (BM + A_PAD) + SWIZZLES[SWIZZLE](row, p));
  return {
    choices: { SWIZZLE: Object.keys(SWIZZLES), A_PAD: [0, 4, 8] }, defaults: { SWIZZLE: swizzle, A_PAD: 0 },
    accesses: [
      { says: 'stores of A, transposed', line: 'a_tile\\[load_a_col \\+ 0\\]', kind: 'st', bytes: () => 4,
        address: parameters => lane => at(lane >> 2, lane % 4 * 4, parameters) },
      { says: 'reads of A, p = 4', line: swizzle === WORDWISE ? 'a\\[i\\] = a_tile' : '&a_tile\\[p\\]', kind: 'ld',
        bytes: ({ SWIZZLE }) => (SWIZZLE === WORDWISE ? 4 : 16), address: parameters => lane => at((lane >> 2) * 8, 4, parameters) },
    ],
  };
}

// By source: `choices` of its parameters, `defaults` of those that are none of its template, `accesses` with the line that
// makes them, and `refusal`, the assertion that the parameters break. `address` returns the byte address of a lane.
const PLAYS = {
  smem_tile: {
    choices: { BLOCK: [8, 16, 32] },
    accesses: [
      { says: 'stores of A', line: 'a_tile\\[row\\]\\[col\\] =', kind: 'st', bytes: () => 4, address: () => lane => FIRST_BYTE + WORD * lane },
      { says: 'reads of B, p = 0', line: 'sum \\+=', kind: 'ld', bytes: () => 4,
        address: ({ BLOCK }) => lane => after(BLOCK * BLOCK) + WORD * (lane % BLOCK) },
    ],
  },
  blocktile_2d: {
    choices: { BK: [8, 16, 32], A_PAD: [0, 1, 2, 4], B_PAD: [0, 1, 2, 4] },
    refusal: ({ BM, BN, BK, TM, TN }) => {
      const threads = BM * BN / (TM * TN);
      return fullPasses(BM, threads / BK) && fullPasses(BK, threads / BN) ? '' : 'the last pass is a full one';
    },
    accesses: [
      { says: 'stores of A', line: 'a_tile\\[load_a_row \\+ i\\]\\[load_a_col\\] =', kind: 'st', bytes: () => 4,
        address: ({ BK, A_PAD }) => lane => FIRST_BYTE + WORD * (Math.floor(lane / BK) * (BK + A_PAD) + lane % BK) },
      { says: 'reads of A, p = 0', line: 'a\\[i\\] = a_tile', kind: 'ld', bytes: () => 4,
        address: ({ BN, BK, TM, TN, A_PAD }) => lane => FIRST_BYTE + WORD * Math.floor(lane / (BN / TN)) * TM * (BK + A_PAD) },
      { says: 'reads of B, p = 0', line: 'b\\[j\\] = b_tile', kind: 'ld', bytes: ({ BN, B_PAD }) => mergedBytes(BN + B_PAD),
        address: ({ BM, BN, BK, TN, A_PAD }) => lane => after(BM * (BK + A_PAD)) + WORD * (lane % (BN / TN)) * TN },
    ],
  },
  vectorized: {
    choices: { BK: [8, 16, 32], TM: [4, 8], TN: [4, 8], A_PAD: [0, 1, 2, 4, 8] },
    refusal: ({ BM, BN, BK, TM, TN }) => {
      const threads = BM * BN / (TM * TN);
      return fullPasses(BM, threads / (BK / 4)) && fullPasses(BK, threads / (BN / 4)) ? '' : 'the last pass is a full one';
    },
    accesses: [
      { says: 'stores of A, transposed', line: 'a_tile\\[load_a_col \\+ 0\\]', kind: 'st', bytes: () => 4,
        address: ({ BM, BK, A_PAD }) => lane => (
          FIRST_BYTE + WORD * (lane % (BK / 4) * 4 * (BM + A_PAD) + Math.floor(lane / (BK / 4)))) },
      { says: 'reads of A, p = 0', line: 'a\\[i\\] = a_tile', kind: 'ld', // of small patches the loop over p is unrolled
        bytes: ({ BM, TM, TN, A_PAD }) => (TM * TN < 64 ? 16 : mergedBytes(BM + A_PAD)),
        address: ({ BN, TM, TN }) => lane => FIRST_BYTE + WORD * Math.floor(lane / (BN / TN)) * TM },
      { says: 'reads of B, p = 0', line: 'b\\[j\\] = b_tile', kind: 'ld', bytes: () => 16,
        address: ({ BM, BN, BK, TN, A_PAD }) => lane => after(BK * (BM + A_PAD)) + WORD * (lane % (BN / TN)) * TN },
    ],
  },
  tiling: {
    choices: { BK: [8, 16, 32], A_PAD: [0, 4, 8, 12] }, defaults: { A_PAD: 0 },
    accesses: [
      { says: 'stores of A', line: '= a_fetched\\[i\\];', kind: 'st', bytes: () => 16,
        address: ({ BK, A_PAD }) => lane => FIRST_BYTE + WORD * (Math.floor(lane / (BK / 4)) * (BK + A_PAD) + lane % (BK / 4) * 4) },
      { says: 'reads of A, p = 0', line: 'a\\[i\\] = a_tile', kind: 'ld', bytes: () => 16,
        address: ({ BK, A_PAD }) => lane => FIRST_BYTE + WORD * (lane >> 2) * 8 * (BK + A_PAD) },
    ],
  },
  at_tiling: transposed('none'),
  at_swizzle: transposed('r ^ p / 4 * 8'),
  at_swizzle_stores: transposed('r ^ p * 2'),
};

const playOf = kernel => PLAYS[kernel.source?.match(/sgemm\/(\w+)[.]cu$/)?.[1]];

/** The values of a kernel's parameters: of its template, and of what the page adds to it. */
function parametersOf(kernel) {
  const template = (kernel.template ?? '').split(', ').map(argument => argument.split('='));
  return { ...Object.fromEntries(template.map(([name, value]) => [name, Number(value)])), ...playOf(kernel).defaults };
}

/** An access of the first warp with these parameters: { says, line, kind, bytes, addresses }. */
function playedAccess({ says, line, kind, bytes, address }, parameters) {
  return { says, line, kind, bytes: bytes(parameters), addresses: LANES.map(address(parameters)) };
}

// ---- in the page -----------------------------------------------------------------------------------------------------

/** The access and the parameters that the hash asks for, where it is about this kernel; else the kernel's own. */
function playedOf({ variant, ...kernel }) {
  const { choices, accesses } = playOf(kernel), [of, number, ...values] = state.play.split('.'), parameters = parametersOf(kernel);
  if (of !== variant) return { number: 0, parameters };
  for (const [name, text] of values.map(value => value.split(':'))) {
    const value = choices[name]?.find(choice => String(choice) === text);
    if (value === undefined) unknown.push(`There is no ${name} “${text}” to play with here.`);
    else parameters[name] = value;
  }
  return { number: Number(number) in accesses ? Number(number) : 0, parameters };
}

/** Let the reader change pads, swizzles and tiles of a kernel in an element; nothing where the kernel has no such entry. */
function mountPlayground(element, kernel, sources) {
  const play = playOf(kernel);
  if (!play) return element.replaceChildren();
  const own = parametersOf(kernel), result = el('div', { class: 'played' }), played = playedOf(kernel);
  const show = () => result.replaceChildren(...playedResult(kernel, sources, played));
  const change = (name, value) => {
    if (name === 'access') played.number = value;
    else played.parameters[name] = value;
    const changed = Object.keys(play.choices).filter(key => played.parameters[key] !== own[key]);
    const isOwn = !changed.length && !played.number;
    replace({ play: isOwn ? '' : [kernel.variant, played.number, ...changed.map(key => `${key}:${played.parameters[key]}`)].join('.') });
    show();
    announce(result.querySelector('p').textContent);
  };
  const select = (name, label, values, chosen) => el('label', {}, label, el('select', {
    id: `play-${name}`, onchange: ({ target }) => change(name, values[target.selectedIndex][0]),
  }, values.map(([value, text]) => el('option', { selected: value === chosen }, String(text)))));
  const parameter = ([name, values]) => select(name, name, [...new Set([own[name], ...values])]
    .map(value => [value, value === own[name] ? `${value}, the kernel's` : value]), played.parameters[name]);
  show();
  element.replaceChildren(el('h4', {}, 'Change pads and tiles: the banks of one access of warp 0'),
    el('div', { class: 'controls' },
      select('access', 'Access', play.accesses.map((access, i) => [i, access.says]), played.number),
      Object.entries(play.choices).map(parameter)),
    play.defaults && el('p', { class: 'note' }, `${Object.keys(play.defaults).join(' and ')}: only here, the source has no such parameter.`) || '',
    result);
}

function playedResult(kernel, sources, { number: access, parameters }) {
  const play = playOf(kernel), refusal = play.refusal?.(parameters);
  if (refusal) return [el('p', {}, 'The kernel does not compile with these, for its assertion fails: ', code(refusal))];
  const { says, line, kind, bytes, addresses } = playedAccess(play.accesses[access], parameters);
  const rows = wavefronts(addresses, bytes, kind), ideal = idealWavefronts(addresses, bytes, kind);
  const text = `${says}: ${8 * bytes}-bit ${kind === 'st' ? 'store' : 'load'}, ${rows.length} wavefront${rows.length > 1 ? 's' : ''}`
    + `${rows.length > ideal ? ` where ${ideal} would do` : ', no conflict'}.`;
  const lines = (sources[kernel.source] ?? '').split('\n'), place = lines.findIndex(text => new RegExp(line).test(text));
  return [el('p', {}, sentence(text), ' ', place >= 0 && code(`${place + 1}: ${lines[place].trim()}`)),
    el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Banks' }, banksDrawing(rows, sentence(text))),
    el('p', { class: 'small' }, BANKS_LEGEND)];
}
