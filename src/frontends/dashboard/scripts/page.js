// The page of everything: tiles, and a card for each servable.
const cards = byId('cards'), totals = byId('totals');
const nameOf = (card) => decodeURIComponent(card.dataset.name);

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
        enliven(card);
      }
    }
    if (!card) continue;
    if (card === place) place = place.nextElementSibling;
    else cards.insertBefore(card, place);
  }
  byId('nothing').hidden = cards.childElementCount > 0;
  return new Map([...cards.children].map((card) => [nameOf(card), card]));
}

async function fetchCard(name, signal) {
  const answer = await fetch(`/dashboard/servable?name=${encodeURIComponent(name)}`, { signal });
  if (!answer.ok) return null;
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const card = page.querySelector('.card');
  return card && document.importNode(card, true);
}

function showTotals({ server, totals: all }) {
  set(document, 'in_flight', whole(server.requests_under_way));
  set(totals, 'queue', whole(server.requests_waiting));
  set(totals, 'streams', whole(server.streams));
  set(totals, 'sequences', whole(all.sequences));
  set(totals, 'memory', memory(server.memory_kib));
  showRecent(totals, all.recent, past.totals);
  drawChart(totals.querySelector('[data-chart="memory"]'), [past.memory], memory);
  for (const option of document.querySelectorAll('select[name="state"] option'))
    option.textContent = option.value
      ? `${option.value} (${all.conditions[option.value]})` : `all (${all.servables})`;
}

follow(document.body.dataset.query, async (state, signal) => {
  showTotals(state);
  const known = await arrange(state.servables, signal);
  for (const entry of state.servables) {
    const card = known.get(entry.name);
    if (!card) continue;
    showRecent(card, entry.recent, past.of.get(entry.name));
    showCounts(card, entry, state.bounds_us);
    showNodes(card, entry.nodes);
  }
});

const all = byId('all');
const isAnyClosed = () => [...cards.children].some((card) => !card.open);
const label = () => { all.textContent = isAnyClosed() ? 'Open all' : 'Close all'; };
all.hidden = false;
all.addEventListener('click', () => {
  const open = isAnyClosed();
  for (const card of cards.children) card.open = open;
});
cards.addEventListener('toggle', label, true);
label();
for (const card of cards.children) enliven(card);
document.querySelector('select[name="state"]').addEventListener('change', (event) =>
  event.target.form.requestSubmit());
