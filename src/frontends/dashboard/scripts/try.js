// The form that sends requests: a field for each input, and what comes back.
const MODES = {
  values: 'values', text: 'text', zeros: 'zeros', random: 'random numbers',
  encoded: 'an image, decoded by the server', pixels: 'an image, decoded here',
};

// Ways to fill an input in, the usual one first.
function modesOf(input) {
  if (isText(input.datatype)) return ['text'];
  const axes = imageAxes(input), numbers = ['zeros', 'random', 'values'];
  const few = product(input.least) <= 64;
  const plain = few ? ['values', 'zeros', 'random'] : numbers;
  if (!axes) return plain;
  return axes.first ? ['pixels', ...plain] : ['encoded', 'pixels', ...plain];
}

// A field of the form, for one input.
class Field {
  constructor(input, changed) {
    this.input = input;
    this.changed = changed;
    this.place = byId('of-input').content.cloneNode(true).firstElementChild;
    this.find('.name').textContent = input.name;
    const shape = input.shape.length > 0 || input.datatype ? `(${input.shape.join(',')})` : '';
    this.find('.type').textContent = `${input.datatype ?? 'any type'} ${shape}`;
    const mode = this.find('.mode');
    for (const key of modesOf(input)) mode.append(new Option(MODES[key], key));
    this.find('.shape').value = input.least.join(',');
    const values = this.find('.values');
    values.value = isText(input.datatype) ? 'some text' : this.start();
    values.setAttribute('aria-label', `values of ${input.name}`);
    mode.addEventListener('change', () => this.show());
    for (const kind of ['input', 'change']) this.place.addEventListener(kind, () => this.changed());
    this.find('.file').addEventListener('change', (event) => this.take(event.target.files[0], ''));
    acceptDrops(this.find('.drop'), (file) => this.take(file));
    this.show();
  }

  find(selector) { return this.place.querySelector(selector); }
  get mode() { return this.find('.mode').value; }

  start() {
    const count = product(this.input.shape.map((length) => Math.max(length, 1)));
    return JSON.stringify(filled(this.input.datatype, [Math.min(count, 64)], 'zeros'));
  }

  // Shows what the mode needs.
  show() {
    const { mode } = this;
    const shown = { values: ['for-values'], text: ['for-values'], zeros: ['for-fill'], random: ['for-fill'],
      encoded: ['for-image'], pixels: ['for-image', 'for-pixels'] }[mode];
    for (const part of this.place.querySelectorAll('[class*="for-"]'))
      part.hidden = !shown.some((name) => part.classList.contains(name));
    this.find('.choices').hidden = this.find('.mode').options.length < 2 && shown[0] === 'for-values';
  }

  // Of a file that was chosen the browser shows the name.
  take(file, label = file?.name) {
    if (!file) return;
    this.file = file;
    this.find('.chosen').textContent = label;
    this.preview().then(() => this.changed(), (error) => { this.find('.chosen').textContent = error.message; });
  }

  // Shows which image it is.
  async preview() {
    const canvas = this.find('canvas');
    await drawFile(this.file, canvas, ({ width, height }) => {
      const scale = Math.min(1, 320 / Math.max(width, height));
      return [width, height].map((side) => Math.max(Math.round(side * scale), 1));
    });
    canvas.hidden = false;
  }

  // The input as it is to be sent.
  async gather() {
    const { input, mode } = this, { name, datatype } = input;
    if (mode === 'values' || mode === 'text') return { name, datatype, ...readValues(this.find('.values').value, input) };
    if (mode === 'zeros' || mode === 'random') {
      const shape = this.find('.shape').value.split(',').filter((part) => part.trim()).map(Number);
      if (shape.some((length) => !Number.isInteger(length) || length < 0) || product(shape) > 2 ** 26)
        throw new Error(`${name}: a shape is a list of whole numbers, such as 1,3,224,224`);
      return { name, datatype, shape, values: filled(datatype, shape, mode), fill: mode };
    }
    const { file } = this;
    if (!file) throw new Error(`${name}: drop an image on it, or choose one`);
    if (mode === 'encoded') {
      const bytes = new Uint8Array(await file.arrayBuffer());
      return { name, datatype: 'BYTES', shape: [1], bytes, file: file.name };
    }
    const axes = imageAxes(input);
    const pixels = { ...axes, order: this.find('.order').value, range: this.find('.range').value };
    const decoded = await decodeImage(file, axes, pixels, this.find('canvas'));
    this.find('canvas').hidden = false;
    return { name, datatype, ...decoded, file: file.name, pixels };
  }
}

// Takes files that are dropped on a place.
function acceptDrops(place, take) {
  for (const kind of ['dragover', 'dragenter'])
    place.addEventListener(kind, (event) => { event.preventDefault(); place.classList.add('over'); });
  place.addEventListener('dragleave', () => place.classList.remove('over'));
  place.addEventListener('drop', (event) => {
    event.preventDefault();
    place.classList.remove('over');
    take(event.dataTransfer.files[0]);
  });
}

// Steps of a sequence, one after the other.
class Sequence {
  constructor(request, signal) {
    Object.assign(this, { request, signal, isLive: false });
    this.id = 1 + Math.floor(Math.random() * 2 ** 31);
  }

  async step(inputs, isLast) {
    const parameters = { sequence_id: this.id, sequence_start: !this.isLive, sequence_end: isLast };
    const answer = await sendInfer({ ...this.request, inputs, parameters }, this.signal);
    this.isLive = !isLast;
    return answer;
  }
}
