// The frame around the views, and what draws them when the hash changes.

const isDark = () => (state.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';

function showFrame() {
  document.documentElement.dataset.theme = state.theme;
  document.title = `${VIEWS[state.view]}, GEMM Ladder explorer`;
  for (const section of document.querySelectorAll('main > section')) section.hidden = section.id !== state.view;
  const archived = gpu => (gpu.archived ? `, archived in data/${gpu.name}` : '');
  const theme = isDark() ? 'light' : 'dark';
  fill('about', DATA.gpus.map(gpu => el('p', {}, el('strong', {}, gpu.model),
    `: ${gpu.gpu}, driver ${gpu.driver}, measured ${gpu.date}, ${protocol(gpu)}${archived(gpu)}.`)),
  el('p', {}, 'Run it: ', code('snakemake --cores 1 all'), ' with or without a GPU; one ladder with ',
    code('snakemake --cores 1 sgemm_ladder'), '; one kernel with ', code('make try KERNEL=sgemm_warptile'), '. ',
    'Timings here are at boost clocks, m = n = k, alpha = 1, beta = 0.'));
  fill('theme', el('a', { href: hashOf({ theme }), id: 'to-theme' }, theme === 'dark' ? 'Dark colours' : 'Light colours'));
}

/** Links to the views, which keep kernel, ladder and size, and what the hash asked for in vain. */
function showChosen() {
  fill('views', Object.entries(VIEWS).map(([view, name]) => el('a', {
    href: hashOf(onlyWith({ view, ...carried })), id: `to-${view}`, 'aria-current': view === state.view && 'page',
  }, name)));
  fill('unknown', unique(unknown).join(' '));
}

let turn = 0;

/** Draw what the hash asks for; the focus stays where it was. */
async function render() {
  if (typeof DecompressionStream === 'undefined') {
    return fill('unknown', 'This browser cannot unpack the page: it has no DecompressionStream. Chrome 80, Firefox 113 and Safari 16.4 have it.');
  }
  const current = ++turn, focused = document.activeElement?.id;
  document.body.dataset.ready = '';
  readState();
  carried = { kernel: state.kernel, ladder: state.ladder, n: state.n };
  oneOf('gpu', DATA.gpus.map(gpu => gpu.id), DATA.gpus[0]?.id);
  showFrame();
  showChosen();
  await views[state.view]();
  if (current !== turn) return;
  showChosen();
  if (focused && document.activeElement?.id !== focused) byId(focused)?.focus({ preventScroll: true });
  document.body.dataset.ready = state.view;
}

for (const fold of document.querySelectorAll('details.fold')) fold.open = !narrow();
byId('skip').addEventListener('click', event => { // its own hash would be no state
  event.preventDefault();
  byId('main').focus();
});
document.addEventListener('keydown', ({ key, target, ctrlKey, metaKey, altKey }) => {
  const id = { n: 'rung-following', p: 'rung-previous' }[key];
  if (id && state.view === 'ladder' && !ctrlKey && !metaKey && !altKey && !target.closest('input, select')) byId(id)?.click();
});
window.addEventListener('hashchange', render);
render();
