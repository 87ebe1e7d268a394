// Tensors: elements to bytes and back, lists to shapes, and values to begin with.
const ARRAYS = {
  BOOL: Uint8Array, INT8: Int8Array, INT16: Int16Array, INT32: Int32Array, INT64: BigInt64Array,
  UINT8: Uint8Array, UINT16: Uint16Array, UINT32: Uint32Array, UINT64: BigUint64Array,
  FP32: Float32Array, FP64: Float64Array, FP16: Uint16Array, BF16: Uint16Array,
};
const HALVES = ['FP16', 'BF16'];
const isFloat = (datatype) => /^(FP|BF)/.test(datatype);
const isText = (datatype) => datatype === null || datatype === 'BYTES';

const product = (shape) => shape.reduce((a, b) => a * b, 1);

// The bits of the nearest number of 16 bits: FP16 as IEEE 754 has it, BF16 the upper half of FP32.
function halfBits(value, datatype) {
  const bits = new Uint32Array(new Float32Array([value]).buffer)[0];
  if (datatype === 'BF16') {
    if (Number.isNaN(value)) return 0x7fc0;
    return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
  }
  const sign = (bits >>> 16) & 0x8000;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  // Below, all numbers are multiples of the smallest one.
  if (size < 2 ** -14) return sign | roundEven(size * 2 ** 24);
  const exponent = ((bits >>> 23) & 0xff) - 127;
  return sign | (((exponent + 14) << 10) + roundEven(size / 2 ** exponent * 1024));
}

function roundEven(value) {
  const low = Math.floor(value), rest = value - low;
  return rest > .5 || (rest === .5 && low % 2 === 1) ? low + 1 : low;
}

function halfValue(bits, datatype) {
  if (datatype === 'BF16') return new Float32Array(new Uint32Array([bits << 16]).buffer)[0];
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, rest = bits & 1023;
  if (exponent === 31) return rest ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + rest / 1024) * 2 ** (exponent - 15) : rest * 2 ** -24);
}

// The bytes of elements, as KServe's binary form has them.
function toBytes(datatype, values) {
  if (datatype === 'BYTES') {
    const texts = values.map((value) =>
      value instanceof Uint8Array ? value : new TextEncoder().encode(String(value)));
    const bytes = new Uint8Array(texts.reduce((sum, text) => sum + 4 + text.length, 0));
    let at = 0;
    for (const text of texts) {
      new DataView(bytes.buffer).setUint32(at, text.length, true);
      bytes.set(text, at + 4);
      at += 4 + text.length;
    }
    return bytes;
  }
  const made = new ARRAYS[datatype](values.length);
  const convert = HALVES.includes(datatype) ? (value) => halfBits(Number(value), datatype)
    : /64$/.test(datatype) && datatype !== 'FP64' ? (value) => BigInt(Math.trunc(Number(value)))
      : Number;
  for (let place = 0; place < values.length; place++) made[place] = convert(values[place]);
  return new Uint8Array(made.buffer);
}

function fromBytes(datatype, bytes) {
  if (datatype === 'BYTES') {
    const texts = [], view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    for (let at = 0; at + 4 <= bytes.length;) {
      const length = view.getUint32(at, true);
      texts.push(new TextDecoder().decode(bytes.subarray(at + 4, at + 4 + length)));
      at += 4 + length;
    }
    return texts;
  }
  // A copy, since the place of the bytes need not be a multiple of an element.
  const values = new ARRAYS[datatype](bytes.slice().buffer);
  if (HALVES.includes(datatype)) return Array.from(values, (bits) => halfValue(bits, datatype));
  if (datatype === 'BOOL') return Array.from(values, Boolean);
  return Array.from(values, Number);
}

// The shape and the elements of nested lists. Throws if they are not rectangular.
function flat(nested) {
  if (!Array.isArray(nested)) return { shape: [], values: [nested] };
  const parts = nested.map(flat);
  const shape = parts[0]?.shape ?? [];
  if (parts.some((part) => part.shape.join() !== shape.join()))
    throw new Error('the lists are not rectangular');
  return { shape: [nested.length, ...shape], values: parts.flatMap((part) => part.values) };
}

// The shape that so many elements have: the one asked for if it fits, else with the last open length.
function shapeFor(wanted, count) {
  const open = wanted.lastIndexOf(-1);
  const known = wanted.map((length) => length === -1 ? 1 : length);
  if (open < 0 || product(known) === count) return known;
  const rest = product(known);
  if (rest === 0 || count % rest !== 0) return known;
  return known.map((length, place) => place === open ? count / rest : length);
}

function filled(datatype, shape, kind) {
  const count = product(shape);
  const random = () => isFloat(datatype) ? Number(Math.random().toFixed(4))
    : datatype === 'BOOL' ? Math.random() < .5 : Math.floor(Math.random() * 100);
  const zero = datatype === 'BOOL' ? false : 0;
  return Array.from({ length: count }, () => kind === 'random' ? random() : zero);
}

// Elements of a text: JSON, or of BYTES that is none, the text itself.
function readValues(text, input) {
  const { datatype } = input;
  const wanted = datatype === null ? [1] : input.shape;
  let nested;
  try {
    nested = JSON.parse(text);
  } catch {
    if (isText(datatype)) return { shape: shapeFor(wanted, 1), values: [text] };
    throw new Error(`${input.name}: values are JSON, such as [1, 2, 3]`);
  }
  if (datatype === 'BYTES' && !Array.isArray(nested)) nested = [text];
  // An object is a text, too.
  if (datatype === null && typeof nested === 'object' && !Array.isArray(nested)) nested = [text];
  const { shape, values } = flat(nested);
  if (values.length === 0 || values.some((value) => value === null || typeof value === 'object'))
    throw new Error(`${input.name}: values are numbers, strings, or truth values`);
  if (datatype === null) return { shape: shape.length > 0 ? shape : wanted, values };
  return { shape: shape.length === wanted.length ? shape : shapeFor(wanted, values.length), values };
}
