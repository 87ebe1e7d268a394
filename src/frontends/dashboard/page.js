'use strict';
// Keeps the page up to date, while somebody sees it. Everything that is shown comes from the server as
// text or as markup of its own; without this script the page is as it was when it was loaded.
(() => {
  const EVERY = 2000, GIVE_UP = 8000;
  const RATES = 10, LATENCIES = 60, SPARKS = 60;
  const $ = (id) => document.getElementById(id);
  const body = document.body, cards = $('cards'), notice = $('notice'), totals = $('totals');
  const QUERY = body.dataset.query;
  // What was told of a servable, by name, oldest first; '' is everything together.
  const told = new Map();
  let bounds = [], timer = 0, asking = null, answered = new Date();

  const nameOf = (card) => decodeURIComponent(card.dataset.name);
  const isWhole = (number) => number.toLocaleString('en').replaceAll(',', '\u202f');
  const set = (place, key, text) => {
    const found = place.querySelector(`[data-live="${key}"]`);
    if (found && found.textContent !== text) found.textContent = text;
  };

  function took(us) {
    if (us === null) return '–';
    const [value, unit] = us < 1e3 ? [us, 'µs'] : us < 1e6 ? [us / 1e3, 'ms'] : [us / 1e6, 's'];
    return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
  }
  function rate(perSecond) {
    if (perSecond === null) return '–';
    return perSecond === 0 || perSecond >= 100 ? isWhole(Math.round(perSecond))
      : perSecond.toFixed(perSecond < 10 ? 2 : 1);
  }
  function age(seconds) {
    const [d, h, m, s] = [seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60]
      .map(Math.floor);
    return seconds < 60 ? `${s} s` : seconds < 3600 ? `${m} min ${s} s`
      : seconds < 86400 ? `${h} h ${m} min` : `${d} d ${h} h`;
  }

  // The duration that this share of all is not above; the server does the same for all time.
  function quantile(sizes, share) {
    let all = 0, below = 0;
    for (const [, count] of sizes) all += count;
    const wanted = share * all;
    for (const [size, count] of sizes) {
      if (below + count >= wanted) {
        const low = size > 0 ? bounds[size - 1] : 0, high = bounds[size] ?? low;
        return low + (high - low) * (wanted - below) / count;
      }
      below += count;
    }
    return null;
  }
  function between(before, now) {
    const counts = new Map(now);
    for (const [size, count] of before) counts.set(size, (counts.get(size) ?? 0) - count);
    return [...counts].filter(([, count]) => count > 0).sort((a, b) => a[0] - b[0]);
  }

  function note(name, at, counts) {
    const list = told.get(name) ?? [];
    told.set(name, list);
    const last = list[list.length - 1];
    // What is counted anew was forgotten before.
    if (last && (counts.requests < last.counts.requests || at <= last.at)) list.length = 0;
    list.push({ at, counts });
    while (list.length > SPARKS + 1) list.shift();
    return list;
  }
  const since = (list, seconds) => {
    const now = list[list.length - 1];
    return list.find((it) => now.at - it.at <= seconds * 1000 + 500);
  };
  const done = ({ counts }) => counts.requests + counts.streamed;

  function figures(place, list) {
    const now = list[list.length - 1], before = since(list, RATES);
    const span = (now.at - before.at) / 1000;
    const each = (count) => span > 0 ? (count(now) - count(before)) / span : null;
    set(place, 'rate', rate(each(done)));
    set(place, 'fails', rate(each(({ counts }) => counts.failed)));
    const sizes = between(since(list, LATENCIES).counts.latency, now.counts.latency);
    set(place, 'p50', took(quantile(sizes, .5)));
    set(place, 'p99', took(quantile(sizes, .99)));
    spark(place.querySelector('.spark path'), list);
  }
  function spark(path, list) {
    const rates = list.slice(1).map((now, at) =>
      1000 * (done(now) - done(list[at])) / (now.at - list[at].at));
    if (rates.length < 2) return path.removeAttribute('d');
    const most = Math.max(...rates, 1e-9), step = 120 / (SPARKS - 1);
    const x = (at) => (120 - (rates.length - 1 - at) * step).toFixed(1);
    const points = rates.map((value, at) => `${x(at)} ${(23 - 21 * value / most).toFixed(1)}`);
    path.setAttribute('d', `M${x(0)} 24L${points.join('L')}L120 24`);
  }

  function soFar(card, entry) {
    const { requests, streamed, failed, runs, time_us: us, latency, sequences } = entry;
    for (const [key, count] of Object.entries({ requests, streamed, failed, runs, sequences }))
      if (count !== null) set(card, key, isWhole(count));
    set(card, 'mean', took(requests > 0 ? us / requests : null));
    set(card, 'all50', took(quantile(latency, .5)));
    set(card, 'all99', took(quantile(latency, .99)));
  }

  // Puts the cards in order, and gets those that are new or have changed.
  async function arrange(entries, signal) {
    const there = new Map([...cards.children].map((card) => [nameOf(card), card]));
    const wanted = new Set(entries.map((entry) => entry.name));
    for (const [name, card] of there) if (!wanted.has(name)) card.remove();
    let place = cards.firstElementChild;
    for (const entry of entries) {
      let card = there.get(entry.name);
      if (!card || card.dataset.revision !== entry.revision) {
        const fresh = await fetchCard(entry.name, signal);
        if (fresh) {
          if (card) {
            fresh.open ||= card.open;
            if (place === card) place = fresh;
            card.replaceWith(fresh);
          }
          card = fresh;
          ready(card);
        }
      }
      if (!card) continue;
      if (card === place) place = place.nextElementSibling;
      else cards.insertBefore(card, place);
    }
    $('nothing').hidden = cards.childElementCount > 0;
    return new Map([...cards.children].map((card) => [nameOf(card), card]));
  }
  async function fetchCard(name, signal) {
    const answer = await fetch(`/dashboard/servable?name=${encodeURIComponent(name)}`, { signal });
    if (!answer.ok) return null;
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const card = page.querySelector('.card');
    return card && document.importNode(card, true);
  }

  async function show(state, signal) {
    bounds = state.bounds_us;
    const at = state.server.uptime_ms;
    $('uptime').textContent = age(at / 1000);
    const { requests_under_way: inFlight } = state.server;
    set(totals, 'in_flight', isWhole(inFlight));
    set(totals, 'sequences', isWhole(state.totals.sequences));
    figures(totals, note('', at, state.totals));
    for (const option of document.querySelectorAll('select[name="state"] option')) {
      const { servables, conditions } = state.totals;
      option.textContent = option.value
        ? `${option.value} (${conditions[option.value]})` : `all (${servables})`;
    }
    const lists = state.servables.map((entry) => note(entry.name, at, entry));
    const known = await arrange(state.servables, signal);
    state.servables.forEach((entry, index) => {
      const card = known.get(entry.name);
      if (!card) return;
      figures(card, lists[index]);
      soFar(card, entry);
    });
    for (const name of told.keys()) if (name !== '' && !known.has(name)) told.delete(name);
  }
  function tell(readiness, text) {
    const names = { ready: 'ready', loading: 'loading', failing: 'failing', stopping: 'warning', gone: 'gone' };
    $('readiness').className = `state ${names[readiness]}`;
    $('readiness').textContent = readiness;
    body.classList.toggle('stale', readiness === 'gone');
    if (notice.textContent !== text) notice.textContent = text;
    notice.hidden = text === '';
  }
  async function ask() {
    clearTimeout(timer);
    if (document.hidden || asking) return;
    const control = asking = new AbortController();
    const limit = setTimeout(() => control.abort(), GIVE_UP);
    try {
      const { signal } = control;
      const answer = await fetch(`/dashboard/state${QUERY}`, { signal, cache: 'no-store' });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const state = await answer.json();
      // Another server, which may have another page.
      if (String(state.server.started_ms) !== body.dataset.started) return location.reload();
      answered = new Date();
      tell(state.server.state, state.server.notice ?? '');
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
      const page = new DOMParser().parseFromString(plain, 'image/svg+xml');
      const drawing = page.documentElement;
      if (drawing.localName !== 'svg') throw new Error('The drawing is none.');
      place.replaceChildren(document.importNode(drawing, true));
      // It may become a little smaller before it has to be scrolled.
      const svg = place.firstChild;
      svg.style.minWidth = `${.75 * svg.getAttribute('width')}px`;
      svg.removeAttribute('height');
    } catch (error) {
      const text = document.createElement('p');
      text.className = 'soft';
      text.textContent = error.message;
      place.replaceChildren(text);
    }
  }

  // Marks the lines of a box while the pointer is over it.
  function mark(svg, name) {
    if (svg.dataset.marked === name) return;
    svg.dataset.marked = name;
    const ends = new Set([name]);
    for (const edge of svg.querySelectorAll('.edge')) {
      const { from, to } = edge.dataset, on = name !== '' && (from === name || to === name);
      edge.classList.toggle('on', on);
      if (on) ends.add(from).add(to);
    }
    for (const node of svg.querySelectorAll('.node'))
      node.classList.toggle('on', name !== '' && ends.has(node.dataset.node));
  }
  cards.addEventListener('pointerover', (event) => {
    const svg = event.target.closest('svg.pipeline');
    if (svg) mark(svg, event.target.closest('.node')?.dataset.node ?? '');
  });

  async function copy(button) {
    const line = button.parentNode.querySelector('code');
    const label = button.firstChild;
    try {
      await navigator.clipboard.writeText(line.textContent);
    } catch {
      // Only pages over TLS or of this machine may; for others the text is marked.
      getSelection().selectAllChildren(line);
      label.data = 'Press Ctrl+C';
      setTimeout(() => { label.data = 'Copy'; }, 4000);
      return;
    }
    label.data = 'Copied';
    setTimeout(() => { label.data = 'Copy'; }, 2000);
  }
  const all = $('all');
  const isAnyClosed = () => [...cards.children].some((card) => !card.open);
  const label = () => { all.textContent = isAnyClosed() ? 'Open all' : 'Close all'; };
  all.hidden = false;
  all.addEventListener('click', () => {
    const open = isAnyClosed();
    for (const card of cards.children) card.open = open;
  });
  cards.addEventListener('toggle', label, true);
  label();
  cards.addEventListener('click', (event) => {
    const button = event.target.closest('button.copy');
    if (button) copy(button);
  });

  function ready(card) {
    for (const button of card.querySelectorAll('button.copy')) button.hidden = false;
    for (const place of card.querySelectorAll('[data-drawing]')) seen.observe(place);
  }
  for (const card of cards.children) ready(card);
  document.querySelector('select[name="state"]').addEventListener('change', (event) =>
    event.target.form.requestSubmit());
  document.addEventListener('visibilitychange', () => { if (!document.hidden) ask(); });
  ask();
})();
