// Lines of the last fifteen minutes. Every series ends now, however long it is.
const SAMPLES = 180;
const SAMPLE_SECONDS = 5;

// The path of values; `null` is a gap, and the last of `slots` places is the right border.
function linePath(values, most, width, height, slots = SAMPLES) {
  const step = width / Math.max(slots - 1, 1), first = width - (values.length - 1) * step;
  let path = '', isDrawing = false;
  values.forEach((value, index) => {
    if (value !== null) {
      const x = (first + index * step).toFixed(1);
      const y = (height - 2 - (height - 4) * value / most).toFixed(1);
      // A line of no length is a dot.
      path += isDrawing ? `L${x} ${y}` : `M${x} ${y}h0`;
    }
    isDrawing = value !== null;
  });
  return path;
}

// The same, closed along the bottom; without gaps.
function areaPath(values, most, width, height) {
  if (values.length < 2) return '';
  const left = (width - (values.length - 1) * width / (SAMPLES - 1)).toFixed(1);
  const line = linePath(values.map((value) => value ?? 0), most, width, height);
  return `${line}L${width} ${height}L${left} ${height}Z`;
}

const mostOf = (lists) => Math.max(...lists.flat().filter((value) => value !== null), 0);

// Draws one or two lists of values into a chart; one alone has its area filled.
function drawChart(chart, lists, text) {
  const svg = chart.querySelector('svg');
  const { width, height } = svg.viewBox.baseVal;
  const most = mostOf(lists);
  const lines = svg.querySelectorAll('.line');
  lists.forEach((values, index) =>
    lines[index].setAttribute('d', linePath(values, most || 1, width, height)));
  const area = lists.length === 1 ? areaPath(lists[0], most || 1, width, height) : '';
  svg.querySelector('.area').setAttribute('d', area);
  const label = chart.querySelector('.most');
  if (label) label.textContent = most > 0 ? `up to ${text(most)}` : '';
  chart.lists = lists;
  chart.text = text;
}

// Says what a chart has under the pointer.
function pointAt(chart, clientX) {
  const label = chart.querySelector('.most');
  if (!label || !chart.lists) return;
  const { left, width } = chart.querySelector('svg').getBoundingClientRect();
  const back = Math.round((1 - (clientX - left) / width) * (SAMPLES - 1));
  const shown = chart.lists.map((values) => {
    const value = values[values.length - 1 - back];
    return value === undefined || value === null ? UNKNOWN : chart.text(value);
  });
  label.textContent = `${age(Math.max(back, 0) * SAMPLE_SECONDS)} ago: ${shown.join(' / ')}`;
}

for (const chart of document.querySelectorAll('.chart')) {
  chart.addEventListener('pointermove', (event) => pointAt(chart, event.clientX));
  chart.addEventListener('pointerleave', () => {
    if (chart.lists) drawChart(chart, chart.lists, chart.text);
  });
}
