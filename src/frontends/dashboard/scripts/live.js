// Keeps a page up to date while somebody sees it. Everything that is shown comes from the server as text or as
// markup of its own; without scripts the page is as it was when it was loaded.
const EVERY = 2000, GIVE_UP = 8000;

// The last fifteen minutes, as far as they are known here.
const past = { tick: 0, spans: [], memory: [], held: [], totals: null, of: new Map() };

// Adds new samples to old ones. A list that has begun since is shorter than the others.
function joined(old, fresh, count, blank) {
  const missing = Array(Math.max(count - fresh.length, 0)).fill(blank);
  return [...old, ...missing, ...fresh].slice(-SAMPLES);
}

function joinedSeries(old, fresh, count) {
  const series = {};
  for (const key of ['requests', 'failed', 'queue', 'sequences', 'streams'])
    series[key] = joined(old?.[key] ?? [], fresh?.[key] ?? [], count, 0);
  for (const key of ['p50_us', 'p99_us'])
    series[key] = joined(old?.[key] ?? [], fresh?.[key] ?? [], count, null);
  return series;
}

function remember(answer) {
  const count = answer.span_ms.length;
  // More has happened than is sent, or another server answers.
  if (answer.tick - past.tick !== count)
    Object.assign(past, { spans: [], memory: [], held: [], totals: null, of: new Map() });
  past.tick = answer.tick;
  past.spans = joined(past.spans, answer.span_ms, count, 0);
  past.memory = joined(past.memory, answer.memory_kib, count, 0);
  past.held = joined(past.held, answer.held_kib, count, 0);
  past.totals = joinedSeries(past.totals, answer.totals, count);
  const fresh = new Map(answer.servables.map((series) => [series.name, series]));
  const of = new Map();
  for (const name of new Set([...past.of.keys(), ...fresh.keys()]))
    if (fresh.has(name)) of.set(name, joinedSeries(past.of.get(name), fresh.get(name), count));
  past.of = of;
}

// What happened in each second of each sample.
function rates(counts) {
  const spans = past.spans.slice(-counts.length);
  return counts.map((count, index) => 1000 * count / Math.max(spans[index], 1));
}

function set(place, key, text) {
  const found = place.querySelector(`[data-live="${key}"]`);
  if (found && found.textContent !== text) found.textContent = text;
}

// Figures of the last seconds, and the lines of the last minutes.
function showRecent(place, recent, series) {
  set(place, 'rate', perSecond(recent.rate));
  set(place, 'fails', perSecond(recent.failure_rate));
  set(place, 'p50', took(recent.p50_us));
  set(place, 'p99', took(recent.p99_us));
  if (!series) return;
  const lines = {
    rate: [[rates(series.requests)], perSecond],
    fails: [[rates(series.failed)], perSecond],
    p50: [[series.p50_us], took],
    p99: [[series.p99_us], took],
    latency: [[series.p50_us, series.p99_us], took],
    queue: [[series.queue], whole],
    sequences: [[series.sequences], whole],
    streams: [[series.streams], whole],
  };
  for (const chart of place.querySelectorAll('[data-chart]')) {
    const [lists, text] = lines[chart.dataset.chart] ?? [];
    if (lists) drawChart(chart, lists, text);
  }
}

// Counts since the start.
function showCounts(place, entry, bounds) {
  const { requests, streamed, failed, runs, time_us: us, latency } = entry;
  const { sequences, streams, queue } = entry;
  const counts = { requests, streamed, failed, runs, sequences, streams, queue };
  for (const [key, count] of Object.entries(counts))
    if (count !== null) set(place, key, whole(count));
  set(place, 'mean', took(requests > 0 ? us / requests : null));
  set(place, 'all50', took(quantile(latency, .5, bounds)));
  set(place, 'all99', took(quantile(latency, .99, bounds)));
}

// Times of the nodes of a pipeline or graph: in its table, and at their boxes.
function showNodes(place, nodes) {
  const rows = place.querySelectorAll('[data-node-row]');
  nodes.forEach((node, index) => {
    const row = rows[index];
    if (!row) return;
    set(row, 'runs', whole(node.runs));
    set(row, 'mean', took(node.runs > 0 ? node.time_us / node.runs : null));
    set(row, 'p50', took(node.p50_us));
    set(row, 'p99', took(node.p99_us));
  });
  const svg = place.querySelector('svg.pipeline');
  if (svg) markTimes(svg, nodes);
}

// Writes the usual time of each node into the line that its box has for it.
function markTimes(svg, nodes) {
  const known = new Map(nodes.map((node) => [node.name, node]));
  for (const box of svg.querySelectorAll('.node')) {
    const label = box.querySelector('.time');
    const node = known.get(box.querySelector('.name')?.textContent);
    if (!label || !node) continue;
    const text = `≈ ${took(node.runs > 0 ? node.p50_us : null)}`;
    if (label.textContent !== text) label.textContent = text;
  }
}

// Asks for the state, and for new samples when there are any; `show` gets the state.
function follow(query, show) {
  const { body } = document, notice = byId('notice');
  let timer = 0, asking = null, answered = new Date();
  const joiner = query ? '&' : '?';

  function tell(readiness, text) {
    const names = { ready: 'ready', loading: 'loading', failing: 'failing', stopping: 'warning', gone: 'gone' };
    byId('readiness').className = `state ${names[readiness]}`;
    byId('readiness').textContent = readiness;
    body.classList.toggle('stale', readiness === 'gone');
    if (notice.textContent !== text) notice.textContent = text;
    notice.hidden = text === '';
  }
  async function json(path, signal) {
    const answer = await fetch(path, { signal, cache: 'no-store' });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.json();
  }
  async function ask() {
    clearTimeout(timer);
    if (document.hidden || asking) return;
    const control = asking = new AbortController();
    const limit = setTimeout(() => control.abort(), GIVE_UP);
    try {
      const { signal } = control;
      const state = await json(`/dashboard/state${query}`, signal);
      // Another server, which may have another page.
      if (String(state.server.started_ms) !== body.dataset.started) return location.reload();
      if (state.tick !== past.tick)
        remember(await json(`/dashboard/history${query}${joiner}since=${past.tick}`, signal));
      answered = new Date();
      tell(state.server.state, state.server.notice ?? '');
      byId('uptime').textContent = age(state.server.uptime_ms / 1000);
      await show(state, signal);
    } catch {
      const when = answered.toLocaleTimeString();
      tell('gone', `The server has not answered since ${when}. What is below is from then; this page `
        + 'goes on asking.');
    } finally {
      clearTimeout(limit);
      asking = null;
      if (!document.hidden) timer = setTimeout(ask, EVERY);
    }
  }
  document.addEventListener('visibilitychange', () => { if (!document.hidden) ask(); });
  ask();
}

// Drawings are got when they come into view.
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    draw(target);
  }
}, { rootMargin: '200px' });

async function draw(place) {
  try {
    const answer = await fetch(place.dataset.drawing);
    const text = await answer.text();
    if (!answer.ok) throw new Error(JSON.parse(text).error);
    // The page has its style already, and may not have it twice.
    const plain = text.replace(/<style>[^<]*<\/style>/, '');
    const drawing = new DOMParser().parseFromString(plain, 'image/svg+xml').documentElement;
    if (drawing.localName !== 'svg') throw new Error('The drawing is none.');
    place.replaceChildren(document.importNode(drawing, true));
    // It may become a little smaller before it has to be scrolled.
    const svg = place.firstChild;
    svg.style.minWidth = `${.75 * svg.getAttribute('width')}px`;
    svg.removeAttribute('height');
    svg.addEventListener('pointerover', (event) =>
      markLines(svg, event.target.closest('.node')?.dataset.node ?? ''));
  } catch (error) {
    const text = document.createElement('p');
    text.className = 'soft';
    text.textContent = error.message;
    place.replaceChildren(text);
  }
}

// Marks the lines of a box while the pointer is over it.
function markLines(svg, box) {
  if (svg.dataset.marked === box) return;
  svg.dataset.marked = box;
  const ends = new Set([box]);
  for (const edge of svg.querySelectorAll('.edge')) {
    const { from, to } = edge.dataset, on = box !== '' && (from === box || to === box);
    edge.classList.toggle('on', on);
    if (on) ends.add(from).add(to);
  }
  for (const node of svg.querySelectorAll('.node'))
    node.classList.toggle('on', box !== '' && ends.has(node.dataset.node));
}

// Copies the line beside a button.
async function copy(button) {
  const line = button.parentNode.querySelector('code');
  const label = button.firstChild, before = label.data;
  const tell = (text, ms) => {
    label.data = text;
    setTimeout(() => { label.data = 'Copy'; }, ms);
  };
  try {
    await navigator.clipboard.writeText(line.textContent);
    if (before === 'Copy') tell('Copied', 2000);
  } catch {
    // Only pages over TLS or of this machine may; for others the text is marked.
    getSelection().selectAllChildren(line);
    if (before === 'Copy') tell('Press Ctrl+C', 4000);
  }
}
document.addEventListener('click', (event) => {
  const button = event.target.closest('button.copy');
  if (button) copy(button);
});

// Makes the parts of a card or page work that need scripts.
function enliven(place) {
  for (const button of place.querySelectorAll('button.copy')) button.hidden = false;
  for (const diagram of place.querySelectorAll('[data-drawing]')) seen.observe(diagram);
}
