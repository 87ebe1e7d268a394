// Answers as people read them: the best of many scores, texts, or the first values.
const MAX_VALUES = 24, BEST = 5;

const make = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

// The places of the highest values, the best first.
function best(values, count) {
  return [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, count);
}

// Whether an output has a score for each of several classes.
const areScores = ({ datatype, shape, values }) => isFloat(datatype) && values.length >= BEST
  && values.length <= 100_000 && shape.filter((length) => length > 1).length === 1;

function outputOf(output, labels) {
  const place = make('section', 'output');
  const head = make('h4', '', `${output.name} `);
  head.append(make('span', 'soft', `${output.datatype} (${output.shape.join(',')})`));
  place.append(head);
  if (output.datatype === 'BYTES') place.append(make('pre', '', output.values.join('\n')));
  else if (areScores(output)) place.append(scores(output.values, labels));
  else {
    const more = output.values.length > MAX_VALUES ? ', …' : '';
    place.append(make('pre', '', output.values.slice(0, MAX_VALUES).map(figure).join(', ') + more));
  }
  return place;
}

function scores(values, labels) {
  const table = make('table', 'scores');
  const places = best(values, BEST), most = Math.max(values[places[0]], 1e-9);
  const areNames = labels.length === values.length;
  for (const at of places) {
    const row = table.insertRow();
    row.append(make('th', '', areNames ? labels[at] : `class ${at}`));
    row.lastChild.scope = 'row';
    row.insertCell().textContent = figure(values[at]);
    const bar = row.insertCell().appendChild(make('div', 'bar'));
    bar.style.width = `${Math.max(values[at] / most, 0) * 100}%`;
  }
  return table;
}

// The elements of an event of a stream, without what all events have.
function eventText(event) {
  if (event.error !== undefined) return `error: ${event.error}`;
  const own = Object.entries(event).filter(([key]) => !['model_name', 'model_version', 'id'].includes(key));
  return own.map(([key, value]) => `${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join('   ');
}

// First values of each step of a sequence, as lines.
class Steps {
  constructor(place) {
    this.place = place;
    this.lists = [];
    this.count = 0;
  }

  add(outputs) {
    this.count += 1;
    const values = outputs.filter(({ datatype, name }) => datatype !== 'BYTES' && name !== 'sequence_id')
      .flatMap(({ values }) => values.slice(0, 2).map(Number)).slice(0, 2);
    values.forEach((value, index) => {
      this.lists[index] ??= [];
      this.lists[index].push(value);
      if (this.lists[index].length > 2000) this.lists[index].shift();
    });
    this.draw();
  }

  draw() {
    this.place.hidden = false;
    const svg = this.place.querySelector('svg'), { width, height } = svg.viewBox.baseVal;
    const least = Math.min(...this.lists.flat(), 0), most = Math.max(...this.lists.flat(), least + 1e-9);
    const lines = svg.querySelectorAll('.line');
    lines.forEach((line, index) => {
      const values = (this.lists[index] ?? []).map((value) => value - least);
      line.setAttribute('d', linePath(values, most - least, width, height, values.length));
    });
    const last = this.lists.map((values) => figure(values.at(-1))).join(' / ');
    this.place.querySelector('figcaption').textContent =
      `${whole(this.count)} step${this.count === 1 ? '' : 's'}, from ${figure(least)} to ${figure(most)}; the last: ${last}`;
  }
}
