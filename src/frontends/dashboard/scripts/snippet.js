// The same request as lines for a terminal and for Python. They work when they are pasted: curl needs the
// file beside it, if it names one, and Python also the package `tritonclient`.
const NUMPY = {
  BOOL: 'bool', INT8: 'int8', INT16: 'int16', INT32: 'int32', INT64: 'int64', UINT8: 'uint8',
  UINT16: 'uint16', UINT32: 'uint32', UINT64: 'uint64', FP16: 'float16', FP32: 'float32', FP64: 'float64',
};

// The sequence of the lines, which is that of nobody else.
const SEQUENCE = 1 + Math.floor(Math.random() * 2 ** 31);

// Quotes a word for a shell if it needs quotes.
function quoted(word) {
  return /^[\w\-./:=@,+%]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

// A text as Python writes it.
const pythonText = (text) => JSON.stringify(text).replace(/\u007f/g, '\\u007f');

function pythonValue(value) {
  if (typeof value === 'string') return pythonText(value);
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return String(value);
}

// The name that a saved body has.
const bodyFile = (model) => `${model.replace(/[^\w.-]+/g, '_')}.request`;

// Needs the body to be saved first?
const isSaved = (request) => !request.streams && !request.inputs.every(isSmall) && !canGenerate(request);

// One file that is sent as it is, and the rest small, is a line with `base64`.
function canGenerate({ inputs, outputs }) {
  const files = inputs.filter((input) => input.bytes);
  return files.length === 1 && inputs.every((input) => input.bytes || isSmall(input))
    && !isBinary(outputs);
}

function curlLine(request, rest) {
  const url = (verb) => quoted(rest + pathOf(request.model, verb));
  if (request.streams) return `curl -sN ${url('generate_stream')} -d ${quoted(generateBody(request))}`;
  const { headers, text } = inferBody(request);
  const save = isBinary(request.outputs) ? ' -o answer.bin' : '';
  if (text) return `curl -s ${url('infer')}${save} -d ${quoted(text)}`;
  if (canGenerate(request)) {
    const file = request.inputs.find((input) => input.bytes);
    const others = { ...request, inputs: request.inputs.filter((input) => input !== file) };
    const tail = generateBody(others).slice(1);
    const begin = `{${JSON.stringify(file.name)}:{"b64":"`, end = `"}${tail === '}' ? '' : ','}${tail}`;
    return `(printf %s ${quoted(begin)}; base64 -w0 ${quoted(file.file)}; printf %s ${quoted(end)}) | `
      + `curl -s ${url('generate')} -d @-`;
  }
  const head = quoted(`${LENGTH}: ${headers[LENGTH]}`);
  return `curl -s ${url('infer')} -H ${head}${save} --data-binary @${quoted(bodyFile(request.model))}`;
}

const pythonShape = (shape) => shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(', ')})`;

// Lines after which `array` has the elements of an input.
function pythonArray({ datatype, shape, values, bytes, file, pixels, fill }) {
  if (bytes) return [`array = np.array([open(${pythonText(file)}, "rb").read()], dtype=np.object_)`];
  if (pixels) return pythonPixels(file, shape, pixels);
  if (fill === 'zeros') return [`array = np.zeros(${pythonShape(shape)})`];
  if (fill === 'random') return [`array = np.random.random(${pythonShape(shape)})${isFloat(datatype) ? '' : ' * 100'}`];
  const list = `[${Array.from(values, pythonValue).join(', ')}]`;
  if (datatype !== 'BYTES') return [`array = np.array(${list}).reshape(${pythonShape(shape)})`];
  return [`array = np.array([text.encode() for text in ${list}], dtype=np.object_).reshape(${pythonShape(shape)})`];
}

function pythonPixels(file, shape, { first, channels, order, range }) {
  const [height, width] = first ? shape.slice(2) : shape.slice(1, 3);
  const mode = channels === 1 ? 'L' : 'RGB';
  const lines = [
    `image = Image.open(${pythonText(file)}).convert("${mode}").resize((${width}, ${height}))`,
    `array = np.asarray(image, dtype=np.float32)${channels === 1 ? '[..., None]' : ''}`,
  ];
  const [means, scales] = MEANS[range] ?? [];
  if (range === 'one') lines.push('array = array / 255');
  if (means) lines.push(`array = (array - [${means.join(', ')}]) / [${scales.join(', ')}]`);
  if (order === 'BGR' && channels === 3) lines.push('array = array[..., ::-1]');
  if (first) lines.push('array = array.transpose(2, 0, 1)');
  return [...lines, 'array = array[None]'];
}

function pythonLines(request, { rest, grpc, hasTls, hasGrpcTls }) {
  if (request.streams && grpc) return pythonStream(request, grpc, hasGrpcTls);
  const needsImage = request.inputs.some((input) => input.pixels);
  const lines = ['import numpy as np', 'import tritonclient.http as http  # pip install tritonclient[http]'];
  if (needsImage) lines.push('from PIL import Image  # pip install pillow');
  const { settings, more } = pythonSequence(request);
  if (more) lines.unshift('import wave');
  const address = rest.replace(/^https?:\/\//, '');
  lines.push('', `client = http.InferenceServerClient(${pythonText(address)}${hasTls ? ', ssl=True' : ''})`);
  if (more) lines.push(...more.before);
  const indent = more ? '    ' : '';
  const body = ['inputs = []'];
  for (const input of request.inputs) body.push(...pythonInput(input, more));
  const given = settings.length > 0 ? `, ${settings.join(', ')}` : '';
  body.push(`result = client.infer(${pythonText(request.model)}, inputs${given})`);
  for (const { name } of request.outputs)
    body.push(`print(${pythonText(name)}, result.as_numpy(${pythonText(name)}))`);
  return [...lines, ...body.map((line) => indent + line)].join('\n');
}

// Lines that add an input; `more` if it is a step of a loop.
function pythonInput(input, more) {
  const datatype = input.datatype ?? guessedType(input.values);
  const array = more ? [`array = step.reshape(${pythonShape(input.shape)})`] : pythonArray({ ...input, datatype });
  const cast = `array = np.ascontiguousarray(array, dtype=np.${NUMPY[datatype] ?? 'float32'})`;
  return [
    ...array,
    ...(datatype === 'BYTES' ? [] : [cast]),
    `inputs.append(http.InferInput(${pythonText(input.name)}, array.shape, ${pythonText(datatype)}))`,
    'inputs[-1].set_data_from_numpy(array)',
  ];
}

// The datatype that a graph's input has by its values.
function guessedType(values) {
  if (values.some((value) => typeof value === 'string')) return 'BYTES';
  if (values.some((value) => typeof value === 'boolean')) return 'BOOL';
  return values.every(Number.isInteger) ? 'INT64' : 'FP32';
}

// A whole sound in the steps of a sequence, or a sequence of one step.
function pythonSequence({ stateful, sound }) {
  if (!stateful) return { settings: [], more: null };
  const id = `sequence_id=${SEQUENCE}`;
  if (!sound) return { settings: [id, 'sequence_start=True', 'sequence_end=True'], more: null };
  const { file, size, rate } = sound;
  const before = [
    `sound = wave.open(${pythonText(file)})  # 16 bits; at ${rate} samples a second`,
    'samples = np.frombuffer(sound.readframes(sound.getnframes()), np.int16)',
    'samples = samples.reshape(-1, sound.getnchannels()).mean(axis=1) / 32768',
    `samples = np.pad(samples, (0, -len(samples) % ${size}))`,
    `for at in range(0, len(samples), ${size}):`,
    `    step = samples[at:at + ${size}]`,
  ];
  const end = `sequence_end=at + ${size} >= len(samples)`;
  return { settings: [id, 'sequence_start=at == 0', end], more: { before } };
}

function pythonStream(request, grpc, hasTls) {
  const lines = [
    'import numpy as np', 'import tritonclient.grpc as grpc  # pip install tritonclient[grpc]', '',
    'def show(result, error):',
    '    names = [output.name for output in result.get_response().outputs] if result else []',
    '    print(error or {name: result.as_numpy(name) for name in names})',
    '',
    `client = grpc.InferenceServerClient(${pythonText(grpc)}${hasTls ? ', ssl=True' : ''})`,
    'client.start_stream(show)',
    'inputs = []',
  ];
  for (const input of request.inputs)
    lines.push(...pythonInput(input, null).map((line) => line.replace('http.Infer', 'grpc.Infer')));
  lines.push(`client.async_stream_infer(${pythonText(request.model)}, inputs)`, 'client.stop_stream()');
  return lines.join('\n');
}
